"""The steps from a cluster to the files, and what stands for a secret that was hidden."""

from __future__ import annotations

import pytest

from headrace.config.problems import ConfigError
from headrace.config.properties import ConnectorFile
from headrace.worker.cli.apply import file_name
from headrace.worker.cli.apply_plan import KEPT, plan
from headrace.worker.cli.cluster_rest import Present


def file(name: str, state: str | None = None, **config: str) -> ConnectorFile:
    return ConnectorFile(name, {"name": name, **config}, state, f"{name}.json")


def present(name: str, state: str = "RUNNING", **config: str) -> Present:
    return Present({"name": name, **config}, state)


def test_each_connector_gets_the_step_that_it_needs() -> None:
    files = [file("new", "PAUSED", a="1"), file("same", a="1"), file("other", a="2", b="3"), file("kept", "RUNNING")]
    there = {
        "same": present("same", "PAUSED", a="1"),
        "other": present("other", a="1", c="4"),
        "kept": present("kept", "STOPPED"),
        "old": present("old", a="1"),
    }
    found = {step.name: (step.action, step.differences, step.state) for step in plan(files, there, prune=True)}
    assert found == {
        "kept": ("update", {}, "RUNNING"),
        "new": ("create", {"a": (None, "1"), "name": (None, "new")}, "PAUSED"),
        "old": ("delete", {"a": ("1", None), "name": ("old", None)}, None),
        "other": ("update", {"a": ("1", "2"), "b": (None, "3"), "c": ("4", None)}, None),
    }
    assert [step.name for step in plan(files, there, prune=False)] == ["kept", "new", "other"]


def test_a_hidden_secret_is_equal_to_any_and_kept_by_its_placeholder() -> None:
    there = {"c": present("c", password="[hidden]", a="1")}
    assert plan([file("c", password="s3cret", a="1")], there, prune=False) == []
    assert plan([file("c", password=KEPT, a="1")], there, prune=False) == []
    (step,) = plan([file("c", password=KEPT, a="2")], there, prune=False)
    assert step.after["password"] == "[hidden]"
    (step,) = plan([file("c", a="1")], there, prune=False)
    assert step.differences == {"password": ("[hidden]", None)}


@pytest.mark.parametrize("value", [KEPT, "[hidden]"])
def test_a_placeholder_without_a_hidden_secret_is_refused(value: str) -> None:
    for there in ({}, {"c": present("c", password="plain")}):
        with pytest.raises(ConfigError, match=r"c.json: password.*no such secret"):
            plan([file("c", password=value)], there, prune=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain-1", "plain-1.json"),
        ("a/b", "a%2Fb.json"),
        ("..", "%2E..json"),
        (".x", "%2Ex.json"),
        ("ü", "%C3%BC.json"),
    ],
)
def test_any_name_of_a_connector_makes_a_file_in_the_folder(name: str, expected: str) -> None:
    assert file_name(name) == expected
