"""Counts the bytes of request bodies in memory. Light to import, because Spark's JVM starts after it."""

from __future__ import annotations

import threading
from typing import Final

_AT_ONCE: Final = 8
"""The most bodies of the largest size in memory at once."""
_OF_UNKNOWN: Final = 2
"""The same for unknown senders: no login and no worker's signature has identified them before the body is read."""


class BodySum:
    """Counts the bytes of all bodies in memory, over all listeners. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = {True: 0, False: 0}
        """The bytes of known senders (True), and of others (False)."""

    def add(self, count: int, is_known: bool, most: int) -> bool:
        """Counts more bytes if there is room; False if there is not."""
        with self._lock:
            sum_ = self._bytes[is_known] + count
            if count > 0 and sum_ > most * (_AT_ONCE if is_known else _OF_UNKNOWN):
                return False
            self._bytes[is_known] = sum_
            return True
