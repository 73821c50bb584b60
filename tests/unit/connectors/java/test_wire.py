from __future__ import annotations

import socket
import threading

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.java.errors import JavaError, Unsupported, error_of
from headrace.connectors.java.wire import Wire
from headrace.plugins.errors import RetriableError


def test_messages_arrive_whole_and_in_order() -> None:
    one, other = (Wire(end) for end in socket.socketpair())
    data = bytes(range(256)) * 10_000  # more than the connection holds
    sender = threading.Thread(target=lambda: (one.send({"id": 1, "text": "é"}), one.send({"id": 2}, memoryview(data))))
    sender.start()
    assert other.receive() == ({"id": 1, "text": "é"}, bytearray())
    assert other.receive() == ({"id": 2}, bytearray(data))
    sender.join()
    one.close()
    with pytest.raises(EOFError):
        other.receive()
    other.close()


@pytest.mark.parametrize(
    ("kind", "error"),
    [("retriable", RetriableError), ("config", ConfigError), ("unsupported", Unsupported), ("other", JavaError)],
)
def test_java_errors_become_what_the_worker_understands(kind: str, error: type[Exception]) -> None:
    made = error_of({"class": "org.x.E", "message": "it is so", "trace": "org.x.E: it is so\n\tat a", "kind": kind})
    assert isinstance(made, error)
    assert "it is so" in str(made)
