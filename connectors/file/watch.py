"""News of files, by Linux's inotify, so that their sources need not look again and again.

Decided: one thread looks at all watched files besides, ten times a second while they are few and twice while they are
many, because nothing tells of writes from another machine to a network file system, of writes through mapped memory, or
of a new file under a renamed one's name. A look costs two system calls; waking a source for it costs some 0.2 ms, and
200 a second were a third of the cost of 200 idle connectors. Loses: while one file system does not answer, untold news
elsewhere wait, too, until their sources look by themselves.

Decided: a watch tells once, and stands again only after a second plan in a row has found nothing, because a writer that
never rests would otherwise wake its source with every write. If the last plan was long ago, the watch stands before the
plan that finds the next line. That plan then needs no other to know that it found all: half the cost of a line that
comes alone. Loses: a few looks after each line of a busy writer.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headrace.plugins.backoff import idle_pause_s

_EVENTS: Final = 0x00000002 | 0x00000004 | 0x00000400 | 0x00000800 | 0x00000040 | 0x00000080 | 0x00000100 | 0x00000200
"""IN_MODIFY, IN_ATTRIB, IN_DELETE_SELF and IN_MOVE_SELF; of a directory also IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE and
IN_DELETE."""
_ONCE: Final = 0x80000000
_GONE: Final = 0x00008000
"""IN_IGNORED: the watch has been removed."""
_LOST: Final = -1
"""The watch number of an event that says that others were lost."""
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 1 << 16
_FRUITLESS: Final = 2
"""A watch stands after so many plans in a row that found nothing."""
_REST_S: Final = 0.1
"""A file is at rest if the last plan was so long ago."""


class Inotify:
    """The process's watches of files; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: dict[int, list[Callable[[], None]]] = {}
        self._descriptor: int | None = None
        self._libc: Any = None

    def watch(self, descriptor: int, told: Callable[[], None]) -> int | None:
        """Calls `told` once, soon after the open file changes; the number of the watch, None if there can be none."""
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
        """Calls `told` no more."""
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


class _Look(NamedTuple):
    """A file that is looked at, in the state in which its source had read it to its end."""

    descriptor: int
    path: str
    state: object
    told: Callable[[], None]

    @classmethod
    def at(cls, descriptor: int, path: str, told: Callable[[], None]) -> _Look:
        return cls(descriptor, path, _state(descriptor, path), told)


class _Looks:
    """Looks at files on its own thread; any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[object, _Look] = {}
        self._any = threading.Event()
        self._runs = False

    def begin(self, watch: object, look: _Look) -> None:
        with self._lock:
            self._files[watch] = look
            self._any.set()
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="file-look", daemon=True).start()

    def end(self, watch: object) -> None:
        with self._lock:
            self._files.pop(watch, None)
            if not self._files:
                self._any.clear()

    def _run(self) -> None:
        while self._any.wait():
            time.sleep(idle_pause_s(len(self._files)))
            with self._lock:
                files = list(self._files.values())
            for look in files:
                if _state(look.descriptor, look.path) != look.state:
                    look.told()


def _state(descriptor: int, path: str) -> object:
    """A value that differs once the open file, or the file under its name, has changed."""
    return _seen(descriptor), _seen(path)


def _seen(file: int | str) -> object:
    try:
        status = os.stat(file)
    except OSError as error:
        return error.errno
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_LOOKS: Final = _Looks()


class FileWatch:
    """The watch of one file; for its task's thread."""

    def __init__(self, path: str, wake: Callable[[], None]) -> None:
        self._path = path
        self._wake = wake
        self._lock = threading.Lock()
        """Held while a watch begins or ends: news may come while it begins."""
        self._number: int | None = None
        self._fruitless = 0
        self._planned_at = 0.0

    @property
    def stands(self) -> bool:
        """True if the next change will be told."""
        return self._number is not None

    def stand_if_at_rest(self, descriptor: int) -> None:
        """Starts the watch before a plan that may find the first line for a while, and then needs no other."""
        if self._number is None and time.monotonic() - self._planned_at > _REST_S:
            self._stand(descriptor)

    def found_nothing(self, descriptor: int) -> bool:
        """True if a watch stands from now on: only another look finds what came just before it."""
        self._planned_at = time.monotonic()
        self._fruitless += 1
        if self._number is not None or self._fruitless < _FRUITLESS:
            return False
        return self._stand(descriptor)

    def _stand(self, descriptor: int) -> bool:
        """Starts a watch until it tells; False if there can be none."""
        with self._lock:
            look = _Look.at(descriptor, self._path, self._told)
            self._number = INOTIFY.watch(descriptor, self._told)
            if self._number is not None:
                _LOOKS.begin(self, look)
            return self._number is not None

    def found(self) -> None:
        """Notes that a plan found something."""
        self._planned_at = time.monotonic()
        self._fruitless = 0

    def close(self) -> None:
        """Ends the watch."""
        self._end()
        self._fruitless = 0

    def _end(self) -> None:
        with self._lock:
            number, self._number = self._number, None
            _LOOKS.end(self)
            if number is not None:
                INOTIFY.end(number, self._told)

    def _told(self) -> None:
        self._fruitless = 0
        self._end()
        self._wake()
