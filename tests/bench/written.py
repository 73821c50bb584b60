"""Names the files that were written to, as Linux's inotify tells.

Decided: not looked at every half millisecond, because to look at 100 files took an eighth of a core of the two that the
measured worker runs on, and emptied its caches; loses: a microsecond or two of each write, on every side.
"""

import ctypes
import os
import select
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_MODIFIED = 0x00000002
"""IN_MODIFY."""
_LOST = -1
"""The watch of an event that says that others were lost."""
_EVENT = struct.Struct("iIII")


class Written:
    """Watches files that are there already."""

    def __init__(self, files: Sequence[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._numbers: dict[int, int] = {}
        for number, file in enumerate(files):
            watch = libc.inotify_add_watch(self._descriptor, os.fsencode(file), _MODIFIED)
            if watch < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", str(file))
            self._numbers[watch] = number
        self._ready = select.poll()
        self._ready.register(self._descriptor, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def wait(self, seconds: float) -> set[int]:
        """The numbers of the files that were written to since the last time; none when the time is up."""
        if not self._ready.poll(seconds * 1000):
            return set()
        data, numbers, at = os.read(self._descriptor, 1 << 16), set[int](), 0
        while at < len(data):
            watch, _, _, name_bytes = _EVENT.unpack_from(data, at)
            numbers |= set(self._numbers.values()) if watch == _LOST else {self._numbers[watch]}
            at += _EVENT.size + name_bytes
        return numbers
