"""The plugins in examples/, against real servers."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headrace.plugins import Record, RecordsFailed, RetriableError
from tests.answering import Asked, answering
from tests.held_ports import held_port
from tests.integration.debian_packages import installed, program_path
from tests.integration.worker_process import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)


def opened(plugin: type[Any], **config: Any) -> Any:
    """The plugin as a task has it."""
    made = plugin()
    made.config = plugin.settings.parse({name: str(value) for name, value in config.items()})
    made.config = {name: getattr(value, "value", value) for name, value in made.config.items()}
    made.open()
    return made


def test_the_http_source_pages_through_events(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []
    status = 200

    def answer(one: Asked) -> tuple[int, Any]:
        asked.append(one.query)
        after, limit = int(one.query["after"]), int(one.query["limit"])
        return status, [{"id": n} for n in range(after + 1, min(after + limit, 5) + 1)]

    with answering(answer) as url:
        source = opened(example("http_source", monkeypatch).HttpEvents, url=url, topic="t", page=3)
        first = list(source.poll(None))
        second = list(source.poll(first[-1].offset))
        assert [(one.key, one.offset["id"]) for one in (*first, *second)] == [(str(n), n) for n in range(1, 6)]
        assert list(source.poll(second[-1].offset)) == []
        assert [one["after"] for one in asked] == ["0", "3", "5"]
        status = 503
        with pytest.raises(RetriableError, match="answers 503"):
            list(source.poll(None))
        source.close()


def test_the_http_sink_retries_and_names_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, Any] = {}
    busy = False

    def answer(one: Asked) -> tuple[int, Any]:
        if busy:
            return 503, "later"
        if one.body == "bad":
            return 422, "no such value"
        if one.method == "DELETE":
            return (200, held.pop(one.path)) if one.path in held else (404, "none")
        held[one.path] = one.body
        return 200, ""

    with answering(answer) as url:
        sink = opened(example("http_sink", monkeypatch).HttpRequests, url=url)
        with pytest.raises(RecordsFailed) as failed:
            sink.put([Record(1, key="a"), Record("bad", key="b"), Record(2, key="c"), Record(None, key="a")])
        assert [one.row for one in failed.value.failures] == [1]
        assert "no such value" in failed.value.failures[0].message
        assert held == {"/c": 2}
        sink.put([Record(None, key="a")])
        busy = True
        with pytest.raises(RetriableError, match="answers 503"):
            sink.put([Record(1, key="a")])
        sink.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[int]:
    """The port of a Redis server."""
    program = installed(["redis-server", "redis-cli"], ["redis-server", "redis-tools"])
    port = held_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            eventually(lambda: asked(port, "PING") == "PONG", 60)
            yield port
        finally:
            server.kill()


def asked(port: int, *words: str) -> str:
    done = subprocess.run([program_path("redis-cli"), "-p", str(port), *words], capture_output=True, text=True)
    return done.stdout.strip()


def test_the_redis_sink_keeps_the_last_value_of_a_key(monkeypatch: pytest.MonkeyPatch, redis: int) -> None:
    sink = opened(example("redis_sink", monkeypatch).RedisValues, host="127.0.0.1", port=redis)
    values = [Record({"n": n, "text": "grüße\r\n"}, key=f"k{n % 3}") for n in range(1000)]
    sink.put([*values, Record("gone", key="x"), Record(None, key="x")])
    assert asked(redis, "GET", "k0") == '{"n": 999, "text": "gr\\u00fc\\u00dfe\\r\\n"}'
    assert asked(redis, "DBSIZE") == "3"
    asked(redis, "CLIENT", "KILL", "TYPE", "normal")
    with pytest.raises(OSError, match=r"closed the connection|reset|[Bb]roken"):
        sink.put([Record(1, key="y")])
    sink.put([Record(1, key="y")])
    assert asked(redis, "GET", "y") == "1"
    asked(redis, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(RuntimeError, match="Redis answers -OOM"):
        sink.put([Record(1, key="z")])
    sink.close()
