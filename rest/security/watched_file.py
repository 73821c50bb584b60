"""A file whose value is read again when the file has changed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from headrace.config.problems import ConfigError

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_S: Final = 1.0


class WatchedFile(Generic[T]):
    """The value of a file, at most a second old; any thread may ask.

    What cannot be read any more keeps the value that it had, and the log says so.

    Decided: the file is looked at on the thread that asks, because a look takes microseconds; loses: a hung network
    mount holds up REST.
    """

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """Errors: ConfigError of `read`."""
        self._path = path
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._look()
        self._value = read(path)
        self._next_look = time.monotonic() + _LOOK_S

    def current(self) -> T:
        """The value of the file as it is now."""
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._lock.release()
        return self._value

    def _renew(self) -> None:
        self._next_look = time.monotonic() + _LOOK_S
        found = self._look()
        if found == self._seen:
            return
        self._seen = found
        try:
            self._value = self._read(self._path)
        except ConfigError as error:
            log.error("%s; what it had before is used until it is mended", error)
        else:
            log.info("%s has changed and was read again", self._path)

    def _look(self) -> object:
        """What is another after a change; taken before the file is read, so that no change is missed."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            return error.errno
        return found.st_mtime_ns, found.st_size, found.st_ino
