"""Releases that a connection loses are sent once more; what is the JVM's own never is."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from py4j.protocol import ENTRY_POINT_OBJECT_ID, GATEWAY_SERVER_OBJECT_ID

from headrace.worker.engine import fewer_calls


class Client:
    """Whose connections answer what they are told to."""

    def __init__(self, *answers: bytes) -> None:
        self.finalizer_deque: Any = SimpleNamespace(appendleft=self._ended)
        self.sent: list[str] = []
        self.given_back = self.closed = 0
        self._answers = list(answers)

    def _ended(self, task: str) -> None:
        assert task == SHUTDOWN_FINALIZER_WORKER  # py4j's own thread

    def _get_connection(self) -> Any:
        socket = SimpleNamespace(sendall=lambda data: self.sent.append(data.decode()))
        return SimpleNamespace(socket=socket, stream=io.BytesIO(self._answers.pop(0)), close=self._close)

    def _give_back_connection(self, connection: Any) -> None:
        self.given_back += 1

    def _close(self, reset: bool) -> None:
        self.closed += 1


def released(monkeypatch: pytest.MonkeyPatch, client: Client, *names: str) -> None:
    monkeypatch.setattr(fewer_calls, "_GATHER_S", 0.0)
    before = set(threading.enumerate())
    fewer_calls._Releases(client).take_over()
    (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "py4j-releases")
    for task in [(client, name) for name in names]:
        client.finalizer_deque.appendleft(task)
    client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("lost", [b"", b"!yv\n!z:it broke\n"], ids=["closed", "fatal"])
def test_what_a_connection_loses_is_released_by_the_next(monkeypatch: pytest.MonkeyPatch, lost: bytes) -> None:
    monkeypatch.setattr(fewer_calls, "_MOST", 2)
    client = Client(lost, b"!yv\n!yv\n")
    released(monkeypatch, client, "o1", "o2")
    assert client.sent == ["m\nd\no1\ne\nm\nd\no2\ne\n"] * 2
    assert (client.given_back, client.closed) == (1, 1)


def test_a_jvm_that_is_gone_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewer_calls, "_MOST", 1)
    client = Client(b"", b"", b"!yv\n")
    released(monkeypatch, client, "o1", "o2")
    assert (client.given_back, client.closed) == (1, 2)


def test_what_is_the_jvms_own_is_never_released(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    released(monkeypatch, client, ENTRY_POINT_OBJECT_ID, GATEWAY_SERVER_OBJECT_ID)
    assert client.sent == []
