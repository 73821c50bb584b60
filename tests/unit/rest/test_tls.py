"""REST over TLS on real sockets: stores, who is let in, certificates that change, what hurts nobody."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config import tls
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.listeners import Listener
from headrace.config.worker.rest_tls import listeners_tls, workers_tls
from headrace.rest import server as server_module
from headrace.rest.app import app
from headrace.rest.connections import ConnectionLimits
from headrace.rest.security.principal import certificate_of
from headrace.rest.server import HttpServer
from headrace.worker.errors import ConnectError
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import ConnectorInfo
from headrace.worker.tasks.metrics import TasksMetrics
from tests.certificates import STORE, Authority, Issued, as_jks
from tests.unit.rest.conftest import SETTINGS
from tests.unit.rest.scripted import scripted

AT = Listener("https", "127.0.0.1", 0)
CA = Authority()
WORKER, CLIENT = CA.issue("worker"), CA.issue("client")


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what the request knows of its connection."""
    answer = {"scheme": scope["scheme"], "certificate": certificate_of(scope)}
    await JSONResponse(answer)(scope, receive, send)


def settings_of(folder: Path, issued: Issued = WORKER, **more: str) -> dict[str, str]:
    """The settings of a listener with this certificate; `_` in a key stands for `.`."""
    (folder / "worker.pem").write_text(issued.pem)
    (folder / "ca.pem").write_text(CA.pem)
    own = {"ssl.keystore.location": str(folder / "worker.pem"), "ssl.truststore.location": str(folder / "ca.pem")}
    return own | {key.replace("_", "."): value for key, value in more.items()}


@contextmanager
def serving(
    props: Mapping[str, str], application: ASGIApp = echo, limits: ConnectionLimits | None = None
) -> Iterator[HttpServer]:
    server = HttpServer([AT], limits=limits, tls=listeners_tls(props, [AT]))
    server.start(application)
    try:
        yield server
    finally:
        server.stop()


