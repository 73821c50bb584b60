"""Connect's client tools from PyPI, unchanged, against a running worker."""

from __future__ import annotations

import contextlib
import json
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.compat import client_tools
from tests.compat.rest_worker import RestWorker
from tests.held_ports import held_port
from tests.integration.worker_process import eventually


@pytest.fixture
def worker(rest_worker: RestWorker, tmp_path: Path) -> Iterator[RestWorker]:
    """A worker with one running connector, `lines`; what the test makes is gone at its end."""
    (tmp_path / "in.txt").write_text("one\n")
    rest_worker.wait_gone("lines")
    rest_worker.put("lines", file=str(tmp_path / "in.txt"))
    rest_worker.wait_states("lines", "RUNNING")
    yield rest_worker
    for name in rest_worker.http.get("/connectors").json():
        rest_worker.http.delete(f"/connectors/{name}").raise_for_status()


def source(folder: Path, **more: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": "clients", **more}


class TestKafkaConnectPy:
    """Its command `kc`."""

    def kc(self, worker: RestWorker, *arguments: str) -> Any:
        out = client_tools.run("kafka-connect-py", "kc", *arguments, env={"KAFKA_CONNECT_URL": worker.url})
        return json.loads(out) if out.strip() else None

    def test_reads(self, worker: RestWorker) -> None:
        assert set(self.kc(worker, "info")) == {"version", "commit", "kafka_cluster_id"}
        assert self.kc(worker, "list") == ["lines"]
        assert list(self.kc(worker, "list", "--state", "running")) == ["lines"]
        assert self.kc(worker, "list", "--expand", "info")["lines"]["info"]["type"] == "source"
        assert self.kc(worker, "get", "lines")["tasks"] == [{"connector": "lines", "task": 0}]
        assert self.kc(worker, "config", "lines")["name"] == "lines"
        assert self.kc(worker, "status", "lines")["connector"]["state"] == "RUNNING"
        assert self.kc(worker, "list-tasks", "lines")[0]["id"]["task"] == 0
        assert self.kc(worker, "task-status", "lines", "0")["state"] == "RUNNING"
        assert list(self.kc(worker, "list-topics", "lines")) == ["lines"]
        assert {one["type"] for one in self.kc(worker, "list-plugins")} == {"source", "sink"}

    def test_changes(self, worker: RestWorker, tmp_path: Path) -> None:
        made = self.kc(worker, "create", "-d", json.dumps({"name": "kc", "config": source(tmp_path)}))
        assert made["name"] == "kc"
        worker.wait_states("kc", "RUNNING")
        updated = self.kc(worker, "update", "kc", "-d", json.dumps(source(tmp_path, topic="other")))
        assert updated["config"]["topic"] == "other"
        self.kc(worker, "pause", "kc")
        worker.wait_states("kc", "PAUSED")
        self.kc(worker, "resume", "kc")
        worker.wait_states("kc", "RUNNING")
        self.kc(worker, "restart", "kc")
        self.kc(worker, "restart", "kc", "--include-tasks", "--only-failed")
        worker.wait_states("kc", "RUNNING")
        self.kc(worker, "restart-task", "kc", "0")
        self.kc(worker, "reset-topics", "kc")
        self.kc(worker, "delete", "kc")
        assert self.kc(worker, "list") == ["lines"]

    def test_its_twice_encoded_config_is_refused_and_harms_nothing(self, worker: RestWorker, tmp_path: Path) -> None:
        config = json.dumps(source(tmp_path, name="v"))
        program = str(client_tools.programs("kafka-connect-py") / "kc")
        arguments = ["--url", worker.url, "validate-config", "FileStreamSource", "-d", config]
        ended = subprocess.run([program, *arguments], capture_output=True, timeout=60, check=False)
        assert b"400" in ended.stdout + ended.stderr
        assert self.kc(worker, "list") == ["lines"]


def test_kafka_connect_api(worker: RestWorker, tmp_path: Path) -> None:
    script = """
        import sys
        from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector
        from kafka_connect_api.errors import GenericNotFound
        cluster = Cluster(Api(url=sys.argv[1]))
        assert cluster.version == "4.3.1" and cluster.kafka_cluster, cluster
        lines = cluster.connectors["lines"]
        assert lines.exists() and lines.state == "RUNNING"
        assert lines.connector_class == "FileStreamSource"
        (task,) = lines.tasks
        assert task.is_running() and task.config["topic"] == "clients"
        lines.config = {**lines.config, "topic": "other"}
        assert lines.config["topic"] == "other"
        lines.restart()
        lines.cycle_connector()
        cluster.root_logger = "INFO"
        assert cluster.root_logger["level"] == "INFO"
        cluster.set_logger_log_level("root", "INFO")
        try:
            Connector(cluster, "none").status
        except GenericNotFound as error:
            assert "No status found for connector none" in str(error), error
        else:
            raise AssertionError("an unknown connector has a status")
        lines.delete()
        assert "lines" not in cluster.connectors
    """
    client_tools.run("kafka-connect-api", "python", "-c", textwrap.dedent(script), worker.url)


def test_kafka_connect_cli(worker: RestWorker, tmp_path: Path) -> None:
    def kafka_connect(*arguments: str) -> str:
        return client_tools.run("kafka-connect-cli", "kafka_connect", *arguments, "--url", worker.url)

    kafka_connect("health-check", "--verbose")
    listed = json.loads(kafka_connect("connector", "list"))
    assert listed == [{"connector": "lines", "state": "RUNNING", "failedTasks": []}]
    config = json.dumps(source(tmp_path))
    kafka_connect("connector", "create", "--name", "cli", "--configuration", config, "--if-not-exists")
    worker.wait_states("cli", "RUNNING")
    kafka_connect("connector", "create", "--name", "cli", "--configuration", config, "--if-not-exists")
    assert json.loads(kafka_connect("connector", "get", "--name", "cli"))["connector"] == "cli"
    changed = json.dumps(source(tmp_path, topic="other"))
    kafka_connect("connector", "update", "--name", "cli", "--configuration", changed)
    assert json.loads(kafka_connect("connector", "configuration", "--name", "cli"))["topic"] == "other"
    kafka_connect("connector", "pause", "--name", "cli")
    worker.wait_states("cli", "PAUSED")
    kafka_connect("connector", "resume-all", "--verbose")
    worker.wait_states("cli", "RUNNING")
    assert len(json.loads(kafka_connect("task", "list", "--connector", "cli"))) == 1
    kafka_connect("task", "restart", "--connector", "cli", "--task", "0")
    kafka_connect("connector", "restart", "--name", "cli")
    kafka_connect("connector", "delete", "--name", "cli")
    assert [one["connector"] for one in json.loads(kafka_connect("connector", "list"))] == ["lines"]


def test_kafka_connect_healthcheck(worker: RestWorker) -> None:
    port = held_port()
    worker_id = worker.url.removeprefix("http://").upper()  # it compares them in any case
    arguments = ["--port", str(port), "--connect-url", worker.url, "--connect-worker-id", worker_id]
    with running("kafka-connect-healthcheck", "kafka-connect-healthcheck", *arguments):
        health = eventually(lambda: asked(port), 60)
        assert health.status_code == 200
        assert health.json()["failures"] == []
        worker.put("lost", file="/no/such/folder/x", topics="clients", connector_class="FileStreamSink")
        worker.wait_states("lost", "FAILED")
        health = asked(port)
        assert health is not None
        assert health.status_code == 503
        assert health.json()["failures"][0]["worker_id"] == worker_id.lower()


def asked(port: int) -> httpx.Response | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=60)
    except httpx.TransportError:
        return None


