"""A Java stage or task whose start its worker has given up."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.connectors.java.host import __main__ as module
from headrace.connectors.java.host.__main__ import Host


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
    monkeypatch.setattr(module, "Plugin", lambda *_: None)
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
