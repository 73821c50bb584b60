"""Settings of a worker with executors on other hosts."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.worker.engine import cluster
from headrace.worker.engine.cluster import SparkCluster, _Checked, _shown, is_local, python_for_executors, with_jars
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_conf import driver_conf
from headrace.worker.engine.executor_archives import ExecutorArchive

JARS = [Path("/cache/a.jar"), Path("/cache/b.jar")]


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,1]"])
def test_threads_of_the_driver_are_local(master: str) -> None:
    assert is_local(master)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host", "local-cluster[2,1,1024]"])
def test_everything_else_is_not(master: str) -> None:
    assert not is_local(master)


def test_on_a_cluster_an_operators_drivers_are_sent_too(tmp_path: Path) -> None:
    driver = tmp_path / "driver.jar"
    driver.touch()
    conf = {
        "spark.master": "spark://host:7077",
        "spark.jars": "/own.jar",
        "spark.driver.extraClassPath": f"{driver}:/conf:/not-here.jar",
    }
    assert with_jars(conf, JARS)["spark.jars"] == f"/cache/a.jar,/cache/b.jar,/own.jar,{driver}"


def test_locally_jars_are_on_the_class_path() -> None:
    found = with_jars({"spark.master": "local[*]", "spark.driver.extraClassPath": "/own.jar"}, JARS)
    assert found["spark.driver.extraClassPath"] == "/cache/a.jar:/cache/b.jar:/own.jar"
    assert "spark.jars" not in found


def test_executors_run_the_python_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert python_for_executors({"spark.master": "yarn"}) == sys.executable
    assert python_for_executors({"spark.master": "yarn", "spark.pyspark.python": "./env/bin/python"}) == (
        "./env/bin/python"
    )
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert python_for_executors({"spark.master": "yarn"}) == "/opt/python"
    assert python_for_executors({"spark.master": "local[*]"}) == sys.executable


def test_a_cluster_is_not_told_that_the_driver_is_on_loopback() -> None:
    assert driver_conf({}, [])["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in driver_conf({"spark.master": "spark://host:7077"}, [])
    own = {"spark.master": "spark://host:7077", "spark.driver.host": "worker-1"}
    assert driver_conf(own, [])["spark.driver.host"] == "worker-1"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            ": org.apache.spark.SparkException: Job aborted: Lost task 1.0 in stage 0.0 (TID 1) (10.0.0.1 executor 1): "
            'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory\n\tat java.lang',
            'Cannot run program "/no/python": error=2, No such file or directory',
        ),
        (
            "An error occurred\n  File x.py\nModuleNotFoundError: No module named 'headrace'\n\tat org.apache.spark",
            "ModuleNotFoundError: No module named 'headrace'",
        ),
        ("The session is over.\nmore", "The session is over"),
    ],
)
def test_why_executors_cannot_be_used_is_said_alike_for_each_attempt(said: str, shown: str) -> None:
    assert _shown(RuntimeError(said)) == shown


def session(master: str, executors: int, jobs: int, dynamic: bool = False) -> Any:
    """A session with so many executors and jobs."""
    status = SimpleNamespace(
        applicationId=lambda: "app-1",
        getConf=lambda: SimpleNamespace(getBoolean=lambda *_: dynamic),
        getExecutorIds=lambda: SimpleNamespace(size=lambda: executors),
        statusTracker=lambda: SimpleNamespace(getActiveJobIds=lambda: [0] * jobs),
        master=lambda: master,
    )
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: status)))


@pytest.mark.parametrize(
    ("master", "had", "jobs", "is_lost"),
    [
        ("spark://host:7077", 2, 1, True),
        ("spark://host:7077", 2, 0, False),
        ("spark://host:7077", 0, 1, False),
        ("k8s://https://host", 2, 1, False),
    ],
)
def test_a_session_is_lost_whose_executors_do_not_come_back_while_jobs_wait(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, had: int, jobs: int, is_lost: bool
) -> None:
    moments = iter((1.0, 20.0, 40.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    found = SparkCluster([], tmp_path)
    assert found.lost(session(master, had, jobs)) is None
    assert found.lost(session(master, 0, jobs)) is None
    assert found.lost(session(master, 0, jobs)) is None
    assert (found.lost(session(master, 0, jobs)) is not None) is is_lost


def test_an_executor_that_comes_back_in_time_is_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moments = iter((1.0, 21.0, 40.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    found = SparkCluster([], tmp_path)
    for executors in (2, 0, 1, 0, 0):
        assert found.lost(session("spark://host:7077", executors, 1)) is None


@pytest.mark.parametrize(
    ("executors", "said"),
    [
        (0, "no executor for 15 s. Either no host has as many"),
        (2, "2 executors of spark://host:7077 have not answered"),
    ],
)
def test_a_probe_that_waits_says_for_what(
    executors: int, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = SparkCluster([], tmp_path)
    found._checked = _Checked(session("spark://host:7077", executors, 1))
    found._warn(found._checked.session)
    assert found.trouble is not None
    assert said in found.trouble
    assert found.trouble in caplog.text


def test_executors_that_end_as_they_start_are_told_of_with_the_reason_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = SparkCluster([], tmp_path)
    line = (
        "[2026-11-28 08:53:36,521] INFO Executor updated: app-1/{0} is now {1} "
        "(org.apache.spark.deploy.client.StandaloneAppClient$ClientEndpoint:303)\n"
    )
    why = 'Error running executor: java.io.IOException: Cannot run program "/no/java"{}: error=2, No such file'
    for number in range(3):
        folder = f' (in directory "/work/{number}")'
        assert found.takes(line.format(number, f"FAILED ({why.format(folder)})"))
    assert found.trouble is not None
    assert why.format("") in found.trouble
    assert caplog.text.count("end as they start") == 1
    begun = session("spark://host:7077", 0, 1)
    found._checked = _Checked(begun)
    found._warn(begun)
    assert why.format("") in found.trouble, "the reason, and not that there are none"
    assert found.takes(line.format(4, "EXITED (Command exited with code 1)"))
    assert "Command exited with code 1. See stderr" in found.trouble
    assert not found.takes("[2026-11-28 08:53:36,521] ERROR Executor updated: x (org.apache.spark.A:1)\n")


def test_jobs_wait_until_executors_are_checked() -> None:
    assert Spark({}, []).executors.is_ready
    assert not Spark({"spark.master": "spark://host:7077"}, []).executors.is_ready


def test_with_dynamic_allocation_no_executors_are_no_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moments = iter((1.0, 20.0, 40.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    found = SparkCluster([], tmp_path)
    for executors in (2, 0, 0, 0):
        assert found.lost(session("spark://host:7077", executors, 1, dynamic=True)) is None


class Probed(SparkCluster):
    """Its executors are well as soon as a probe is let through."""

    def __init__(self, home: Path) -> None:
        super().__init__([], home)
        self.through = threading.Semaphore(0)
        self.passed: list[Any] = []

    def _equip(self, session: Any) -> str:
        assert self.through.acquire(timeout=60)
        self.passed.append(session)
        return ""


def ready(found: SparkCluster) -> None:
    checked = found._checked
    assert checked is not None
    assert checked.ready.wait(60)
    assert found.is_ready


def test_a_job_that_fails_for_what_an_executor_lacks_has_all_checked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cluster, "_PAUSE", SimpleNamespace(pause=lambda _: 0.0))
    found = Probed(tmp_path)
    found.begin(session("spark://host:7077", 1, 0))
    found.through.release()
    ready(found)
    assert found.doubt("Job aborted: ValueError: no number") == ""
    assert found.is_ready
    for _ in range(2):  # jobs that fail side by side begin one check
        assert found.doubt("Job aborted:\nImportError: no pyarrow\n\tat").startswith("ImportError: no pyarrow")
        assert not found.is_ready
    found.through.release()
    ready(found)
    assert len(found.passed) == 2


def test_a_check_that_ends_late_says_nothing_of_the_next_session(tmp_path: Path) -> None:
    found = Probed(tmp_path)
    found.begin(session("spark://host:7077", 1, 0))
    late = found._checked
    assert late is not None
    found.end()
    found.begin(session("spark://host:7077", 1, 0))
    late.ready.set()
    assert not found.is_ready
    found.end()
    found.through.release(2)


def test_half_a_copy_of_an_archive_is_never_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_: object, to: Path) -> None:
        to.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "no space left on device")

    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(shutil, "copyfile", full)
    (tmp_path / "a.zip").write_bytes(b"whole")
    home = tmp_path / "home"
    home.mkdir()
    with pytest.raises(OSError, match="no space"):
        SparkCluster([], home)._send(session("spark://host:7077", 1, 0), ExecutorArchive(tmp_path / "a.zip", "a"), [])
    assert not list(home.iterdir())
