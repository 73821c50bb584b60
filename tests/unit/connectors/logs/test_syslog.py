"""The syslog sources on loopback: senders of all kinds, limits, and what operators are told."""

from __future__ import annotations

import errno
import logging
import selectors
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_files import named_files
from headrace.connectors.logs.syslog import listening
from headrace.connectors.logs.syslog.connector import (
    SSLTCPSyslogSourceConnector,
    SyslogSourceConnector,
    TCPSyslogSourceConnector,
    UDPSyslogSourceConnector,
)
from headrace.plugins.contracts import Limit, Plan, RetriableError, TaskContext
from headrace.plugins.stopping import StopToken
from tests.held_ports import held_port

ALL = Limit(100_000, 64 << 20)
LOOPBACK = "127.0.0.1"


class Source:
    """A task that listens, driven as the worker does."""

    def __init__(self, kind: str = "UDP", connector: type = SyslogSourceConnector, **settings: str) -> None:
        self.port = held_port()
        config = {"name": "s", "syslog.port": str(self.port)}
        if connector is SyslogSourceConnector:
            config |= {"syslog.listener": kind, "syslog.listen.address": LOOPBACK, "topic": "t"}
        else:
            config |= {"syslog.host": LOOPBACK, "kafka.topic": "t"}
        self.config: Mapping[str, str] = config | {key.replace("_", "."): value for key, value in settings.items()}
        made = connector()
        assert made.validate(self.config) == []
        self.task = made.task()
        self.stored: dict[str, Any] | None = None
        self.task.start(self.config, TaskContext("s", 0, StopToken()))

    def plan(self, limit: Limit = ALL) -> Plan | None:
        return self.task.plan([self.stored], limit)

    def rows(self, limit: Limit = ALL, store: bool = True) -> list[dict[str, Any]]:
        plan = self.plan(limit)
        if plan is None:
            return []
        rows = [row for batch in self.task.reader(plan).read(0) for row in batch.to_pylist()]
        if store and rows:
            self.stored = rows[-1]["source_offset"]
        return rows

    def wait(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        eventually(lambda: (found.extend(self.rows()), len(found) >= count)[1])
        assert len(found) == count, found
        return found

    def counts(self) -> dict[str, float]:
        return {one.name.removeprefix("kafka_connect_syslog_"): one.value for one in self.task.samples()}

    def connect(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.port), 60)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def source() -> Iterator[Callable[..., Source]]:
    with ExitStack() as made:

        def start(*arguments: Any, **settings: Any) -> Source:
            one = Source(*arguments, **settings)
            made.callback(one.task.stop)
            return one

        yield start


