"""Follows one log over its rotation: its live file, and the rotated ones that are not read to their ends.

The files of a log are a chain, the oldest first. One of them is read at a time, so a log's lines keep their order. The
stored offset says which one. It is known again by inode and head under any new name, by its head if it was
copied (copytruncate) or compressed. At its end the next younger one follows, though it was rotated as well meanwhile.

Decided: a compressed file is read in one plan however large it is, because each plan would decompress all before again;
loses: a worker that ends within that plan reads the file again from where the plan began.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.connectors.logs.files.contents import Content, Measure, Unusable
from headrace.connectors.logs.files.directories import Directories
from headrace.connectors.logs.files.offsets import LogOffset, identity, modified
from headrace.connectors.logs.files.reader import Part, Reading, gives_events
from headrace.connectors.logs.files.rotation import Rank, is_gzip, plain, rank
from headrace.plugins.contracts import Limit

ROTATION_QUIET_S: Final = 1.0
"""A renamed file is left once it stood still for so long: its writer may reopen later than it was renamed."""
_UNSTABLE_S: Final = 0.05
_AGAIN_S: Final = 0.1
_DAMAGED_S: Final = 60.0
_BLOCK_BYTES: Final = 1 << 16
_BY_HEAD: Final = 2

log = logging.getLogger(__name__)


class Member(NamedTuple):
    """A file of a log's chain."""

    path: str
    status: os.stat_result
    is_live: bool
    rank: Rank | None
    """None for the live file, and for one that was renamed so that its name tells no age."""


class Begin(NamedTuple):
    """The place where a log without an offset begins."""

    at_end: bool
    wants: Callable[[str, os.stat_result], bool]
    """True for rotated files that are read, too."""


