"""The JVM of Spark's driver that is started without spark-submit, and the source of its class path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.worker.engine import gateway

CONF = {
    "spark.master": "local[*]",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-Xss1m '-Dtwo=a b'",
    "spark.driver.extraClassPath": "/a.jar:/b.jar",
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture(autouse=True)
def spark_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "PYSPARK_GATEWAY_PORT", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for folder in ("jars", "conf"):
        (tmp_path / folder).mkdir()
    for jar in ("z.jar", "spark-mllib_2.13-4.2.1.jar", "spark-mllib-local_2.13-4.2.1.jar", "c.jar"):
        (tmp_path / "jars" / jar).touch()
    return tmp_path


def test_class_path_and_options(spark_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    java, _, class_path, *options = gateway.command(CONF)
    jars = [f"{spark_home}/jars/{jar}" for jar in ("c.jar", "spark-mllib-local_2.13-4.2.1.jar", "z.jar")]
    assert class_path.split(":") == ["/a.jar", "/b.jar", f"{spark_home}/conf", *jars, "/etc/hadoop"]
    assert java == "java"
    assert options[:3] == ["-Xmx768m", "-Xss1m", "-Dtwo=a b"]


def test_only_a_driver_on_this_machine_s_cores_goes_without_spark_submit() -> None:
    assert gateway._is_plain(CONF)
    for key, value in {
        "spark.master": "spark://h:7077",
        "spark.jars": "/more.jar",
        "spark.jars.packages": "a:b:1",
        "spark.submit.pyFiles": "/a.py",
        "spark.driver.defaultJavaOptions": "-Xss2m",
        "spark.driver.extraLibraryPath": "/lib",
    }.items():
        assert not gateway._is_plain({**CONF, key: value}), key


def test_what_an_operator_configured_for_spark_submit_counts(spark_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("spark-env.sh", "spark-defaults.conf"):
        (spark_home / "conf" / name).touch()
        assert not gateway._is_plain(CONF), name
        (spark_home / "conf" / name).unlink()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    assert not gateway._is_plain(CONF)


def test_pyspark_is_imported_without_pandas_and_knows_both_afterwards() -> None:
    code = """
import sys
from headrace.worker.engine.spark_internals import import_pyspark
import_pyspark()
assert "pandas" not in sys.modules
import pyspark.sql.pandas.utils as utils
from pyspark.testing.utils import have_numpy
assert have_numpy
found = [one for name, one in sys.modules.items() if name.startswith("pyspark.sql")]
known = {id(one.require_minimum_pandas_version) for one in found if hasattr(one, "require_minimum_pandas_version")}
assert known == {id(utils.require_minimum_pandas_version)}
utils.require_minimum_pandas_version()
assert "pandas" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_local_driver_is_told_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    assert gateway.own_address(CONF) == {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
    assert gateway.own_address({**CONF, "spark.master": "spark://h:7077"}) == {}
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.1")
    assert gateway.own_address(CONF) == {}