def send_udp(port: int, *messages: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for one in messages:
            sender.sendto(one, (LOOPBACK, port))


@pytest.mark.parametrize(
    ("kind", "options", "wanted"),
    [
        ("UDP", ["--udp", "--rfc3164"], "RFC3164"),
        ("UDP", ["--udp", "--rfc5424"], "RFC5424"),
        ("TCP", ["--tcp", "--rfc3164"], "RFC3164"),
        ("TCP", ["--tcp", "--rfc5424"], "RFC5424"),
        ("TCP", ["--tcp", "--rfc5424", "--octet-count"], "RFC5424"),
        ("TCP", ["--tcp", "--rfc5424", "--sd-id", "a@1", "--sd-param", 'x="y z"'], "RFC5424"),
    ],
)
def test_logger(source: Callable[..., Source], kind: str, options: list[str], wanted: str) -> None:
    assert shutil.which("logger"), "util-linux has it"
    one = source(kind)
    began = time.time() * 1000
    command = ["logger", "--server", LOOPBACK, "--port", str(one.port), "--priority", "auth.crit", "--tag", "app"]
    subprocess.run([*command, "--id=42", *options, "--", "grüße & 5 < 6"], check=True, timeout=60)
    [row] = one.wait(1)
    assert (row["type"], row["facility"], row["level"]) == (wanted, 4, 2)
    assert (row["message"], row["processId"], row["remote"]) == ("grüße & 5 < 6", "42", LOOPBACK)
    assert (row["appName"] or row["tag"]) == "app"
    assert row["host"]
    if wanted == "RFC5424":
        assert began - 2_000 < row["date"] < time.time() * 1000 + 2_000
    if "--sd-id" in options:
        elements = {element["id"]: dict(element["structuredDataElements"]) for element in row["structuredData"]}
        assert elements["a@1"] == {"x": "y z"}


def test_messages_come_again_until_they_are_stored(source: Callable[..., Source]) -> None:
    one = source()
    send_udp(one.port, b"<13>a", b"<13>b", b"<13>c")
    eventually(lambda: one.counts()["messages_received_total"] == 3)
    assert [row["raw"] for row in one.rows(Limit(2, 1 << 20), store=False)] == ["<13>a", "<13>b"]
    assert [row["raw"] for row in one.rows(Limit(1, 1))] == ["<13>a"]
    assert [row["raw"] for row in one.rows()] == ["<13>b", "<13>c"]
    assert one.rows() == []


def test_many_connections_keep_their_order(source: Callable[..., Source]) -> None:
    one = source("TCP")
    senders = [one.connect() for _ in range(50)]
    for number in range(20):
        for index, sender in enumerate(senders):
            sender.sendall(f"<13>{index}-{number}\n".encode())
    for sender in senders:
        sender.close()
    found: dict[str, list[int]] = {}
    for row in one.wait(1_000):
        index, _, number = row["raw"].removeprefix("<13>").partition("-")
        found.setdefault(index, []).append(int(number))
    assert len(found) == 50
    assert all(numbers == [*range(20)] for numbers in found.values())


def test_tcp_holds_its_senders_back_and_loses_nothing(source: Callable[..., Source]) -> None:
    one = source("TCP", buffer_bytes="65536")
    message = b"<13>" + b"x" * 1_000 + b"\n"
    sender = one.connect()
    sender.setblocking(False)
    sent, still = 0, 0
    data = message * 20_000
    while still < 20:  # the kernel's buffers are full as well
        try:
            sent, still = sent + sender.send(data[sent:]), 0
        except BlockingIOError:
            still += 1
            time.sleep(0.01)
        if sent == len(data):
            break
    assert sent < len(data)
    assert one.task._inbox._bytes < 65_536 + (2 << 16) * 2
    sender.setblocking(True)
    found = 0

    def drained() -> bool:
        nonlocal sent, found
        found += len(one.rows())
        if sent < len(data):
            sender.setblocking(False)
            with suppress(BlockingIOError):
                sent += sender.send(data[sent : sent + (1 << 20)])
        return found == 20_000

    eventually(drained)
    sender.close()
    assert one.counts()["messages_dropped_total"] == 0


def test_dropped_datagrams_are_counted_and_told(
    source: Callable[..., Source], caplog: pytest.LogCaptureFixture
) -> None:
    one = source(buffer_bytes="65536")
    with caplog.at_level(logging.WARNING):
        eventually(
            lambda: (send_udp(one.port, *[b"<13>" + b"x" * 1_000] * 50), one.counts())[1]["messages_dropped_total"] > 0
        )
        eventually(lambda: "messages were dropped so far" in caplog.text)
    assert one.task._inbox._bytes < 65_536 + 2_000_000


def test_long_and_endless_messages_are_cut(source: Callable[..., Source], caplog: pytest.LogCaptureFixture) -> None:
    one = source("TCP", message_max_bytes="500")
    with one.connect() as sender:
        for _ in range(100):
            sender.sendall(b"x" * 65_536)
        sender.sendall(b"\n<13>next\n")
        rows = one.wait(2)
    assert [len(row["raw"]) for row in rows] == [500, 8]
    assert one.counts()["messages_truncated_total"] == 1


def test_connections_beyond_the_most_are_refused(source: Callable[..., Source]) -> None:
    one = source("TCP", connections_max="2")
    held = [one.connect() for _ in range(2)]
    with one.connect() as third:
        assert third.recv(1) == b""
    assert one.counts()["connections_refused_total"] == 1
    for each in held:
        each.close()

    def is_taken() -> bool:
        with one.connect() as again, suppress(OSError):
            again.sendall(b"<13>back\n")
        return bool(one.rows())

    eventually(is_taken)


def test_a_process_without_descriptors_tells_it_and_accepts_later(
    source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def accept(listening: socket.socket) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    one = source("TCP")
    with monkeypatch.context() as scarce, caplog.at_level(logging.WARNING):
        scarce.setattr(socket.socket, "accept", accept)
        sender = one.connect()
        eventually(lambda: "Too many open files. Raise its limit of open files" in caplog.text)
    with sender:
        sender.sendall(b"<13>late\n")
        assert one.wait(1)[0]["raw"] == "<13>late"


def test_a_connection_that_had_to_write_is_only_read_afterwards(source: Callable[..., Source]) -> None:
    one = source("TCP")
    with one.connect():
        listener = one.task._listener
        eventually(lambda: len(listener._selector.get_map()) == 3)  # the port, the waking pair, the connection
        (connection,) = listener._connections.values()
        listener._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        eventually(lambda: listener._selector.get_key(connection.socket).events == selectors.EVENT_READ)


def test_silent_connections_are_closed(source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_TICK_S", 0.05)
    one = source("TCP", syslog_idle_timeout_secs="1")
    with one.connect() as silent:
        assert silent.recv(1) == b""


def test_a_taken_port_is_told_and_may_be_free_later(source: Callable[..., Source]) -> None:
    one = source("TCP")
    other = SyslogSourceConnector().task()
    with pytest.raises(RetriableError, match=f"TCP 127.0.0.1:{one.port} is taken"):
        other.start(one.config, TaskContext("o", 0, StopToken()))
    other.stop()
    one.task.stop()
    again = SyslogSourceConnector().task()
    again.start(one.config, TaskContext("o", 0, StopToken()))
    again.stop()


def test_a_port_that_only_root_may_use(source: Callable[..., Source], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, where: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(listening.socket, "socket", type("Refusing", (socket.socket,), {"bind": refuse}))
    task = SyslogSourceConnector().task()
    with pytest.raises(ConfigError, match="CAP_NET_BIND_SERVICE"):
        task.start({"syslog.port": "514", "syslog.listen.address": LOOPBACK}, TaskContext("o", 0, StopToken()))
    task.stop()


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a server and a client of it; made by openssl."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "3650", "-subj", "/CN=authority")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
        (folder / f"{name}.both.pem").write_bytes(
            (folder / f"{name}.key").read_bytes() + (folder / f"{name}.pem").read_bytes()
        )
    return folder


def client(certificates: Path, name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.check_hostname = False
    if name is not None:
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def confluents(certificates: Path) -> dict[str, str]:
    return {
        "syslog_ssl_key_path": str(certificates / "server.key"),
        "syslog_ssl_cert_chain_path": str(certificates / "server.pem"),
    }


def test_tls_with_counted_messages_as_in_rfc_5425(source: Callable[..., Source], certificates: Path) -> None:
    one = source("TCPSSL", **confluents(certificates))
    messages = [f"<13>1 - h app - - - {number}".encode() for number in range(5_000)]
    with client(certificates).wrap_socket(one.connect()) as sender:
        sender.sendall(b"".join(b"%d %s" % (len(message), message) for message in messages))
        assert [int(row["message"]) for row in one.wait(5_000)] == [*range(5_000)]


def test_tls_by_openssl(source: Callable[..., Source], certificates: Path) -> None:
    one = source("TCPSSL", **confluents(certificates))
    command = ["openssl", "s_client", "-connect", f"{LOOPBACK}:{one.port}", "-CAfile", str(certificates / "ca.pem")]
    subprocess.run([*command, "-quiet", "-no_ign_eof"], input=b"<34>by openssl\n", check=True, timeout=60)
    assert one.wait(1)[0]["raw"] == "<34>by openssl"


@pytest.mark.parametrize("is_jcustenborders", [False, True])
def test_senders_with_certificates_only(
    source: Callable[..., Source], certificates: Path, is_jcustenborders: bool
) -> None:
    if is_jcustenborders:
        one = source(
            connector=SSLTCPSyslogSourceConnector,
            syslog_keystore=str(certificates / "server.both.pem"),
            syslog_keystore_password="",
            syslog_truststore=str(certificates / "ca.pem"),
            syslog_truststore_password="",
            syslog_ssl_client_auth="required",
        )
    else:
        settings = {
            "syslog_ssl_keystore_location": str(certificates / "server.both.pem"),
            "syslog_ssl_truststore_location": str(certificates / "ca.pem"),
            "syslog_ssl_client_auth": "required",
        }
        one = source("TCPSSL", **settings)
    with client(certificates, "client").wrap_socket(one.connect()) as sender:
        sender.sendall(b"<13>known\n")
        assert one.wait(1)[0]["raw"] == "<13>known"
    with suppress(OSError), client(certificates).wrap_socket(one.connect()) as stranger:
        stranger.sendall(b"<13>unknown\n")
        stranger.settimeout(60)
        assert stranger.recv(1) == b""
    eventually(lambda: one.counts()["connections_refused_total"] == 1)
    assert one.rows() == []


def test_half_handshakes_and_garbage_hold_nobody_up(
    source: Callable[..., Source], certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_HANDSHAKE_S", 0.5)
    monkeypatch.setattr(listening, "_TICK_S", 0.05)
    one = source("TCPSSL", **confluents(certificates))
    silent, garbage = one.connect(), one.connect()
    garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with client(certificates).wrap_socket(one.connect()) as sender:
        sender.sendall(b"<13>fine\n")
        assert one.wait(1)[0]["raw"] == "<13>fine"
    eventually(lambda: one.counts()["connections_refused_total"] == 2)
    silent.close()
    garbage.close()


def test_a_certificate_that_is_wrong_is_told_before_anything_starts(certificates: Path) -> None:
    config = {"syslog.port": "6514", "syslog.listener": "tcpssl", "topic": "t"}
    [none] = SyslogSourceConnector().validate(config)
    assert "private key" in none.message
    [missing] = SyslogSourceConnector().validate({**config, "syslog.ssl.key.path": "/nope"})
    assert missing.key == "syslog.ssl.key.path"
    given = {**config, "syslog.ssl.key.path": "/k.pem", "syslog.ssl.cert.chain.path": "/c.pem"}
    assert [one.path for one in named_files(given)] == ["/k.pem", "/c.pem"]
    store = {"syslog.keystore": "/k.jks", "syslog.truststore": "/t.jks"}
    assert [one.path for one in named_files(store)] == ["/k.jks", "/t.jks"]


def test_certificates_that_are_required_need_authorities(certificates: Path) -> None:
    config = {"kafka.topic": "t", "syslog.keystore": str(certificates / "server.both.pem")}
    assert SSLTCPSyslogSourceConnector().validate(config) == []  # requested, which nobody can check
    [problem] = SSLTCPSyslogSourceConnector().validate({**config, "syslog.ssl.client.auth": "required"})
    assert (problem.key, problem.value) == ("syslog.truststore", None)
    assert "syslog.ssl.client.auth=required" in problem.message
    for name in ("syslog.keystore", "syslog.truststore"):
        [problem] = SSLTCPSyslogSourceConnector().validate({**config, name: str(certificates / "none.pem")})
        assert (problem.key, problem.value) == (name, str(certificates / "none.pem"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("syslog.port", "0"),
        ("syslog.listener", "SCTP"),
        ("syslog.charset", "UTF-16LE"),
        ("timezone", "Mars/Olympus"),
        ("syslog.ssl.self.signed.certificate.enable", "true"),
    ],
)
def test_wrong_settings_are_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        SyslogSourceConnector.settings.parse({"syslog.port": "5514", key: value})


@pytest.mark.parametrize(("connector", "kind"), [(UDPSyslogSourceConnector, "UDP"), (TCPSyslogSourceConnector, "TCP")])
def test_names_of_senders(source: Callable[..., Source], connector: type, kind: str) -> None:
    one = source(connector=connector, syslog_reverse_dns_remote_ip="true")
    if kind == "UDP":
        send_udp(one.port, b"<13>x")
    else:
        with one.connect() as sender:
            sender.sendall(b"<13>x\n")
    [row] = one.wait(1)
    assert row["hostname"] == socket.gethostbyaddr(LOOPBACK)[0]


def test_offsets_can_only_be_forgotten() -> None:
    connector = SyslogSourceConnector()
    assert connector.check_offsets({}, {"offsets": [{"partition": {"host": "x"}, "offset": None}]})
    with pytest.raises(ValueError, match="forgotten"):
        connector.check_offsets({}, {"offsets": [{"partition": {"host": "x"}, "offset": {"message": 1}}]})
