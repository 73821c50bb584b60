"""The bytes of request bodies that are in memory. Light: it is imported before Spark's JVM is launched."""

from __future__ import annotations

import threading
from typing import Final

_AT_ONCE: Final = 8
"""So many of the largest bodies may be in memory at once."""
_OF_UNKNOWN: Final = 2
"""So many of those from senders that no login and no worker's signature has named before."""


class BodySum:
    """The bytes of all bodies that are in memory, over all listeners; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = {True: 0, False: 0}
        """Of known senders, and of others."""

    def add(self, count: int, is_known: bool, most: int) -> bool:
        """Whether there is room for so many more bytes, which are counted then."""
        with self._lock:
            sum_ = self._bytes[is_known] + count
            if count > 0 and sum_ > most * (_AT_ONCE if is_known else _OF_UNKNOWN):
                return False
            self._bytes[is_known] = sum_
            return True