@pytest.mark.parametrize("action", ["restart", "cycle"])
def test_kafka_connect_watcher(worker: RestWorker, tmp_path: Path, action: str) -> None:
    worker.put("lost", file="/no/such/folder/x", topics="clients", connector_class="FileStreamSink")
    worker.wait_states("lost", "FAILED")
    worker.http.put("/connectors/lines/pause")
    worker.wait_states("lines", "PAUSED")  # it resumes those that are paused
    rule = {"include_regex": [".*"], "auto_correct_actions": [{"action": action, "wait_for_status": "5s"}]}
    cluster = {"hostname": "worker", "url": worker.url, "evaluation_rules": [rule]}
    config = tmp_path / "watcher.json"
    config.write_text(json.dumps({"clusters": [cluster], "watch_interval": "2s"}))
    with running("kafka-connect-watcher", "kafka-connect-watcher", "-c", str(config)) as output:
        applied = f"Applied corrective action '{action}' to connector lost"
        eventually(lambda: applied in output.read_text(), 60, output.read_text)
        worker.wait_states("lines", "RUNNING")
    assert "Error applying" not in output.read_text()
    assert "Traceback" not in output.read_text()


@contextlib.contextmanager
def running(tool: str, program: str, *arguments: str) -> Iterator[Path]:
    """The program runs; the file that has its output."""
    command = [str(client_tools.programs(tool) / program), *arguments]
    output = Path(arguments[-1] + ".log") if Path(arguments[-1]).exists() else Path("/dev/null")
    with open(output, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield output
    finally:
        process.kill()
        process.wait()
