"""Log files and syslog into topics, by a real worker; configs as quick starts and examples have them."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.held_ports import held_port
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = pytest.mark.spark

TEXT = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
LICENCE = {"confluent.license": "", "confluent.topic.bootstrap.servers": "broker:9092"}
LICENCE |= {"confluent.topic.replication.factor": "1"}
CONFLUENT = "io.confluent.connect.syslog.SyslogSourceConnector"
JCUSTENBORDER = "com.github.jcustenborder.kafka.connect.syslog"
REFRIGERATOR = b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - Your refrigerator is running\n"


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "logs")
    yield made
    worker.http.delete(f"/connectors/{made.name}")  # which a test may have done


def test_log_files_over_rotation_and_a_restart(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    name, path = topic.name, tmp_path / "app.log"
    path.write_text("one\ntwo\n")
    config = {"connector.class": "LogFiles", "paths": f"{tmp_path}/*.log", "topic": name}
    worker.create(name, **config, **TEXT)
    eventually(lambda: topic.values() == [b"one", b"two"], 60, worker.log)
    path.rename(tmp_path / "app.log.1")
    path.write_text("three\n")
    eventually(lambda: topic.values() == [b"one", b"two", b"three"], 60, worker.log)
    wanted = [{"partition": {"path": str(path)}, "offset": {"position": 6, "file": str(path)}}]
    eventually(lambda: worker.offsets(name) == wanted, 60)
    worker.request("PUT", f"/connectors/{name}/stop")
    worker.wait_states(name)
    with path.open("a") as file:
        file.write("four\n")
    path.rename(tmp_path / "app.log.2")
    with (tmp_path / "app.log.2").open("rb") as source, gzip.open(tmp_path / "app.log.2.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    (tmp_path / "app.log.2").unlink()
    (tmp_path / "app.log.1").write_text("five\n")
    path.write_text("six\n")
    worker.request("PUT", f"/connectors/{name}/resume")
    eventually(lambda: topic.end() >= 6, 60, worker.log)
    assert topic.values() == [b"one", b"two", b"three", b"four", b"five", b"six"]


@pytest.mark.long
def test_a_containers_log_as_structs_and_its_offset_is_set_back(
    worker: WorkerProcess, topic: Topic, tmp_path: Path
) -> None:
    name, path = topic.name, tmp_path / "pod" / "0.log"
    path.parent.mkdir()
    at = "2026-11-28T10:00:00.123456789Z"
    path.write_text(f"{at} stdout P Trace\n{at} stderr F oops\n{at} stdout F back\n{at} stdout F   at x\n")
    lines = {"format": "cri", "multiline.pattern": r"^\s", "multiline.timeout.ms": "500"}
    config = {"connector.class": "headrace.connectors.LogFilesSourceConnector", "paths": f"{tmp_path}/**/*.log"}
    keyed = {"key.converter": TEXT["value.converter"], "record.value": "struct", "tasks.max": "2"}
    worker.create(name, **config, **lines, **keyed, **JSON, topic=name)
    eventually(lambda: topic.end() == 2, 60, worker.log)
    first, second = map(json.loads, topic.values())
    assert (first["message"], first["stream"], first["position"]) == ("Traceback\n  at x", "stdout", 0)
    assert (second["message"], second["stream"], second["path"]) == ("oops", "stderr", str(path))
    assert first["timestamp"] == 1795860000123
    worker.request("PUT", f"/connectors/{name}/stop")
    worker.wait_states(name)
    back = {"offsets": [{"partition": {"path": str(path)}, "offset": {"position": 0}}]}
    assert worker.request("PATCH", f"/connectors/{name}/offsets", json=back).status_code == 200
    worker.request("PUT", f"/connectors/{name}/resume")
    eventually(lambda: topic.end() == 4, 60, worker.log)


def tcp(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as sender:
        sender.sendall(data)


def udp(port: int, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, ("127.0.0.1", port))


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 60).close()
    except ConnectionRefusedError:
        return True
    return False


PUBLISHED: Mapping[str, tuple[Mapping[str, str], Callable[[int, bytes], None]]] = {
    "the playground's": ({"connector.class": CONFLUENT, "syslog.listener": "TCP", **LICENCE}, tcp),
    "a blog's of Cisco's logs": ({"connector.class": CONFLUENT, "syslog.listener": "UDP", **LICENCE}, udp),
    "a demo's with queues": (
        {
            "connector.class": CONFLUENT,
            "syslog.listener": "TCP",
            "syslog.queue.batch.size": "100",
            "syslog.queue.max.size": "100",
            "syslog.write.timeout.millis": "10000",
        },
        tcp,
    ),
    "ours": ({"connector.class": "Syslog", "syslog.listener": "TCP"}, tcp),
}


@pytest.mark.long
@pytest.mark.parametrize("which", PUBLISHED)
def test_published_configs(worker: WorkerProcess, topic: Topic, which: str) -> None:
    given, send = PUBLISHED[which]
    port = held_port()
    # The examples listen everywhere; tests on loopback only.
    loopback = {"syslog.listen.address": "127.0.0.1", "topic": topic.name}
    worker.create(topic.name, **{**given, **loopback, **JSON, "syslog.port": str(port), "tasks.max": "1"})
    worker.wait_states(topic.name, "RUNNING")
    eventually(lambda: "RUNNING" in worker.states(topic.name) and (send is udp or not refused(port)), 60)
    send(port, REFRIGERATOR)
    eventually(lambda: topic.end() == 1, 60, worker.log)
    [value] = map(json.loads, topic.values())
    assert value["receivedDate"] > 1_700_000_000_000
    assert value | {"receivedDate": 0} == {
        **dict.fromkeys(("name", "tag", "extension", "severity", "processId", "structuredData"), None),
        **dict.fromkeys(("deviceVendor", "deviceProduct", "deviceVersion", "deviceEventClassId"), None),
        "type": "RFC5424",
        "message": "Your refrigerator is running",
        "host": "mymachine.example.com",
        "version": 1,
        "level": 2,
        "facility": 4,
        "appName": "su",
        "messageId": "ID47",
        "remoteAddress": "127.0.0.1",
        "rawMessage": REFRIGERATOR.decode().strip(),
        "date": 1065910455003,
        "timestamp": 1065910455003,
        "receivedDate": 0,
    }
    worker.request("DELETE", f"/connectors/{topic.name}")
    if send is tcp:
        eventually(lambda: refused(port), 60, worker.log)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["UDP", "TCP", "SSLTCP"])
def test_the_examples_of_jcustenborder(worker: WorkerProcess, topic: Topic, tmp_path: Path, kind: str) -> None:
    port = held_port()
    config = {"connector.class": f"{JCUSTENBORDER}.{kind}SyslogSourceConnector", "tasks.max": "2"}
    config |= {"kafka.topic": topic.name, "syslog.port": str(port), "syslog.host": "127.0.0.1"}
    config |= {**JSON, "key.converter": JSON["value.converter"], "key.converter.schemas.enable": "false"}
    if kind == "SSLTCP":
        config |= {"syslog.keystore": str(certificate(tmp_path)), "syslog.keystore.password": "changeit"}
    worker.create(topic.name, **config)
    worker.wait_states(topic.name, "RUNNING")
    if kind == "UDP":
        eventually(lambda: (udp(port, REFRIGERATOR), topic.end() > 0)[1], 60, worker.log)
    else:
        eventually(lambda: not refused(port), 60, worker.log)
        (tls if kind == "SSLTCP" else tcp)(port, REFRIGERATOR)
        eventually(lambda: topic.end() == 1, 60, worker.log)
    value = json.loads(topic.values()[0])
    assert value == {
        "date": 1065910455003,
        "facility": 4,
        "host": "mymachine.example.com",
        "level": 2,
        "message": "Your refrigerator is running",
        "charset": "UTF-8",
        "remote_address": "127.0.0.1",
        "hostname": "127.0.0.1",
    }


def certificate(folder: Path) -> Path:
    """A key store with a key and a certificate that it signed itself."""
    names = ["-keyout", "key.pem", "-out", "cert.pem", "-days", "3650", "-subj", "/CN=localhost", "-nodes"]
    pack = ["-export", "-inkey", "key.pem", "-in", "cert.pem", "-out", "store.p12", "-passout", "pass:changeit"]
    for command in (["req", "-x509", "-newkey", "rsa:2048", *names], ["pkcs12", *pack]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "store.p12"


def tls(port: int, data: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60)) as sender:
        sender.sendall(data)


@pytest.mark.long
def test_a_taken_port_fails_the_task_which_starts_once_it_is_free(worker: WorkerProcess, topic: Topic) -> None:
    config: dict[str, Any] = {"connector.class": "Syslog", "syslog.listener": "TCP", "topic": topic.name}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        config |= {"syslog.port": str(port), "syslog.listen.address": "127.0.0.1", **JSON}
        worker.create(topic.name, **config)
        worker.wait_states(topic.name, "FAILED")
        eventually(lambda: "is taken by another process" in worker.trace(topic.name), 60, worker.log)
    eventually(lambda: worker.states(topic.name) == ["RUNNING"], 120, worker.log)
    tcp(port, REFRIGERATOR)
    eventually(lambda: topic.end() == 1, 60, worker.log)
