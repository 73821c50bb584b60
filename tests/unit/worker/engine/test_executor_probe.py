"""The words on executors that are not as the worker is."""

from __future__ import annotations

from dataclasses import replace

from headrace.worker.engine.executor_probe import Look, differences, look

OWN = Look("here", "CPython 3.11", "Linux on x86_64", "4.2.1", "/opt/headrace", {"pyarrow": "26.0", "hdfs": "2.7"})
THERE = replace(OWN, host="there", code="/work/app/0/headrace-1/headrace")


def test_equal_executors_differ_in_nothing() -> None:
    assert differences(OWN, [THERE, THERE], "headrace-1") == differences(OWN, [], "headrace-1")


def test_packages_that_differ_are_named_apart() -> None:
    other = replace(THERE, packages={"pyarrow": "25.0", "hdfs": None})
    assert differences(OWN, [THERE, other], "headrace-1").packages == {"pyarrow", "hdfs"}


def test_what_cannot_be_sent_is_said_once_for_each_host() -> None:
    other = replace(THERE, python="CPython 3.9", spark="4.1.0", broken={"pyarrow": "ImportError: too old"})
    assert differences(OWN, [other, other], "headrace-1").others == (
        "the Python on there is CPython 3.9, the worker's is CPython 3.11",
        "the Spark on there is 4.1.0, the worker's is 4.2.1",
        "pyarrow on there cannot be loaded: ImportError: too old",
    )


def test_another_headrace_is_found_out() -> None:
    (said,) = differences(OWN, [replace(THERE, code="/usr/lib/headrace")], "headrace-1").others
    assert said == "Headrace on there comes from /usr/lib/headrace and not from what the worker sent"


def test_a_look_tells_versions_and_what_is_missing() -> None:
    own = look(["pyarrow", "not-installed-anywhere"])
    assert own.packages["pyarrow"]
    assert own.packages["not-installed-anywhere"] is None
    assert own.broken == {}