class FollowedLog:
    """One log; its current file is open unless `close` was called."""

    def __init__(
        self,
        path: str,
        allowed: tuple[str, ...],
        reading: Reading,
        timeout_s: float,
        begin: Begin,
        directories: Directories,
    ) -> None:
        self.path = path
        self.due: float | None = None
        """The time of the monotonic clock at which a look is worth it though nothing changes."""
        self._allowed, self._reading, self._timeout_s, self._begin = allowed, reading, timeout_s, begin
        self._directories = directories
        self._content: Content | None = None
        self._of: LogOffset | None = None
        """The offset for which the file was opened."""
        self._moved: tuple[LogOffset | None, LogOffset] | None = None
        self._still: tuple[object, float] | None = None
        self._measured: tuple[object, Measure | None] | None = None
        self._cuts = False
        """True within a line that is too long, which is told once."""

    @property
    def is_open(self) -> bool:
        """True if it holds a descriptor."""
        return self._content is not None

    def state(self) -> object:
        """Changes if the current file changed, whatever its name is now."""
        return None if self._content is None else _shown(self._content.status())

    def close(self) -> None:
        """Closes the current file; the next plan finds it again."""
        if self._content is not None:
            self._content.close()
            self._content = self._measured = None

    def plan(self, stored: LogOffset | None, limit: Limit) -> Part | None:
        """The next part after the stored offset; None if nothing is complete.

        Errors: Unusable, OSError, RetriableError, ConfigError.
        """
        self.due = None
        at = self._resume(stored)
        if stored is None and at is not None and self._begin.at_end:
            # What follows counts from now on, also if the worker is killed before the first line is sent.
            return Part(self.path, self._current, at, at.position, False)
        while at is not None:
            is_rotated = self._is_rotated()
            part = self._unread(at, limit, is_rotated)
            if part is not None or not is_rotated:
                return part
            part = self._rest(at)
            if part is not None or self.due is not None:
                return part
            at = self._next(stored)
        return None

    @property
    def _current(self) -> Content:
        assert self._content is not None
        return self._content

    # -- which file ----------------------------------------------------------------------------------------------------

    def _resume(self, stored: LogOffset | None) -> LogOffset | None:
        """The position to go on from, with its file open; None without a file."""
        if self._moved is not None and self._moved[0] == stored:
            at: LogOffset | None = self._moved[1]
        else:
            at, self._moved = stored, None
        if at is None:
            return self._first()
        if self._content is not None and not self._is_its(at):
            self.close()
        if self._content is None:
            if not self._located(at):
                return self._after_lost(stored, at)
            self._of = at
        return at if at.position or self._is_rotated() else self._copied_since(stored, at)

    def _copied_since(self, stored: LogOffset | None, at: LogOffset) -> LogOffset:
        """The start of a copy of what the live file had before it was cut, if all that is unread; else `at`."""
        for one in self._members():
            if not one.is_live and modified(one.status) > (at.modified or 0) and at.inode is not None:
                self.close()
                self._content = Content.open(one.path, self._allowed)
                return self._begun(stored)
        return at

    def _is_its(self, at: LogOffset) -> bool:
        """True if the open file is still the one that was read up to this offset."""
        known = {identity(self._current.status())} | ({(self._of.inode, self._of.device)} if self._of else set())
        return (at.inode, at.device) in known and (self._current.is_gzip or self._current.fits(at))

    def _first(self) -> LogOffset | None:
        """The begin of a log that has no offset yet."""
        for one in self._members():
            is_wanted = one.is_live or (not self._begin.at_end and self._begin.wants(one.path, one.status))
            if not is_wanted or not self._opened(one.path):
                continue
            size = self._current.status().st_size
            self._of = self._current.begin(size if self._begin.at_end else 0)
            self._moved = None, self._of
            return self._of
        return None

    def _located(self, at: LogOffset) -> bool:
        """Opens the file that was read up to this offset; False if it is gone."""
        if self._opened(self.path):
            if identity(self._current.status()) == (at.inode, at.device) and self._current.fits(at):
                return True
            self.close()
        refused: Unusable | None = None
        for one in sorted(self._members(at), key=lambda one: _unlike(one, at)):
            if at.inode is None and not one.is_live:
                continue
            if _unlike(one, at) >= _BY_HEAD and at.head is None:
                continue  # nothing of it was read, so that only the inode could show that it is this one
            try:
                if self._opened(one.path):
                    if self._current.fits(at):
                        return True
                    self.close()
            except Unusable as error:
                refused = error
        if refused is not None:
            raise refused
        return False

    def _after_lost(self, stored: LogOffset | None, at: LogOffset) -> LogOffset | None:
        """The start of the first file that was changed after the one that is gone; None while files are renamed."""
        if not self._is_at_rest():
            return None
        if self._located(at):
            self._of = at
            return at
        for one in self._members():
            if not one.is_live and modified(one.status) <= (at.modified or 0):
                continue
            if self._opened(one.path):
                # Invariant 2: the start of another file is logged.
                log.warning(
                    "%s: the file that was read up to position %d (as %s) was cut, overwritten or removed, and is not "
                    "among those beside it. What it may still have had is lost; %s is read from its start.",
                    self.path, at.position, at.file, one.path,
                )  # fmt: skip
                return self._begun(stored)
        return None

    def _begun(self, stored: LogOffset | None) -> LogOffset:
        self._of = self._current.begin()
        self._moved = stored, self._of
        self._still = None
        return self._of

    def _opened(self, path: str) -> bool:
        try:
            self._content = Content.open(path, self._allowed)
        except FileNotFoundError:
            return False
        return True

    def _members(self, at: LogOffset | None = None) -> list[Member]:
        """The files of the chain that are there, the oldest first; with `at` also those with its inode."""
        directory, name = os.path.split(os.path.realpath(self.path))
        found: dict[str, Member] = {}
        live = None
        for entry in self._directories.of(directory).entries(name, at.inode if at is not None else None):
            is_live, age = entry.name == name, rank(name, entry.name)
            try:
                is_its = at is not None and entry.inode() == at.inode
                if not (is_live or age or is_its) or not entry.is_file():
                    continue
                one = Member(entry.path, entry.stat(), is_live, None if is_live else age)
            except FileNotFoundError:
                continue
            if is_live:
                live = one
            elif (twin := found.get(plain(entry.name))) is None or is_gzip(twin.path):
                found[plain(entry.name)] = one  # a file that is being compressed is there twice
        rotated = sorted(found.values(), key=lambda one: one.rank or Rank(True, (), -1))
        return [*rotated, live] if live is not None else rotated

    # -- what is unread ------------------------------------------------------------------------------------------------

    def _unread(self, at: LogOffset, limit: Limit, is_rotated: bool) -> Part | None:
        if self._current.is_gzip:
            measure = self._measure()
            length = measure.length if measure is not None else 0
            return self._part(at, length, closed=True) if length > at.position else None
        end, is_all = self._end(at, limit)
        while end is not None:
            closed = is_all and self._reading.joins and not is_rotated and self._stands(self._timeout_s, is_rotated)
            part = self._part(at, end, closed)
            if closed or gives_events(part, self._reading):
                return part
            if is_all:
                return None
            limit = Limit(4 * limit.rows, 4 * limit.bytes)
            end, is_all = self._end(at, limit)
        return None

    def _part(self, at: LogOffset, end: int, closed: bool) -> Part:
        """The part of the current file up to this position."""
        return Part(self.path, self._current, replace(self._current.begin(at.position), head=at.head), end, closed)

    def _end(self, at: LogOffset, limit: Limit) -> tuple[int | None, bool]:
        """The last line end within the limit, which grows until there is one, and if no other follows.

        None if there is none yet.
        """
        reading = self._reading
        unread = self._current.status().st_size - at.position
        if unread <= 0:
            return None, True
        mean = self._mean(at.position, unread)
        window = max(1, min(unread, limit.bytes, int(limit.rows * mean)))
        most = reading.most_bytes + 2 * reading.encoding.width
        while True:
            end = self._last_end(at.position, at.position + window)
            if end is not None:
                self._cuts = False
                return end, window == unread
            if window > most:
                data = os.pread(self._current.descriptor, reading.most_bytes + 4, at.position)
                if not self._cuts:
                    self._cuts = True
                    log.warning("%s: the line at position %d is longer than line.max.bytes (%d) and is cut", self.path,
                                at.position, reading.most_bytes)  # fmt: skip
                return at.position + reading.encoding.boundary(data, reading.most_bytes), False
            if window >= unread:
                return None, True
            window = min(unread, max(2 * window, _BLOCK_BYTES))

    def _mean(self, position: int, unread: int) -> float:
        sample = os.pread(self._current.descriptor, min(_BLOCK_BYTES, unread), position)
        return len(sample) / max(1, len(self._reading.encoding.ends(sample)))

    def _last_end(self, low: int, high: int) -> int | None:
        width = self._reading.encoding.width
        high -= (high - low) % width
        while high > low:
            start = max(low, high - _BLOCK_BYTES)
            block = os.pread(self._current.descriptor, high - start, start)
            if end := self._reading.encoding.last_end(block):
                return start + end
            high = start
        return None

    def _stands(self, seconds: float, is_rotated: bool) -> bool:
        """True if the file has not changed for so long, and not been renamed; else sets `due`."""
        state, now = (_shown(self._current.status()), is_rotated), time.monotonic()
        if self._still is None or self._still[0] != state:
            self._still = state, now
        due = self._still[1] + seconds
        self.due = None if now >= due else due
        return self.due is None

    def _measure(self) -> Measure | None:
        state = _shown(self._current.status())
        if self._measured is None or self._measured[0] != state:
            self._measured = state, self._current.measure()
        return self._measured[1]

    # -- rotation ------------------------------------------------------------------------------------------------------

    def _rest(self, at: LogOffset) -> Part | None:
        """The rest of a renamed file after its last line end, once it has stood still; sets `due` before."""
        if not self._stands(ROTATION_QUIET_S, True) or self._current.is_gzip:
            return None
        size = self._current.status().st_size
        return self._part(at, size, closed=True) if size > at.position else None

    def _is_rotated(self) -> bool:
        """True if the current file no longer has the log's name."""
        live = self._live()
        return live is None or not os.path.samestat(live, self._current.status())

    def _live(self) -> os.stat_result | None:
        try:
            return os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _next(self, stored: LogOffset | None) -> LogOffset | None:
        """The start of the next younger file once this one is read; None while there is none."""
        if not self._is_at_rest():
            return None
        for one in self._younger(self._members(self._current.begin())):
            if one.is_live and not one.status.st_size:
                break  # its writer may not have opened it yet, and still have the renamed one
            content = Content.open(one.path, self._allowed)
            if content.is_gzip and content.measure() is None:
                content.close()
                if time.time() - one.status.st_mtime < _DAMAGED_S:
                    self.due = time.monotonic() + _AGAIN_S
                    return None
                log.error("%s is damaged: it cannot be decompressed and is passed over", one.path)
                continue
            self.close()
            self._content = content
            log.info("%s: %s follows, from its start", self.path, one.path)
            return self._begun(stored)
        if not self._current.status().st_nlink:
            self.close()  # what holds a removed file open takes room on its disk
        return None

    def _is_at_rest(self) -> bool:
        """Lists the directory anew; False, and sets `due`, while files are renamed in it: a listing may miss one."""
        directory = os.path.dirname(os.path.realpath(self.path))
        before = _changed(directory)
        self._directories.forget()
        self._directories.of(directory)
        if before == _changed(directory) and abs(time.time() - before / 1e9) >= _UNSTABLE_S:
            return True
        self.due = time.monotonic() + _AGAIN_S
        return False

    def _younger(self, members: Sequence[Member]) -> Sequence[Member]:
        """The members after the current file; if it has no name any more, those that were changed later."""
        status = self._current.status()
        for number, one in enumerate(members):
            if os.path.samestat(one.status, status) and (one.is_live or one.rank is not None):
                return members[number + 1 :]
        mine = self._current.measure()
        for number, one in enumerate(members):
            if is_gzip(one.path) and mine is not None and self._is_compressed(one, mine):
                return members[number + 1 :]
        return [one for one in members if one.is_live or modified(one.status) > modified(status)]

    def _is_compressed(self, one: Member, mine: Measure) -> bool:
        try:
            content = Content.open(one.path, self._allowed)
        except FileNotFoundError:
            return False
        try:
            return content.head() == mine.head and content.measure() == mine
        finally:
            content.close()


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _shown(status: os.stat_result) -> object:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _unlike(one: Member, at: LogOffset) -> int:
    """Says how little speaks for this file; the files are tried in this order."""
    inode, device = identity(one.status)
    if at.inode is None:
        return 0
    if inode == at.inode:
        return 0 if device == at.device else 1
    return 3 if one.is_live else 2