def trusting(shown: Issued | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the authority, and shows this certificate."""
    context = ssl.create_default_context(cadata=CA.pem)
    if shown is not None and folder is not None:
        (folder / "shown.pem").write_text(shown.pem)
        context.load_cert_chain(folder / "shown.pem")
    return context


def ask(server: HttpServer, context: ssl.SSLContext | None = None) -> Any:
    """The answer to a request on a connection of its own."""
    with httpx.Client(verify=context or trusting(), trust_env=False, timeout=60) as client:
        return client.get(str(server.bound[0])).json()


def is_ended(connection: socket.socket) -> bool:
    """Wait until the server ends the connection; False if it does not in time."""
    try:
        while connection.recv(4096):
            continue
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def connected(server: HttpServer) -> ssl.SSLSocket:
    """A connection, its handshake done."""
    raw = socket.create_connection(("127.0.0.1", server.bound[0].port), timeout=60)
    return trusting().wrap_socket(raw, server_hostname="127.0.0.1")


def served(server: HttpServer) -> str:
    """The certificate that a new connection is shown."""
    with connected(server) as connection:
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")


# -- Stores and settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["PEM", "lines", "PKCS12", "JKS"])
def test_every_form_of_store_is_served(form: str, tmp_path: Path) -> None:
    props = {"ssl.client.auth": "required"}
    if form == "lines":
        props |= {
            "ssl.keystore.key": WORKER.key_pem.replace("\n", "\\n"),
            "ssl.keystore.certificate.chain": WORKER.certificate_pem.replace("\n", " "),
            "ssl.truststore.certificates": CA.pem.replace("\n", "\\n"),
        }
    elif form == "PEM":
        props |= settings_of(tmp_path)
    else:
        (tmp_path / "key.p12").write_bytes(WORKER.p12)
        (tmp_path / "trust.p12").write_bytes(CA.own.p12_trust)
        end = form.lower().replace("pkcs", "p")
        if form == "JKS":
            as_jks(tmp_path / "key.p12", tmp_path / "key.jks")
            as_jks(tmp_path / "trust.p12", tmp_path / "trust.jks")
        props |= {f"ssl.{kind}store.location": str(tmp_path / f"{kind}.{end}") for kind in ("key", "trust")}
        props |= {f"ssl.{kind}store.password": STORE for kind in ("key", "trust")}
    with serving(props) as server:
        assert ask(server, trusting(CLIENT, tmp_path)) == {"scheme": "https", "certificate": "CN=client"}


def test_settings_below_the_prefix_count_alone(tmp_path: Path) -> None:
    own = {f"listeners.https.{key}": value for key, value in settings_of(tmp_path).items()}
    with serving({**own, "ssl.client.auth": "required", "ssl.keystore.location": "/absent"}) as server:
        assert ask(server)["scheme"] == "https"
    for setting in ("admin.listeners", "metrics.listeners"):
        props = {**SETTINGS, **settings_of(tmp_path), setting: "https://127.0.0.1:0"}
        assert WorkerConfig.standalone(props).listeners_tls(setting) is not None
        with pytest.raises(ValueError, match=rf"{setting}\.https\.ssl\.keystore\.location \(not set\)"):
            WorkerConfig.standalone({**props, f"{setting}.https.ssl.client.auth": "required"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ssl.keystore.location": ""}, r"ssl\.keystore\.location .*needs a private key.*ssl\.keystore\.key"),
        ({"ssl.keystore.location": "/absent"}, r"ssl\.keystore\.location .*cannot be read: No such file"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": ""}, r"ssl\.truststore\.location \(not set\)"),
        ({"ssl.client.auth": "requested", "ssl.truststore.certificates": "no"}, "certificates cannot be read"),
        ({"ssl.client.auth": "sometimes"}, r"ssl\.client\.auth"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"ssl\.enabled\.protocols .*TLSv1\.2 and TLSv1\.3"),
        ({"ssl.protocol": "SSLv3"}, r"ssl\.protocol .*not known"),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "names code to load"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH"}, "OpenSSL does not know it"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, r"single suites of TLS 1\.3"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "listeners.https."])
def test_what_cannot_be_served_is_refused_with_its_key(
    given: dict[str, str], told: str, prefix: str, tmp_path: Path
) -> None:
    own = {f"{prefix}{key}": value for key, value in {**settings_of(tmp_path), **given}.items()}
    with pytest.raises(ValueError, match=told) as caught:
        WorkerConfig.standalone({**SETTINGS, "listeners": "https://127.0.0.1:0", **own})
    assert f"{prefix}ssl." in str(caught.value)


def test_versions_and_suites_are_limited(tmp_path: Path) -> None:
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    more = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256"
    with (
        serving(settings_of(tmp_path, ssl_cipher_suites=f"{suites},{more}")) as server,
        connected(server) as connection,
    ):
        assert connection.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
    with serving(settings_of(tmp_path, ssl_enabled_protocols="TLSv1.3")) as server:
        old = trusting()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(httpx.ConnectError):
            ask(server, old)


# -- Clients -----------------------------------------------------------------------------------------------------------


def test_client_certificates_are_asked_for_as_the_setting_says(tmp_path: Path) -> None:
    known, foreign = trusting(CLIENT, tmp_path), trusting(Authority("Other").issue("client"), tmp_path)
    nobody = {"scheme": "https", "certificate": None}
    with serving(settings_of(tmp_path, ssl_client_auth="none")) as server:
        assert ask(server) == ask(server, known) == ask(server, foreign) == nobody
    with serving(settings_of(tmp_path, ssl_client_auth="requested")) as server:
        assert ask(server) == nobody
        assert ask(server, known)["certificate"] == "CN=client"
        with pytest.raises(httpx.TransportError):
            ask(server, foreign)
    with serving(settings_of(tmp_path, ssl_client_auth="required")) as server:
        assert ask(server, known)["certificate"] == "CN=client"
        for context in (trusting(), foreign, trusting(CA.issue("client", days=-1), tmp_path)):
            with pytest.raises(httpx.TransportError):
                ask(server, context)


def test_a_worker_that_is_not_let_in_learns_why(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.pem"
    foreign.write_text(Authority("Other").issue("worker").pem)
    props = settings_of(tmp_path, ssl_client_auth="required")
    with serving(props) as server:
        for own, told in ((str(foreign), "unknown ca"), ("", "certificate required")):
            with (
                RestClient(tls=workers_tls({**props, "ssl.keystore.location": own})) as client,
                pytest.raises(ConnectError, match=f"does not accept this worker's certificate: .*{told}"),
            ):
                client.forward("GET", str(server.bound[0]), "/")


def test_a_client_that_fails_is_named_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(settings_of(tmp_path, ssl_client_auth="required"), limits=ConnectionLimits(4, 20)) as server:
        for _ in range(3):
            with pytest.raises(httpx.TransportError):
                ask(server)
        ask(server, trusting(CLIENT, tmp_path))
    (said,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert said.startswith("TLS with 127.0.0.1:")
    assert "shows no certificate, which ssl.client.auth=required asks for" in said


@pytest.mark.parametrize(
    ("sent", "told"), [(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "speaks http, and the listener https"), (b"\0" * 99, "")]
)
def test_what_is_no_tls_is_ended_and_hurts_nobody(
    sent: bytes, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(settings_of(tmp_path)) as server:
        with socket.create_connection(("127.0.0.1", server.bound[0].port), timeout=60) as raw:
            raw.sendall(sent)
            assert is_ended(raw)
        assert ask(server)["scheme"] == "https"
    assert told in caplog.text


def test_half_open_handshakes_make_room_and_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = ConnectionLimits(4, 1.0)
    with serving(settings_of(tmp_path), limits=limits) as server:
        port = server.bound[0].port
        half_open = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(8)]
        half_open[-1].sendall(b"\x16\x03\x01\x02\x00\x01")  # the begin of a ClientHello
        assert ask(server)["scheme"] == "https"
        for one in half_open:
            assert is_ended(one)
            one.close()
        assert ask(server)["scheme"] == "https"
    assert "All 4 connections of the REST API are in use" in caplog.text
    assert "did not end within 1 s" in caplog.text


def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path) -> None:
    limits = ConnectionLimits(4, 1.0)
    with serving(settings_of(tmp_path), limits=limits) as server, connected(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-")
        assert connection.recv(100) == b""


def test_a_kept_connection_does_not_hold_up_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_DRAIN_SECONDS", 60)  # two seconds may pass on a busy machine
    server = HttpServer([AT], tls=listeners_tls(settings_of(tmp_path), [AT]))
    server.start(echo)
    with httpx.Client(verify=trusting(), trust_env=False, timeout=60) as client:
        client.get(str(server.bound[0]))
        half_open = socket.create_connection(("127.0.0.1", server.bound[0].port))
        server.stop()
        half_open.close()
    assert "exceeded" not in caplog.text


def test_a_body_of_megabytes_arrives_whole(tmp_path: Path) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse("x" * (8 << 20), headers={"Connection": "close"})(scope, receive, send)

    with serving(settings_of(tmp_path), large) as server:
        assert len(ask(server)) == 8 << 20


# -- Certificates that change ------------------------------------------------------------------------------------------


@pytest.fixture
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at with every connection."""
    monkeypatch.setattr(tls, "_LOOK_S", 0.0)


@pytest.mark.usefixtures("looks_each_time")
def test_new_connections_get_the_certificate_of_a_changed_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    props, renewed = settings_of(tmp_path), CA.issue("worker")
    with serving(props) as server, httpx.Client(verify=trusting(), trust_env=False, timeout=60) as kept:
        assert kept.get(str(server.bound[0])).status_code == 200
        assert served(server) == WORKER.certificate_pem
        (tmp_path / "new.pem").write_text(renewed.pem)
        os.replace(tmp_path / "new.pem", props["ssl.keystore.location"])
        assert served(server) == renewed.certificate_pem
        assert kept.get(str(server.bound[0])).status_code == 200
    assert caplog.text.count("The certificates of the listeners with https have changed") == 1


@pytest.mark.usefixtures("looks_each_time")
def test_a_store_that_cannot_be_read_leaves_the_old_certificate_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    props = settings_of(tmp_path)
    store = Path(props["ssl.keystore.location"])
    with serving(props) as server:
        store.write_text(WORKER.key_pem)
        assert [served(server) for _ in range(3)] == [WORKER.certificate_pem] * 3
        assert caplog.text.count("those before stay: ssl.keystore.location") == 1
        store.unlink()
        assert [served(server) for _ in range(2)] == [WORKER.certificate_pem] * 2
        assert caplog.text.count("No such file") == 1
        renewed = CA.issue("worker")
        store.write_text(renewed.pem)
        assert served(server) == renewed.certificate_pem


@pytest.mark.usefixtures("looks_each_time")
def test_a_changed_trust_store_decides_who_is_let_in(tmp_path: Path) -> None:
    other = Authority("Other")
    known, new = trusting(CLIENT, tmp_path), trusting(other.issue("new"), tmp_path)
    props = settings_of(tmp_path, ssl_client_auth="required")
    with serving(props) as server:
        assert ask(server, known)["certificate"] == "CN=client"
        Path(props["ssl.truststore.location"]).write_text(other.pem)
        with pytest.raises(httpx.TransportError):
            ask(server, known)
        assert ask(server, new)["certificate"] == "CN=new"


def test_files_are_looked_at_once_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    stamp = tls._stamp
    with serving(settings_of(tmp_path)) as server:
        monkeypatch.setattr(tls, "_LOOK_S", 60.0)
        monkeypatch.setattr(tls, "_stamp", lambda file: [looks.append(file), stamp(file)][1])
        for _ in range(5):
            ask(server)
    assert looks == []


# -- What requests see -------------------------------------------------------------------------------------------------


def test_urls_and_the_rule_of_the_own_origin_have_https(tmp_path: Path) -> None:
    herder = scripted({"create": ConnectorInfo("c", {}, (), "sink")})
    metrics = WorkerMetrics(herder, "here:8083", TasksMetrics(), StartupCounter())
    with serving(settings_of(tmp_path), app(herder, metrics, {})) as server:
        url = str(server.bound[0])
        with httpx.Client(verify=trusting(), trust_env=False, base_url=url, timeout=60) as client:
            body = {"name": "c", "config": {"connector.class": "Known"}}
            made = client.post("/connectors", json=body, headers={"Origin": url})
            assert made.status_code == 201, made.text
            assert made.headers["Location"] == f"{url}/connectors/c"
            foreign = client.post("/connectors", json=body, headers={"Origin": "https://evil.example"})
            assert foreign.status_code == 403


def test_http_and_https_are_served_beside_each_other(tmp_path: Path) -> None:
    both = [Listener("http", "127.0.0.1", 0), AT]
    server = HttpServer(both, tls=listeners_tls(settings_of(tmp_path), both))
    server.start(echo)
    found = [
        httpx.get(str(one), verify=trusting(), trust_env=False, timeout=60).json()["scheme"] for one in server.bound
    ]
    server.stop()
    assert found == ["http", "https"]
