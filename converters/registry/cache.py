"""A cache of what a registry answered, for any thread."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Cache(Generic[Value]):
    """The most recently used values, at most `size`, each for at most `ttl_s` seconds."""

    def __init__(self, size: int, ttl_s: float | None = None) -> None:
        self._size = size
        self._ttl_s = ttl_s
        self._entries: OrderedDict[Hashable, tuple[Value, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, send: Callable[[], Value]) -> Value:
        """The value, by `send` if it is not cached; two threads may send at once, which costs a request."""
        found = self.peek(key)
        if found is None:
            found = send()
            self.put(key, found)
        return found

    def peek(self, key: Hashable) -> Value | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[1] <= time.monotonic():
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value) -> None:
        until = float("inf") if self._ttl_s is None else time.monotonic() + self._ttl_s
        with self._lock:
            self._entries[key] = (value, until)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
