"""Limits that no client can use up: connections, memory for bodies, the thread that serves all."""

from __future__ import annotations

import asyncio
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from headrace.config.worker.listeners import Listener
from headrace.rest.connections import ConnectionLimits
from headrace.rest.http import requests
from headrace.rest.http.request_bodies import BoundedBodies
from headrace.rest.server import HttpServer
from headrace.worker.errors import BadRequest
from headrace.worker.storage.signing import SessionKey
from tests.unit.rest.scripted import scripted, serving

FREE = Listener("http", "127.0.0.1", 0)
HALF = b"GET / HTTP/1.1\r\nHost: a\r\nX-"


def opened(server: HttpServer, sent: bytes = HALF) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.bound[0].port), timeout=60)
    made.sendall(sent)
    return made


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server ends the connection; False if it does not in time."""
    try:
        while connection.recv(65536):
            continue
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.fixture
def server() -> Iterator[HttpServer]:
    made = HttpServer([FREE], limits=ConnectionLimits(4, 0.3))
    made.start(PlainTextResponse("here"))
    yield made
    made.stop()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HALF,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + HALF,
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    ],
)
def test_a_connection_that_does_not_end_its_request_is_closed(server: HttpServer, sent: bytes) -> None:
    with opened(server, sent) as connection:
        assert is_closed(connection)


def test_a_slow_answer_is_waited_for() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.5)
        await PlainTextResponse("late")(scope, receive, send)

    server = HttpServer([FREE], limits=ConnectionLimits(4, 0.1))
    server.start(slow)
    assert httpx.get(str(server.bound[0]), timeout=60).text == "late"
    server.stop()


def test_connections_that_ask_nothing_make_room_for_one_that_does(caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer([FREE], limits=ConnectionLimits(4, 60))
    server.start(PlainTextResponse("here"))
    with caplog.at_level(logging.WARNING):
        idle = [opened(server) for _ in range(12)]
        assert httpx.get(str(server.bound[0]), timeout=60).text == "here"
    assert all(is_closed(one) for one in idle[:8])
    assert sum("All 4 connections" in one.getMessage() for one in caplog.records) == 1
    for one in idle:
        one.close()
    server.stop()


def test_a_connection_too_many_is_refused_while_all_others_are_at_work() -> None:
    at_work, go_on = threading.Semaphore(0), threading.Event()

    def answer() -> list[str]:
        at_work.release()
        go_on.wait(60)
        return []

    herder = scripted({"connectors": answer})
    with serving(herder, limits=ConnectionLimits(2, 60)) as client:
        request = b"GET /connectors HTTP/1.1\r\nHost: a\r\n\r\n"
        address = (client.base_url.host, client.base_url.port or 0)
        working = [socket.create_connection(address, timeout=60) for _ in range(2)]
        for one in working:
            one.sendall(request)
            assert at_work.acquire(timeout=60)
        with socket.create_connection(address, timeout=60) as third:
            assert is_closed(third)
        go_on.set()
        assert all(one.recv(100).startswith(b"HTTP/1.1 200") for one in working)
        for one in working:
            one.close()


def chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b" " * 1000


def test_a_body_beyond_the_bound_is_refused() -> None:
    herder = scripted({"configure": (True, None)})
    headers = {"content-type": "application/json"}
    with serving(herder, {"rest.max.request.bytes": 5000}) as client:
        said = client.put("/connectors/c/config", content=b" " * 5001, headers=headers)
        unsaid = client.put("/connectors/c/config", content=chunks(6), headers=headers)
        for answer in (said, unsaid):
            assert answer.status_code == answer.json()["error_code"] == 413
            assert "rest.max.request.bytes" in answer.json()["message"]
        assert herder.asked == []
        within = client.put("/connectors/c/config", content=b" " * 5000, headers=headers)
        assert within.status_code == 400  # no JSON


def test_a_body_that_does_not_end_is_given_up() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Request(scope, receive).body()
        except Exception as error:
            seen.append(error)
        await PlainTextResponse("given up")(scope, receive, send)

    seen: list[Any] = []
    server = HttpServer([FREE])
    server.start(BoundedBodies(read, 5000, seconds=0.2))
    with opened(server, b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert [one.status for one in seen] == [408]
    server.stop()


TASKS = "/connectors/c/tasks"
KEY = SessionKey.generate("HmacSHA256")
FAKED = {"x-connect-authorization": "c2ln", "x-connect-request-signature-algorithm": "HmacSHA256"}


def unfinished(port: int, count: int, headers: dict[str, str], sent: bytes) -> list[socket.socket]:
    """Connections that have sent these bytes of a body, and not the rest."""
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    begin = f"POST {TASKS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 900\r\n{head}\r\n"
    made = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]
    for one in made:
        one.sendall(begin.encode() + sent)
    return made


def answered(connections: list[socket.socket], count: int) -> set[int]:
    """The statuses of the first `count` answers; the connections of these are closed."""
    statuses = []
    while len(statuses) < count:
        readable, _, _ = select.select(connections, [], [], 20)
        assert readable, f"{len(statuses)} are answered"
        for one in readable:
            connections.remove(one)
            with one:
                statuses.append(int(one.recv(65536).split(b" ")[1]))
    return set(statuses)


@pytest.mark.parametrize(
    ("headers", "most"),
    [
        pytest.param(dict, 0, id="unsigned"),
        pytest.param(lambda: FAKED, 2, id="faked"),
        pytest.param(lambda: FAKED | KEY.sign_head("POST", TASKS), 9, id="of a worker"),
        pytest.param(lambda: FAKED | KEY.sign_head("PUT", TASKS), 2, id="another head"),
        pytest.param(lambda: FAKED | KEY.sign_head("POST", TASKS, now_ms=1), 2, id="old"),
        pytest.param(lambda: FAKED | SessionKey.generate("HmacSHA256").sign_head("POST", TASKS), 2, id="another key"),
        pytest.param(lambda: FAKED | {"x-headrace-worker": "x y"}, 2, id="no head"),
    ],
)
def test_unfinished_bodies_are_bounded_together(headers: Callable[[], dict[str, str]], most: int) -> None:
    """`most`: the number of bodies that fit. Bodies of requests without a signature are not read.

    `headers` are made in the test, because a signed head is good for a short time only.
    """
    herder = scripted({"put_task_configs": BadRequest("Internal request missing required signature")})
    type(herder).session_key = property(lambda _: KEY)
    with serving(herder, {"rest.max.request.bytes": 900}) as client:
        port = client.base_url.port
        assert port is not None
        hanging = unfinished(port, 10, headers(), b" " * 800)  # each comes in one piece
        assert answered(hanging, 10 - most) == ({503} if most else {400})
        assert not select.select(hanging, [], [], 0)[0]
        # Bodies of known senders have room of their own; it is all taken if these senders are known, too.
        config = client.put("/connectors/c/config", content=b" " * 900, headers={"content-type": "application/json"})
        assert config.status_code == (400 if most < 9 else 503)
        for one in hanging:
            one.close()


def test_a_client_that_leaves_in_mid_body_is_no_error_of_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(scripted()) as client:
        port = client.base_url.port
        assert port is not None
        (leaving,) = unfinished(port, 1, FAKED, b"[")
        leaving.close()
        deadline = time.monotonic() + 60
        while not any("left before" in record.getMessage() for record in caplog.records):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


def test_bodies_are_parsed_off_the_thread_that_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    loads = json.loads

    def noted(*given: Any, **named: Any) -> Any:
        seen.append(threading.current_thread().name)
        return loads(*given, **named)

    monkeypatch.setattr(requests.json, "loads", noted)
    with serving(scripted({"alter_offsets": "done", "patch": None})) as client:
        client.patch("/connectors/c/offsets", json={"offsets": [{"partition": {}, "offset": None}]})
        client.patch("/connectors/c/config", json={"a": "b"})
        client.put("/admin/loggers/headrace.test", json={"level": "INFO"})
    assert len(seen) == 3
    assert "rest-server" not in seen
