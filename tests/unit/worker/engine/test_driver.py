"""The settings with which Spark's driver starts."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.plugins.backoff import Backoff
from headrace.worker.engine import driver
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_conf import driver_conf

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_config_of_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_spark_logs_as_the_worker_does() -> None:
    options = driver_conf({OPTIONS: "-Xss1m"}, [])[OPTIONS]
    assert options.startswith("-Xss1m")
    (url,) = [one for one in options.split() if one.startswith("-Dlog4j2.configurationFile=file://")]
    assert url.endswith("/worker/engine/log4j2.properties")
    assert Path(driver.__file__).with_name("log4j2.properties").is_file()


def test_an_operator_s_own_configuration_of_spark_s_log_counts(tmp_path: Path) -> None:
    own = "-Dlog4j2.configurationFile=/etc/own.properties"
    assert driver_conf({OPTIONS: own}, [])[OPTIONS].count("log4j2.configurationFile") == 1
    (tmp_path / "log4j2.properties").touch()
    assert "log4j2.configurationFile" not in driver_conf({}, [])[OPTIONS]


def test_spark_repeats_no_task_whatever_is_set(caplog: pytest.LogCaptureFixture) -> None:
    assert driver_conf({}, [])["spark.task.maxFailures"] == "1"
    assert not caplog.records
    assert driver_conf({"spark.task.maxFailures": "4"}, [])["spark.task.maxFailures"] == "1"
    assert "spark.task.maxFailures=4 is not used" in caplog.text


def test_its_owner_goes_on_whatever_watching_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has no thread left for the beat: the dead JVM must be replaced all the same."""
    monkeypatch.setattr(driver, "_BACKOFF", Backoff(0.001, 0.001))
    spark, begun = Spark({}, []), threading.Semaphore(0)

    def watch() -> str:
        begun.release()
        raise RuntimeError("can't start new thread")

    def fail(_ready: bool) -> None:
        raise OSError("cannot show it")

    monkeypatch.setattr(spark, "_begin", lambda: None)
    monkeypatch.setattr(spark, "_watch", watch)
    monkeypatch.setattr(spark, "_end", lambda: 1 / 0)
    spark.on_change(fail)
    spark.start()
    for _ in range(3):
        assert begun.acquire(timeout=60)
    spark._stopping.set()
    spark._thread.join(60)
    assert spark.restarts >= 2
    assert spark._thread.error is None


@pytest.mark.parametrize(
    ("conf", "is_on"),
    [
        ({}, True),
        ({"spark.master": "yarn"}, True),
        ({"spark.master": "yarn", "spark.shuffle.service.enabled": "true"}, False),
        ({"spark.master": "local-cluster[1,1,1024]"}, False),
        ({"spark.master": "spark://h:7077"}, False),
    ],
)
def test_only_where_nobody_else_needs_the_secret_spark_makes_one(
    conf: dict[str, str], is_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found = driver_conf({"spark.master": "local[2]", **conf}, [])
    assert (found.get("spark.authenticate") == "true") is is_on
    assert ("Whoever reaches this host may call Spark's driver" in caplog.text) is not is_on


def test_a_driver_that_cannot_be_used_is_known_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    spark, process = Spark({}, []), object()
    monkeypatch.setattr(driver, "opened_gateway", lambda *_: SimpleNamespace(proc=process))
    monkeypatch.setattr(driver, "installed_spark", Path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError):
        spark._begin()
    assert spark._process is process
