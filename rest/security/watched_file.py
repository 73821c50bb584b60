"""A file whose value is reread when the file changes."""

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
    """The value of a file, at most a second old; any thread may call.

    If the file cannot be read any more, the last value stays, and the log says so.

    Decided: the calling thread checks the file, because that takes microseconds; loses: a hung network mount blocks
    REST.
    """

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """Reads the file. Errors: ConfigError of `read`."""
        self._path = path
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._look()
        self._value = read(path)
        self._next_look = time.monotonic() + _LOOK_S

    def current(self) -> T:
        """The present value of the file."""
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
        """A stamp that differs after a change; taken before the file is read, so that no change is missed."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            return error.errno
        return found.st_mtime_ns, found.st_size, found.st_ino
