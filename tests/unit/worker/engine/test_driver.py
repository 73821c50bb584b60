"""The settings with which Spark's driver starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.worker.engine import driver
from headrace.worker.engine.driver import Spark

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def no_config_of_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_spark_logs_as_the_worker_does() -> None:
    options = Spark({OPTIONS: "-Xss1m"}, [])._conf[OPTIONS]
    assert options.startswith("-Xss1m")
    (url,) = [one for one in options.split() if one.startswith("-Dlog4j2.configurationFile=file://")]
    assert url.endswith("/worker/engine/log4j2.properties")
    assert Path(driver.__file__).with_name("log4j2.properties").is_file()


def test_an_operator_s_own_configuration_of_spark_s_log_counts(tmp_path: Path) -> None:
    own = "-Dlog4j2.configurationFile=/etc/own.properties"
    assert Spark({OPTIONS: own}, [])._conf[OPTIONS].count("log4j2.configurationFile") == 1
    (tmp_path / "log4j2.properties").touch()
    assert "log4j2.configurationFile" not in Spark({}, [])._conf[OPTIONS]


def test_spark_repeats_no_task_whatever_is_set(caplog: pytest.LogCaptureFixture) -> None:
    assert Spark({}, [])._conf["spark.task.maxFailures"] == "1"
    assert not caplog.records
    assert Spark({"spark.task.maxFailures": "4"}, [])._conf["spark.task.maxFailures"] == "1"
    assert "spark.task.maxFailures=4 is not used" in caplog.text
