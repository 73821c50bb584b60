"""The common part of tests' hosts: they note what they are called with, and end tasks as real ones do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.java.process import JavaHost


class NotingHost:
    """A host for one connector, task or stage; `call` is what a test makes of it."""

    def __init__(self) -> None:
        self.offsets: dict[int, Any] = {}
        self.is_lost = self.is_retired = False
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def number(self) -> int:
        self.offsets[7] = None
        return 7

    def post(self, name: str, /, **given: Any) -> None:
        self.calls.append((name, given))

    def leave(self, number: int) -> None:
        del self.offsets[number]

    end_task = JavaHost.end_task
    _has_ended = JavaHost._has_ended
