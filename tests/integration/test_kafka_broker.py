"""The embedded broker: real, kept over restarts, one per data folder, and gone when it should be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.embedded.kafka_broker import Broker, cluster_id
from tests.held_ports import held_port
from tests.integration.partitions import messages
from tests.integration.worker_process import eventually

pytestmark = pytest.mark.kafka


def produce(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.timeout.ms": 30_000})
    failed: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def values(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    return [message.value() for message in eventually(lambda: messages(bootstrap_servers, topic), 60)]


def partitions(bootstrap_servers: str, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(topic, 30)
    return len(found.topics[topic].partitions)


def test_a_cluster_id_that_looks_like_an_option_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: uuid.UUID(bytes=b"\xf8" + bytes(14) + b"\x01"))
    with Broker(tmp_path) as dashed:
        found = cluster_id(dashed.bootstrap_servers, timeout_s=60)
    assert found is not None
    assert found.startswith("-")


def test_a_topic_is_made_on_first_use_with_one_partition(broker: str) -> None:
    produce(broker, "first-use", b"1")
    assert values(broker, "first-use") == [b"1"]
    assert (
        len(AdminClient({"bootstrap.servers": broker}).list_topics("first-use", 30).topics["first-use"].partitions) == 1
    )


def test_the_log_is_a_real_growing_file(broker: str, broker_process: Broker) -> None:
    before = broker_process.log_file.stat().st_size
    assert b"Kafka Server started" in broker_process.log_file.read_bytes()
    produce(broker, "makes-the-broker-talk", b"1")
    eventually(lambda: b"makes-the-broker-talk-0" in broker_process.log_file.read_bytes()[before:], 60)


def test_port_cluster_and_records_survive_stop_and_kill(broker: str, broker_process: Broker) -> None:
    cluster = cluster_id(broker, timeout_s=60)
    assert cluster
    for number, end in enumerate((broker_process.stop, broker_process.kill)):
        produce(broker, "survives", b"%d" % number)
        end()
        assert not broker_process.is_running
        assert Broker.running_on(broker_process.data_dir) is None
        broker_process.start()
        assert broker_process.bootstrap_servers == broker
        assert cluster_id(broker, timeout_s=60) == cluster
    assert values(broker, "survives") == [b"0", b"1"]


def test_a_second_broker_on_the_same_folder_is_refused(broker: str, broker_process: Broker) -> None:
    with pytest.raises(Unavailable, match=r"already runs on"):
        Broker(broker_process.data_dir).start()
    assert broker_process.is_running


def test_a_taken_port_is_said_with_its_owner(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=rf"port {port} is taken by .*pid {os.getpid()}.*--port"):
            Broker(tmp_path, port).start()


@pytest.mark.long
def test_a_broker_that_cannot_start_shows_the_end_of_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings={"num.network.threads": "none"})
    with pytest.raises(Unavailable, match=r"(?s)num\.network\.threads"):
        broker.start()
    assert Broker.running_on(tmp_path) is None


def command(*arguments: object, state: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "headrace.worker.cli.commands", *map(str, arguments)]
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=state, timeout=120, check=False)


@pytest.fixture
def daemon_folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    command("kafka", "stop", state=tmp_path)


def test_the_daemon_from_start_to_stop(daemon_folder: Path) -> None:
    port = held_port()
    started = command("kafka", "start", "--port", port, "--daemon", "--set", "num.partitions=3", state=daemon_folder)
    assert (started.returncode, started.stderr) == (0, "")
    assert f"127.0.0.1:{port}" in started.stdout
    produce(f"127.0.0.1:{port}", "three", b"1")
    assert partitions(f"127.0.0.1:{port}", "three") == 3

    again = command("kafka", "start", "--port", port, state=daemon_folder)
    assert again.returncode == 0
    assert "already running" in again.stdout
    elsewhere = command("kafka", "start", "--port", port, "--data-dir", daemon_folder / "b", state=daemon_folder)
    assert elsewhere.returncode == 3
    assert f"port {port} is taken" in elsewhere.stderr

    assert command("kafka", "status", state=daemon_folder).returncode == 0
    note = daemon_folder / "headrace" / "kafka" / "broker.json"
    process = psutil.Process(json.loads(note.read_text())["pid"])
    stopped = command("kafka", "stop", state=daemon_folder)
    assert stopped.returncode == 0
    assert not process.is_running()
    assert command("kafka", "status", state=daemon_folder).returncode == 1


def foreground(folder: Path, port: int) -> subprocess.Popen[str]:
    line = [sys.executable, "-u", "-m", "headrace.worker.cli.commands", "kafka", "start"]
    line += ["--port", str(port), "--data-dir", str(folder)]
    started = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert started.stdout is not None
    assert f"127.0.0.1:{port}" in started.stdout.readline()
    return started


@pytest.mark.long
def test_ctrl_c_stops_the_foreground_broker_cleanly(tmp_path: Path) -> None:
    started = foreground(tmp_path, held_port())
    started.send_signal(signal.SIGINT)
    # The broker has 60 s to end before it is killed, which the log would show.
    said, _ = started.communicate(timeout=120)
    log = (tmp_path / "logs" / "server.log").read_text()
    assert started.returncode == 0, (said, log[-3000:])
    assert Broker.running_on(tmp_path) is None
    assert "shutdown completed" in log, (said, log[-3000:])


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent has died")
def test_the_broker_ends_when_its_owner_was_killed(tmp_path: Path) -> None:
    started = foreground(tmp_path, held_port())
    found = Broker.running_on(tmp_path)
    assert found is not None
    started.kill()
    started.communicate(timeout=60)
    eventually(lambda: Broker.running_on(tmp_path) is None, 60)
