"""The JVM of Spark's driver, started without spark-submit, against what spark-submit would start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headrace.plugins.interop.jvm.jars import find_java
from headrace.worker.engine import gateway
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_conf import DEFAULTS
from headrace.worker.engine.spark_internals import gateway_main

pytestmark = pytest.mark.spark


def test_the_driver_is_started_without_spark_submit(engine: Spark) -> None:
    jvm: Any = engine.session()._jvm
    assert jvm.java.lang.System.getProperty("sun.java.command") == gateway_main()
    assert "spark-mllib_" not in jvm.java.lang.System.getProperty("java.class.path")


def test_sparks_compiler_counts_as_unsigned(engine: Spark) -> None:
    jvm: Any = engine.session()._jvm
    assert jvm.java.lang.Class.forName("org.codehaus.janino.UnitCompiler").getSigners() is None


def test_the_command_is_that_of_spark_submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    conf = {key: value for key, value in DEFAULTS.items() if key.startswith("spark.driver.") or key == "spark.master"}
    conf["spark.driver.extraClassPath"] = "/a.jar:/b.jar"
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    launcher = [find_java().path, "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    asked = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    said = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", *asked, "pyspark-shell"],
        env={**os.environ, "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = said.strip("\n\0").split("\0")
    theirs = theirs[: theirs.index("org.apache.spark.deploy.SparkSubmit")]
    ours = gateway.command(conf)
    assert ours[3:] == theirs[3:]
    paths = {str(found) for one in theirs[2].split(":") for found in (home.glob("jars/*.jar") if "*" in one else [one])}
    assert {path.rstrip("/") for path in paths if "spark-mllib_" not in path} == set(ours[2].split(":"))
