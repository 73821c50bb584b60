"""The start script for Strimzi in a scratch home, and Apache's scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import javaproperties
import pytest

from tests.integration.worker_process import eventually

ROOT = Path(__file__).parents[3] / "deploy"
GIVEN = "group.id=c\nrest.advertised.host.name=${strimzienv:ADVERTISED_HOSTNAME}\n"


def started(folder: Path, given: str, **environment: str) -> tuple[dict[str, str], list[str]]:
    """The worker's properties and the command with its environment, with a tini that only tells them."""
    home, path = folder / "kafka", folder / "path"
    (home / "custom-config").mkdir(parents=True)
    (home / "custom-config" / "kafka-connect.properties").write_text(given)
    (home / "custom-config" / "log4j2.properties").write_text("rootLogger.level = WARN\n")
    path.mkdir()
    (path / "tini").write_text('#!/bin/sh\necho "$*"\nenv\n')
    (path / "tini").chmod(0o755)
    file = folder / "connect.properties"
    env = {"PATH": f"{path}:{os.environ['PATH']}", "KAFKA_HOME": str(home), "STRIMZI_CONNECT_FILE": str(file)}
    env |= {"ADVERTISED_HOSTNAME": "w-0.w.kafka.svc", "TMPDIR": str(folder / "tmp"), **environment}
    ran = subprocess.run([ROOT / "strimzi/kafka_connect_run.sh"], env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert file.stat().st_mode & 0o077 == 0
    return javaproperties.loads(file.read_text()), ran.stdout.splitlines()


def test_strimzis_file_is_the_workers(tmp_path: Path) -> None:
    props, said = started(tmp_path, GIVEN)
    assert props == {"group.id": "c", "rest.advertised.host.name": "${strimzienv:ADVERTISED_HOSTNAME}"}
    assert said[0] == f"-w -e 143 -- {tmp_path}/kafka/bin/connect-distributed.sh {tmp_path}/connect.properties"
    assert {"ADVERTISED_HOSTNAME=w-0.w.kafka.svc", "CONNECT_LOG4J_ROOT_LOGLEVEL=WARN"} <= set(said)


def test_strimzis_environment_is_taken_over(tmp_path: Path) -> None:
    reporter = "metric.reporters=io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter"
    props, said = started(
        tmp_path,
        GIVEN + reporter,
        KAFKA_HEAP_OPTS="-Xms1g -Xmx2G",
        STRIMZI_JAVA_SYSTEM_PROPERTIES="-Da=b",
        STRIMZI_TRACING="opentelemetry",
    )
    assert props["metrics.names"] == "strimzi-reporter"
    assert props["metrics.listeners"] == "http://:9404"
    assert props["spark.driver.memory"] == "2g"
    assert props["spark.driver.extraJavaOptions"].strip() == "-Da=b"
    assert props["otel.exporter.otlp.endpoint"] == "http://localhost:4318"
    assert not [line for line in said if line.startswith("KAFKA_HEAP_OPTS")]


def test_the_jmx_exporters_port_has_the_metrics(tmp_path: Path) -> None:
    props, _ = started(tmp_path, GIVEN, KAFKA_CONNECT_JMX_EXPORTER_ENABLED="true")
    assert props["metrics.listeners"] == "http://:9404"
    assert "metrics.names" not in props


def test_jmx_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no JMX"):
        started(tmp_path, GIVEN, STRIMZI_JMX_ENABLED="true")


@pytest.mark.parametrize(
    ("option", "lines", "level"),
    [
        ("-Dlog4j.configuration=file:{}", ["log4j.rootLogger = DEBUG, FILE", "log4j.appender.FILE.File={}"], "DEBUG"),
        ("-Da=b -Dlog4j2.configurationFile={} -Dc=d", ["rootLogger.level=warn", "appender.file.fileName = {}"], "WARN"),
        (
            "-Dlog4j2.configurationFile={}",
            [
                '    fileName: "{}"',
                "  Loggers:",
                "    Root:",
                "      level: debug",
                "    Logger:",
                "      level: error",
            ],
            "DEBUG",
        ),
        ("-Dlog4j2.configurationFile={}", ['    fileName: "{}"', "      level: error"], "none"),
    ],
)
def test_file_and_level_of_a_log4j_file_are_the_workers(
    option: str, lines: list[str], level: str, tmp_path: Path
) -> None:
    text = "".join(f"{line.format(tmp_path / 'connect.log')}\n" for line in ["first=1", *lines])
    (tmp_path / "log4j").write_text(text)
    said = "$1, ${KAFKA_LOG4J_OPTS:-no} options, ${CONNECT_LOG4J_ROOT_LOGLEVEL:-none}, $HEADRACE_LOG_FILE"
    (tmp_path / "connect-standalone").write_text(f'#!/bin/sh\necho "{said}"\n')
    (tmp_path / "connect-standalone").chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KAFKA_LOG4J_OPTS": option.format(tmp_path / "log4j")}
    script = ROOT / "strimzi/bin/connect-standalone.sh"
    ran = subprocess.run([script, "w"], env=env, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"w, no options, {level}, {tmp_path / 'connect.log'}\n"


def test_in_the_background_the_log_goes_to_that_file_too(tmp_path: Path) -> None:
    (tmp_path / "log4j").write_text(f"log4j.appender.FILE.File={tmp_path / 'connect.log'}\n")
    (tmp_path / "worker.properties").write_text("bootstrap.servers=127.0.0.1:1\n")  # without a group
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFKA_LOG4J_OPTS": f"-Dlog4j.configuration=file:{tmp_path / 'log4j'}",
        "LOG_DIR": str(tmp_path / "logs"),
    }
    command = [ROOT / "strimzi/bin/connect-distributed.sh", "-daemon", tmp_path / "worker.properties"]
    subprocess.run(command, env=env, capture_output=True, timeout=60, check=True)
    log = tmp_path / "connect.log"
    eventually(lambda: log.exists() and "group.id" in log.read_text(), 60)
    assert (tmp_path / "logs" / "connectDistributed.out").read_text() == ""


def test_the_image_for_strimzi_has_all_scripts() -> None:
    lines = (ROOT / "strimzi/Dockerfile").read_text().splitlines()
    copied = dict(line.removeprefix("COPY ").split() for line in lines if line.startswith("COPY "))
    assert copied == {"kafka_connect_run.sh": "/opt/kafka/", "bin": "/opt/kafka/bin"}
    assert {one.name for one in (ROOT / "strimzi").iterdir()} == {*copied, "Dockerfile"}
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 1001"


@pytest.mark.parametrize("name", ["distributed", "standalone", "mirror-maker", "plugin-path"])
def test_apaches_scripts_become_the_command(name: str) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        [ROOT / f"strimzi/bin/connect-{name}.sh", "--help"], env=env, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert f"connect-{name}" in ran.stdout + ran.stderr
