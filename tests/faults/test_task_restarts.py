"""Tasks that come back: by themselves once their server is there, and made again beside a former one that hangs."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.worker.embedded.kafka_broker import Broker
from tests.held_ports import held_port
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.stranger_plugins import CHOOSY, choosy, installed
from tests.integration.worker_process import Topic, WorkerProcess, envelope, eventually, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TEXT = "org.apache.kafka.connect.storage.StringConverter"


class Server:
    """Takes lines on a port; not there before `start`."""

    def __init__(self) -> None:
        self.port = held_port()
        self.lines: list[bytes] = []

    def start(self) -> None:
        lines = self.lines

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                lines.extend(line.rstrip(b"\n") for line in self.rfile)

        class Listening(socketserver.ThreadingTCPServer):
            allow_reuse_address = True

        self._server = Listening(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module", params=["standalone", pytest.param("distributed", marks=pytest.mark.long)])
def worker(
    request: pytest.FixtureRequest, broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    folder = tmp_path_factory.mktemp("restarts")
    sockets = {"sink": {"org.example.SocketSinkConnector": "SocketSinkConnector"}}
    plugins = installed(choosy(folder / "plugins"), Path(__file__).with_name("socket_plugin.py"), sockets)
    settings = {"plugin.path": str(plugins), "task.restart.backoff.ms": "200"}
    bootstrap = broker_process.bootstrap_servers
    alone = request.param == "standalone"
    with (
        WorkerProcess(folder, bootstrap, settings=settings)
        if alone
        else ClusterWorker(folder, bootstrap, new_cluster(), settings)
    ) as made:
        yield made.wait_ready()


def figure(worker: WorkerProcess, name: str, **labels: str) -> float | None:
    """One of the worker's metrics."""
    found = [
        sample.value
        for family in text_string_to_metric_families(worker.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    return found[0] if found else None


def test_a_task_comes_back_when_its_server_does(worker: WorkerProcess, broker: str) -> None:
    topic, server = Topic(broker, "restarts"), Server()
    name = topic.name  # no name that the killed worker of the other mode had: its consumer is in the group for 45 s
    labels = {"connector": name, "task": "0"}
    topic.send([envelope(f"line {number}") for number in range(5)])
    config = {"connector_class": "org.example.SocketSinkConnector", "topics": topic.name}
    worker.create(
        name, port=str(server.port), task_restart_backoff_max_ms="1000", task_restart_max_attempts="1000", **config
    )
    worker.wait_states(name, "FAILED")

    # Between two looks a task may have been started again, which takes its trace away for a moment.
    tries = r"ConnectionRefusedError: .*\nAttempt ([3-9]|[1-9]\d) of 1000 at \d\d:\d\d:\d\dZ follows"
    eventually(lambda: re.fullmatch(tries, worker.trace(name), re.DOTALL), 60, worker.log)
    eventually(lambda: figure(worker, "kafka_connect_worker_connector_failed_task_count", connector=name) == 1, 60)

    server.start()
    try:
        eventually(lambda: len(server.lines) == 5, 120, worker.log)
        worker.wait_states(name, "RUNNING")
        assert "trace" not in worker.get(f"/connectors/{name}/status")["tasks"][0]
        eventually(lambda: figure(worker, "kafka_connect_sink_task_sink_record_send_total", **labels) == 5, 60)
        assert figure(worker, "kafka_connect_connector_task_status", status="running", **labels) == 1
        eventually(lambda: figure(worker, "kafka_connect_sink_task_partition_count", **labels) == 1, 60)
        eventually(lambda: figure(worker, "kafka_connect_sink_task_offset_commit_completion_total", **labels), 60)
        assert worker.get("/health")["status"] == "healthy"
        if isinstance(worker, ClusterWorker):
            assert figure(worker, "kafka_connect_worker_rebalance_completed_rebalances_total")
            assert figure(worker, "kafka_connect_coordinator_assigned_tasks") == 1
    finally:
        server.stop()


def test_a_connector_may_switch_it_off(worker: WorkerProcess, broker: str) -> None:
    topic, server = Topic(broker, "restarts"), Server()
    name = topic.name
    config = {"connector_class": "org.example.SocketSinkConnector", "topics": topic.name}
    worker.create(name, port=str(server.port), task_restart_enabled="false", **config)
    worker.wait_states(name, "FAILED")
    assert "Attempt" not in worker.trace(name)
    assert f"{name}-0, attempt" not in worker.log()


def test_a_sink_made_again_under_its_name_waits_for_no_batch_that_hangs(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    """Were the former task not removed from its group, it would keep its partitions for half an hour."""
    topic, files = Topic(broker, "hangs"), [tmp_path / "former.txt", tmp_path / "later.txt"]
    values = [b"ok 1", b"hangs x", b"ok 2"]
    topic.send(values)
    long = {f"consumer_override_{what}_ms": "1800000" for what in ("session_timeout", "max_poll_interval")}
    config = {"connector_class": CHOOSY, "topics": topic.name, "value_converter": TEXT, **long}
    worker.create(topic.name, file=str(files[0]), **config)
    eventually(Path(f"{files[0]}.x.hangs").exists, 60, worker.log)
    worker.request("DELETE", f"/connectors/{topic.name}")
    Path(f"{files[1]}.x").touch()
    worker.create(topic.name, file=str(files[1]), **config)
    eventually(lambda: lines_of(files[1]) == values, 90, worker.log)
    Path(f"{files[0]}.x").touch()
    eventually(lambda: lines_of(files[0]) == values, 60, worker.log)
    topic.send([b"ok 3"])  # what the former one held ends, and takes no partition away
    eventually(lambda: lines_of(files[1]) == [*values, b"ok 3"], 60, worker.log)
    worker.wait_states(topic.name, "RUNNING")
    worker.request("DELETE", f"/connectors/{topic.name}")
