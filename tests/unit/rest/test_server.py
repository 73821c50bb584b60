"""The server's listeners, its start and its end."""

from __future__ import annotations

import signal
import time

import httpx
import pytest
from starlette.responses import PlainTextResponse

from headrace.config.problems import ConfigError
from headrace.config.worker.listeners import Listener
from headrace.rest.server import HttpServer

ANY = Listener("http", "127.0.0.1", 0)


def test_serves_all_listeners_and_nothing_after_stop() -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    server = HttpServer([ANY, Listener("http", "localhost", 0)])
    assert all(one.port for one in server.bound)
    server.start(PlainTextResponse("here"))
    with httpx.Client(timeout=60) as client:  # keeps its connections: they may not hold up the end
        for one in server.bound:
            assert client.get(str(one)).text == "here"
        assert {number: signal.getsignal(number) for number in handlers} == handlers
        server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(str(server.bound[0]), timeout=60)


def test_an_empty_host_means_every_interface() -> None:
    server = HttpServer([Listener("http", "", 0)])
    server.start(PlainTextResponse("here"))
    assert httpx.get(f"http://127.0.0.1:{server.bound[0].port}", timeout=60).text == "here"
    server.stop()


def test_answers_on_a_kept_connection_do_not_wait_for_acks() -> None:
    server = HttpServer([ANY])
    server.start(PlainTextResponse("here"))
    with httpx.Client(base_url=str(server.bound[0]), timeout=60) as client:
        deadline = time.monotonic() + 60
        # With Nagle's algorithm all but the first few take 40 ms; on a busy machine many do, too, for a while.
        while sorted(client.get("/").elapsed.total_seconds() for _ in range(21))[6] >= 0.035:
            assert time.monotonic() < deadline
    server.stop()


def test_a_port_that_is_taken_is_refused_and_the_others_are_freed() -> None:
    first = HttpServer([ANY])
    other = HttpServer([ANY])
    free = other.bound[0]
    other.stop()
    with pytest.raises(ConfigError, match=f"listeners .*{first.bound[0].port}.*Address already in use"):
        HttpServer([free, first.bound[0]])
    HttpServer([free]).stop()
    first.stop()
