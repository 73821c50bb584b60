"""A Java stage or task whose start its worker has given up, and answers that come late."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import pytest

from headrace.connectors.java.host import __main__ as module
from headrace.connectors.java.host.__main__ import Host


class Wire:
    """Keeps what is sent; gives the messages that are put into it."""

    def __init__(self) -> None:
        self.sent, self.coming = SimpleQueue[Mapping[str, Any]](), SimpleQueue[Mapping[str, Any] | None]()
        self.is_broken = False

    def send(self, message: Mapping[str, Any], _data: object = b"") -> None:
        if self.is_broken:
            raise OSError("the worker is gone")
        self.sent.put(message)

    def receive(self) -> tuple[Mapping[str, Any], bytes]:
        if (message := self.coming.get(timeout=60)) is None:
            raise EOFError
        return message, b""


class Part:
    """Starts for as long as it is told to."""

    wants_receipts = False
    begun = threading.Event()
    goes_on = threading.Event()
    stopped = 0

    def __init__(self, *_: object) -> None:
        Part.begun.set()
        assert Part.goes_on.wait(60)

    def stop(self) -> bool:
        Part.stopped += 1
        return True


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    for name in ("CrossedStage", "HostedTask"):
        monkeypatch.setattr(module, name, Part)
    monkeypatch.setattr(module, "HostedStage", lambda *_, **__: None)
    monkeypatch.setattr(module, "HostedPlugin", lambda *_: None)
    for name, value in (("begun", threading.Event()), ("goes_on", threading.Event()), ("stopped", 0)):
        monkeypatch.setattr(Part, name, value)
    unused: Any = None
    made = Host(unused)
    monkeypatch.setattr(made, "_jvm", object())
    return made


GIVEN: Mapping[str, Any] = {
    "task": 7,
    "stage": None,
    "is_source": True,
    "name": "c-0",
    "config": {},
    "headers": None,
    "in_transactions": False,
    "bounds_transactions": False,
}


@pytest.mark.parametrize("area", ["stage", "task"])
def test_what_was_given_up_while_it_started_ends_once_it_has(host: Host, area: str) -> None:
    start = threading.Thread(target=host._call, args=(f"{area}.start", {**GIVEN, "plugin": None}))
    start.start()
    assert Part.begun.wait(60)
    assert host._call(f"{area}.stop", {"task": 7}) is False
    Part.goes_on.set()
    start.join(60)
    assert Part.stopped == 1
    assert host._call(f"{area}.stop", {"task": 7}) is True
    assert Part.stopped == 1


@pytest.mark.parametrize("area", ["stage", "task"])
def test_what_has_started_ends_when_it_is_asked_to(host: Host, area: str) -> None:
    Part.goes_on.set()
    host._call(f"{area}.start", {**GIVEN, "plugin": None})
    assert host._call(f"{area}.stop", {"task": 7}) is True
    assert Part.stopped == 1


def test_an_answer_that_comes_too_late_is_kept_by_nobody_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OFFSETS_S", 0.01)
    wire: Any = Wire()
    host = Host(wire)
    with pytest.raises(TimeoutError):
        host._ask(7, ["p"])
    monkeypatch.setattr(module, "OFFSETS_S", 60)
    serving = threading.Thread(target=host.serve, daemon=True)
    serving.start()
    wire.coming.put({"answer": wire.sent.get()["ask"], "offsets": ["late"]})
    found = SimpleQueue[Any]()
    threading.Thread(target=lambda: found.put(host._ask(7, ["q"])), daemon=True).start()
    wire.coming.put({"answer": wire.sent.get(timeout=60)["ask"], "offsets": ["5"]})
    assert found.get(timeout=60) == ["5"]
    wire.is_broken = True
    with pytest.raises(OSError, match="gone"):
        host._ask(7, ["r"])
    assert not host._asked
    wire.coming.put(None)
    serving.join(60)
    assert not serving.is_alive()
