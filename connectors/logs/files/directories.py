"""The files of directories, listed once a look, and watched by inotify."""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Final

from headrace.connectors.file.watch import INOTIFY

_ENDING: Final = re.compile(r"\.[A-Za-z]+$")


class Directory:
    """The entries of one directory at one time."""

    def __init__(self, path: str) -> None:
        try:
            with os.scandir(path) as found:
                self._entries = {entry.name: entry for entry in found}
        except (FileNotFoundError, NotADirectoryError):
            self._entries = {}
        self._names = sorted(self._entries)
        self._by_inode: dict[int, list[str]] = {}
        for name, entry in self._entries.items():
            self._by_inode.setdefault(entry.inode(), []).append(name)

    def entries(self, name: str, inode: int | None) -> Iterator[os.DirEntry[str]]:
        """The file of this name, those whose names begin as its does, and those with this inode."""
        stem = _ENDING.sub("", name)
        at = bisect_left(self._names, stem)
        names = dict.fromkeys(self._by_inode.get(inode, ()) if inode is not None else ())
        while at < len(self._names) and self._names[at].startswith(stem):
            names[self._names[at]] = None
            at += 1
        yield from (self._entries[one] for one in names)


class Directories:
    """Listings of directories until `forget`; for one task's thread."""

    def __init__(self) -> None:
        self._known: dict[str, Directory] = {}

    def of(self, path: str) -> Directory:
        """The listing of a directory; empty if it is not there."""
        if (found := self._known.get(path)) is None:
            found = self._known[path] = Directory(path)
        return found

    def forget(self) -> None:
        """Has directories listed anew."""
        self._known.clear()


class Watches:
    """Watches of directories; each tells once, and stands again after the next `stand`."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._lock = threading.Lock()
        """Held while a watch begins, because it may tell before its number is known."""
        self._numbers: dict[str, tuple[int, Callable[[], None]]] = {}

    def stand(self, paths: Collection[str]) -> bool:
        """Watches these directories and no others; True if all watches stood before."""
        for path in self._numbers.keys() - set(paths):
            self._end(path)
        missing = [path for path in paths if path not in self._numbers]
        for path in missing:
            if not self._watch(path):
                return False
        return not missing

    def close(self) -> None:
        """Ends all watches."""
        for path in list(self._numbers):
            self._end(path)

    def _watch(self, path: str) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            tell = partial(self._tell, path)
            with self._lock:
                number = INOTIFY.watch(descriptor, tell)
                if number is None:
                    return False
                self._numbers[path] = number, tell
        finally:
            os.close(descriptor)
        return True

    def _tell(self, path: str) -> None:
        self._ended(path)
        self._told()

    def _end(self, path: str) -> None:
        if (known := self._ended(path)) is not None:
            INOTIFY.end(*known)

    def _ended(self, path: str) -> tuple[int, Callable[[], None]] | None:
        with self._lock:
            return self._numbers.pop(path, None)
