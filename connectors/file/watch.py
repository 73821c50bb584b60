"""News of files, by Linux's inotify, so that their sources need not look again and again.

Decided: a watch is trusted only while it tells of what plans find, because nothing tells of what another machine writes
to a network file system, or of what is written through mapped memory: a plan that finds something untold has the
source look as often as before, until a watch tells of something again; loses: such a line, after a line that was
written here, waits for a second.

Decided: a watch tells once, and stands again only after a second plan in a row has found nothing, because a writer
that never rests would otherwise wake its source with every write; loses: a few looks after each line.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from typing import Any, Final

_EVENTS: Final = 0x00000002 | 0x00000004 | 0x00000400 | 0x00000800
"""IN_MODIFY, IN_ATTRIB, IN_DELETE_SELF and IN_MOVE_SELF."""
_ONCE: Final = 0x80000000
_GONE: Final = 0x00008000
"""IN_IGNORED: the watch has been removed."""
_LOST: Final = -1
"""The watch of an event that says that others were lost."""
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16
_FRUITLESS: Final = 2
"""How many plans in a row find nothing before a watch stands."""


class Inotify:
    """The process's watches of files; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[int, list[Callable[[], None]]] = {}
        self._descriptor: int | None = None
        self._libc: Any = None

    def watch(self, descriptor: int, told: Callable[[], None]) -> int | None:
        """Call `told` once, soon after the open file changes; the number of the watch, None where there can be none."""
        with self._lock:
            if self._descriptor is None and not self._began():
                return None
            path = f"/proc/self/fd/{descriptor}".encode()
            number: int = self._libc.inotify_add_watch(self._descriptor, path, ctypes.c_uint32(_EVENTS | _ONCE))
            if number < 0:  # there are too many
                return None
            self._told.setdefault(number, []).append(told)
            return number

    def end(self, number: int, told: Callable[[], None]) -> None:
        """Do not call `told` any more."""
        with self._lock:
            tell = self._told.get(number, [])
            if told in tell:
                tell.remove(told)
                if not tell:
                    del self._told[number]
                    self._libc.inotify_rm_watch(self._descriptor, number)

    def _began(self) -> bool:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            return False
        descriptor: int = libc.inotify_init1(os.O_CLOEXEC)
        if descriptor < 0:
            return False
        self._libc, self._descriptor = libc, descriptor
        threading.Thread(target=self._listen, args=(descriptor,), name="file-watch", daemon=True).start()
        return True

    def _listen(self, descriptor: int) -> None:
        while True:
            data, at = os.read(descriptor, _READ_BYTES), 0
            while at < len(data):
                number, what, _, name_bytes = _EVENT.unpack_from(data, at)
                at += _EVENT.size + name_bytes
                if not what & _GONE:
                    self._tell(number)

    def _tell(self, number: int) -> None:
        with self._lock:
            numbers = list(self._told) if number == _LOST else [number]
            tell = [told for one in numbers for told in self._told.pop(one, ())]
        for told in tell:
            told()


INOTIFY: Final = Inotify()


class FileWatch:
    """Whether one file is watched, and whether that can be relied on; for its task's thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._number: int | None = None
        self._times_told = 0
        self._fruitless = 0
        self._trusted = False

    @property
    def is_reliable(self) -> bool:
        """Whether the next change will be told of, as far as one can know."""
        return self._trusted and self._number is not None

    def found_nothing(self, descriptor: int) -> bool:
        """Whether a watch stands from now on: what came just before it, only another look can find."""
        self._fruitless += 1
        if self._number is not None or self._fruitless < _FRUITLESS:
            return False
        told = self._times_told
        self._number = number = INOTIFY.watch(descriptor, self._told)
        if self._times_told != told:  # before its number was known here
            self._number = None
        return number is not None

    def found(self) -> None:
        """Note that a plan found something, and whether that was told of."""
        self._fruitless = 0
        if self._number is not None:
            self._trusted = False

    def close(self) -> None:
        """Watch no more; another file is not trusted before its first news."""
        if self._number is not None:
            INOTIFY.end(self._number, self._told)
        self._number, self._fruitless, self._trusted = None, 0, False

    def _told(self) -> None:
        self._times_told += 1
        self._number, self._fruitless, self._trusted = None, 0, True
        self._wake()
