"""Finds the files of patterns such as `/var/log/**/*.log`, and the directories that were looked into."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

_ANY_DEPTH: Final = "**"
_WILD: Final = frozenset("*?[")
_TRUSTED_NS: Final = 50_000_000
"""A directory may change again within the tick of the clock that its time of change shows."""

log = logging.getLogger(__name__)


def begin_of(pattern: str) -> str:
    """The directory below which all files of the pattern lie."""
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts[:-1]) if _is_wild(part)), len(parts) - 1)
    return "/".join(parts[:wild]) or "/"


class _Found(NamedTuple):
    path: str
    status: os.stat_result
    is_link: bool


class Globs:
    """Patterns of files, and of files that are left out."""

    def __init__(self, patterns: Sequence[str], excluded: Sequence[str]) -> None:
        self._patterns = [os.path.normpath(pattern).split("/")[1:] for pattern in patterns]
        self._excluded = excluded
        self.directories: dict[str, int] = {}
        """Directories looked into, and those that hold what links lead to, with their time of change."""
        self._told: set[str] = set()

    def files(self) -> dict[str, os.stat_result]:
        """The regular files, by path; of several names for one file the first counts."""
        self.directories = {}
        found = {one.path: one for parts in self._patterns for one in self._below("/", parts)}
        ordered = sorted(found.values(), key=lambda one: (one.is_link, one.path))
        unique: dict[tuple[int, int], _Found] = {}
        for one in ordered:
            unique.setdefault((one.status.st_dev, one.status.st_ino), one)
        for one in unique.values():
            if one.is_link:
                self._enter(os.path.dirname(os.path.realpath(one.path)))
        return {one.path: one.status for one in unique.values()}

    def have_changed(self) -> bool:
        """True if a file may have come or gone since the last look."""
        now = time.time_ns()
        return any(_changed(path) != seen or abs(now - seen) < _TRUSTED_NS for path, seen in self.directories.items())

    def match(self, path: str) -> bool:
        """True if this file is one of the patterns'."""
        parts = path.split("/")[1:]
        return not self.excludes(path) and any(_matches(parts, pattern) for pattern in self._patterns)

    def excludes(self, path: str) -> bool:
        """True if this file is left out."""
        name = os.path.basename(path)
        return any(fnmatchcase(path if "/" in one else name, one) for one in self._excluded)

    def _below(self, path: str, parts: Sequence[str]) -> Iterator[_Found]:
        part, rest = parts[0], parts[1:]
        if not _is_wild(part):
            below = os.path.join(path, part)
            if rest:
                yield from self._below(below, rest)
                return
            self._enter(path)
            yield from self._file(below, os.path.islink(below))
            return
        self._enter(path)
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._tell(path, f"cannot be listed: {error.strerror}. Let this worker's user read it.")
            return
        if part == _ANY_DEPTH:
            yield from self._below(path, rest or ["*"])
        for entry in entries:
            is_hidden = entry.name.startswith(".") and not part.startswith(".")
            if is_hidden:
                continue
            if part == _ANY_DEPTH:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._below(entry.path, parts)
            elif fnmatchcase(entry.name, part):
                yield from self._below(entry.path, rest) if rest else self._file(entry.path, entry.is_symlink())

    def _file(self, path: str, is_link: bool) -> Iterator[_Found]:
        if self.excludes(path):
            return
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._tell(path, f"is not read: {error.strerror}. Let this worker's user read it, or use `exclude`.")
            return
        if not stat.S_ISREG(status.st_mode):
            return
        if not _is_text(path):
            self._tell(path, "is not read: its name is not UTF-8. Rename it, or leave it out by `exclude`.")
            return
        yield _Found(path, status, is_link)

    def _tell(self, path: str, why: str) -> None:
        """Logs a warning, once for a path."""
        if path not in self._told:
            self._told.add(path)
            log.warning("%a %s", path, why)

    def _enter(self, path: str) -> None:
        changed = _changed(path)
        if changed is not None:
            self.directories[path] = min(changed, self.directories.get(path, changed))


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _is_text(path: str) -> bool:
    """True if the path can be a value of a record; bytes that are not UTF-8 are lone surrogates in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_wild(part: str) -> bool:
    return not _WILD.isdisjoint(part)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not parts or not pattern:
        return not parts and not pattern
    if pattern[0] == _ANY_DEPTH:
        return _matches(parts, pattern[1:] or ["*"]) or _matches(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
