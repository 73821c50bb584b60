"""Requests of a worker to the leader go out signed, over connections that are used again."""

from __future__ import annotations

import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.config import tls
from headrace.config.worker.rest_tls import workers_tls
from headrace.worker.errors import ConnectError
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.model import Signed
from headrace.worker.storage.signing import ALGORITHM_HEADER, SIGNATURE_HEADER, SessionKey, verify
from tests.certificates import Authority, Issued


class Leader:
    """A server on a free port that notes requests and the connections they come on."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[tuple[str, str, Signed]] = []
        self.connections: set[Any] = set()
        self.status, self.body = 204, b""
        self.hold = threading.Event()
        self.hold.set()
        leader = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                signed = Signed(body, self.headers.get(SIGNATURE_HEADER), self.headers.get(ALGORITHM_HEADER))
                leader.seen.append((self.command, self.path, signed))
                leader.connections.add(self.client_address)
                leader.hold.wait(60)
                self.send_response(leader.status)
                self.send_header("Content-Length", str(len(leader.body)))
                self.end_headers()
                self.wfile.write(leader.body)

            do_POST = do_PUT = do_GET = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = self.url.replace("http", "https")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def leader() -> Iterator[Leader]:
    made = Leader()
    yield made
    made.hold.set()
    made.server.shutdown()
    made.server.server_close()


def test_task_configs_go_to_the_leader_signed_as_they_are_sent(leader: Leader) -> None:
    key = SessionKey.generate()
    with RestClient() as client:
        client.post_tasks(leader.url, "a/b größe", [{"topic": "ü", "n": None}, {}], key)
    ((_, path, posted),) = leader.seen
    assert path == "/connectors/a%2Fb%20gr%C3%B6%C3%9Fe/tasks"
    assert json.loads(posted.body) == [{"topic": "ü", "n": None}, {}]
    verify(posted, key)


def test_the_signature_s_algorithm_is_the_worker_s(leader: Leader) -> None:
    key = SessionKey.generate()
    with RestClient("HmacSHA512") as client:
        client.post_tasks(leader.url, "c", [], key)
        client.post_tasks(leader.url, "c", [], None)
    verify(leader.seen[0][2], key, ["HmacSHA512"])
    assert leader.seen[1][2] == Signed(b"[]", None, None)


def test_a_refusal_keeps_its_status_and_text(leader: Leader) -> None:
    leader.status, leader.body = 403, b'{"error_code":403,"message":"Internal request contained invalid signature."}'
    with RestClient() as client, pytest.raises(ConnectError) as raised:
        client.post_tasks(leader.url, "c", [], SessionKey.generate())
    assert (raised.value.status, raised.value.message) == (403, "Internal request contained invalid signature.")


def test_connections_are_used_again(leader: Leader) -> None:
    leader.status = 200
    with RestClient() as client:
        for _ in range(5):
            client.forward("GET", leader.url, "/connectors")
    assert len(leader.connections) == 1


def test_an_answer_that_does_not_come_is_given_up(leader: Leader, caplog: pytest.LogCaptureFixture) -> None:
    leader.hold.clear()
    said = r"^IO Error trying to forward .*GET /connectors at http://127.0.0.1"
    with RestClient(answer_seconds=0.2) as client, pytest.raises(ConnectError, match=said):
        client.forward("GET", leader.url, "/connectors")
    assert [line for line in caplog.records if line.name.startswith("headrace")] == []  # raised, so not logged here


def test_proxies_of_the_environment_are_not_asked(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with RestClient() as client:
        client.forward("GET", leader.url, "/connectors")
    assert len(leader.seen) == 1


def test_a_url_that_is_none_is_an_error_of_ours() -> None:
    with RestClient() as client, pytest.raises(ConnectError, match="trying to forward REST request: "):
        client.forward("GET", "leader:8083", "/connectors")


# -- https -------------------------------------------------------------------------------------------------------------

CA = Authority()
WORKER = CA.issue("worker")


@contextmanager
def secure(folder: Path, issued: Issued, clients: str | None = None) -> Iterator[Leader]:
    """A leader that shows this certificate, and asks for one of the authority `clients`."""
    (folder / "leader.pem").write_text(issued.pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "leader.pem")
    if clients is not None:
        context.load_verify_locations(cadata=clients)
        context.verify_mode = ssl.CERT_REQUIRED
    made = Leader(context)
    made.status = 200
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()


def settings_of(folder: Path, own: Issued = WORKER, trusted: str = CA.pem) -> dict[str, str]:
    (folder / "own.pem").write_text(own.pem)
    (folder / "ca.pem").write_text(trusted)
    names = {"key": "own.pem", "trust": "ca.pem"}
    return {f"listeners.https.ssl.{kind}store.location": str(folder / name) for kind, name in names.items()}


def asked(leader: Leader, props: dict[str, str], url: str | None = None) -> int:
    with RestClient(tls=workers_tls(props)) as client:
        return client.forward("GET", url or leader.url, "/connectors").status


def test_workers_with_https_show_and_trust_what_their_listeners_do(tmp_path: Path) -> None:
    with secure(tmp_path, WORKER, CA.pem) as leader:
        assert asked(leader, settings_of(tmp_path)) == 200
        plain = {key.removeprefix("listeners.https."): value for key, value in settings_of(tmp_path).items()}
        assert asked(leader, plain) == 200
        with pytest.raises(ConnectError, match=r"does not accept this worker's certificate.*ssl\.truststore\.location"):
            asked(leader, settings_of(tmp_path, Authority("Other").issue("worker")))
        assert asked(leader, settings_of(tmp_path)) == 200


def test_workers_that_share_a_certificate_of_their_own_trust_each_other(tmp_path: Path) -> None:
    own = Authority("shared").own
    with secure(tmp_path, own) as leader:
        props = {"ssl.keystore.location": str(tmp_path / "leader.pem"), "ssl.endpoint.identification.algorithm": ""}
        assert asked(leader, props) == 200


@pytest.mark.parametrize(
    ("issued", "told"),
    [
        (CA.issue("worker", days=-1), "certificate has expired; renew it"),
        (CA.issue("worker", ["other.example"]), r"IP address mismatch.*rest\.advertised\.host\.name"),
        (Authority("worker").own, r"self-signed certificate; put .* into ssl\.truststore\.location"),
        (
            Authority("Other").issue("worker"),
            r"unable to get local issuer certificate; put .* ssl\.truststore\.location",
        ),
    ],
)
def test_a_certificate_that_is_not_accepted_is_refused_with_worker_reason_and_setting(
    issued: Issued, told: str, tmp_path: Path
) -> None:
    with secure(tmp_path, issued) as leader, pytest.raises(ConnectError, match=told) as caught:
        asked(leader, settings_of(tmp_path))
    assert leader.url in caught.value.message
    assert leader.seen == []


def test_a_wrong_name_is_refused_unless_names_are_not_checked(tmp_path: Path) -> None:
    with secure(tmp_path, CA.issue("worker", ["127.0.0.1"])) as leader:
        url = leader.url.replace("127.0.0.1", "localhost")
        with pytest.raises(ConnectError, match="Hostname mismatch"):
            asked(leader, settings_of(tmp_path), url)
        props = {**settings_of(tmp_path), "listeners.https.ssl.endpoint.identification.algorithm": ""}
        assert asked(leader, props, url) == 200


def test_a_worker_with_http_under_an_https_url_is_named(leader: Leader, tmp_path: Path) -> None:
    url = leader.url.replace("http", "https")
    with pytest.raises(ConnectError, match=f"TLS with the other worker failed: .*has it https there.*{url}"):
        asked(leader, settings_of(tmp_path), url)


def test_stores_that_cannot_be_read_are_an_error_of_ours(tmp_path: Path) -> None:
    props = settings_of(tmp_path)
    (tmp_path / "ca.pem").unlink()
    with (
        secure(tmp_path, WORKER) as leader,
        pytest.raises(ConnectError, match=r"listeners\.https\.ssl\.truststore\.location .*cannot be read"),
    ):
        asked(leader, props)


def test_changed_stores_are_used_by_the_next_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_LOOK_S", 0.0)
    new = Authority("New")
    props = settings_of(tmp_path)
    with RestClient(tls=workers_tls(props)) as client:
        with secure(tmp_path, WORKER, CA.pem) as leader:
            assert client.forward("GET", leader.url, "/connectors").status == 200
        with secure(tmp_path, new.issue("worker"), new.pem) as leader:
            with pytest.raises(ConnectError, match="not accepted"):
                client.forward("GET", leader.url, "/connectors")
            for name, text in (("own.pem", new.issue("worker").pem), ("ca.pem", new.pem)):
                (tmp_path / "new").write_text(text)
                os.replace(tmp_path / "new", tmp_path / name)
            assert client.forward("GET", leader.url, "/connectors").status == 200
