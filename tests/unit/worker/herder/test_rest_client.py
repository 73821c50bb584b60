"""What a worker tells the leader goes out signed, over connections that are used again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headrace.worker.errors import ConnectError
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.model import Signed
from headrace.worker.signing import ALGORITHM_HEADER, SIGNATURE_HEADER, SessionKey, verify


class Leader:
    """A server on a free port that notes requests and the connections they come on."""

    def __init__(self) -> None:
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
                leader.hold.wait(20)
                self.send_response(leader.status)
                self.send_header("Content-Length", str(len(leader.body)))
                self.end_headers()
                self.wfile.write(leader.body)

            do_POST = do_PUT = do_GET = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
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
