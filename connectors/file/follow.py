"""Follows the file of a name through its generations: cut, overwritten, renamed and made anew.

Within a process a renamed file stays open and is read to its end before the one now under the name. After a restart,
the file that was read is recognized by its size and its head (`headrace.connectors.file.offsets`). If it was rotated
meanwhile, its rest is looked for under the names beside it (`app.log.1` for `app.log`) and read first.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from typing import Final

from headrace.connectors.file.errors import FileError
from headrace.connectors.file.lines import last_line_end
from headrace.connectors.file.offsets import HEAD_BYTES, FileOffset, head_of, same_head
from headrace.connectors.file.reader import MAX_LINE_BYTES, OpenedFile, too_long
from headrace.connectors.file.watch import FileWatch
from headrace.plugins.contracts import Limit, RetriableError
from headrace.plugins.path_bounds import open_allowed

ROTATION_QUIET_S: Final = 1.0
"""A renamed file is left once it stood still for so long: its writer may reopen later than it was renamed."""

_BLOCK_BYTES: Final = 1 << 16
_SIBLINGS: Final = 100
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EINTR)

log = logging.getLogger(__name__)


class FollowedFile:
    """The file of one name, open while its task lives."""

    def __init__(self, path: str, allowed: tuple[str, ...], watch: FileWatch) -> None:
        self.path = path
        self.watch = watch
        self.generation: int | None = None
        self._allowed = allowed
        self._opened: OpenedFile | None = None
        self._missing = False
        self._size = 0
        """The size at the last look."""
        self._fruitless: object = None
        """The `_state` in which no line was complete."""
        self._searched = (0, 0, 0)
        self._quiet_since: tuple[int, float] | None = None

    @property
    def opened(self) -> OpenedFile:
        """The open file, for readers to open again."""
        if self._opened is None:
            raise FileError(f"{self.path} is not open")
        return self._opened

    def resume(self, stored: FileOffset) -> FileOffset | None:
        """The offset to go on from: the stored one, or the start of another generation; None without a file."""
        if self.generation is None:
            self.generation = stored.generation
        if self._opened is None and not self._open():
            return None
        at = stored
        if stored.generation < self.generation:
            at = FileOffset(generation=self.generation)
        elif stored.generation > self.generation:
            self.generation = stored.generation
        status = self._status()
        if _state(at, status) == self._fruitless:
            return at
        reason = self._replaced(at, status.st_size)
        return at if reason is None else self._leave(at, reason)

    def next_end(self, at: FileOffset, limit: Limit) -> tuple[int, int] | None:
        """The position to read to and an estimate of the lines; None if no line is complete after `at`.

        Errors: FileError for a line beyond MAX_LINE_BYTES.
        """
        descriptor, status = self.opened.descriptor, self._status()
        self._size = size = status.st_size
        state = _state(at, status)
        if state == self._fruitless:
            return None
        self._fruitless = state
        if size <= at.position:
            return None
        sample = os.pread(descriptor, min(_BLOCK_BYTES, size - at.position), at.position)
        mean = len(sample) / max(1, sample.count(b"\n") or sample.count(b"\r"))
        window = max(1, min(size - at.position, limit.bytes, int(limit.rows * mean)))
        end = self._end_within(at, window, size)
        if end is None:
            return None
        self._fruitless = None
        return end, max(1, round((end - at.position) / mean))

    def rotated(self, at: FileOffset) -> tuple[FileOffset, int | None] | None:
        """Moves on from a renamed file that was read to its last line end: to its unfinished rest, or to the next file.

        None while this is still the file of the name, or may yet grow.
        """
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as e:
            raise RetriableError(f"{self.path} cannot be examined: {e}") from e
        if self._is(status) or not status.st_size:
            self._quiet_since = None
            return None
        size = self._status().st_size
        if self._quiet_since is None or self._quiet_since[0] != size:
            self._quiet_since = (size, time.monotonic())
        if time.monotonic() - self._quiet_since[1] < ROTATION_QUIET_S:
            return None
        if size > at.position:
            log.warning("%s ended within a line at position %d when it was replaced; that rest is read as a line",
                        self.opened.path, size)  # fmt: skip
            return at, size
        self.close()
        if not self._open():
            self.generation = at.generation + 1
            return None
        return self._leave(at, f"another file stands under its name (inode {status.st_ino})"), None

    def head(self, position: int) -> int | None:
        """The head of an offset with this position."""
        return head_of(os.pread(self.opened.descriptor, HEAD_BYTES, 0), position)

    def watch_if_at_rest(self) -> None:
        """Watches the open file from before a look, if lines come seldom."""
        self.watch.stand_if_at_rest(self.opened.descriptor)

    def is_all(self, upto: int) -> bool:
        """True if there was no more to read than `upto` under this name, and later changes will be told."""
        if upto < self._size or not self.is_watched:
            return False
        try:
            return self._is(os.stat(self.path))
        except OSError:
            return False

    def watched_anew(self) -> bool:
        """True if a plan that found nothing has to look once more: the file is watched from now on."""
        if self._opened is None or self._quiet_since is not None:
            return False
        return self.watch.found_nothing(self._opened.descriptor)

    @property
    def is_watched(self) -> bool:
        """True if the next change will be told. That a renamed file has stood still long enough is no change."""
        return self.watch.stands and self._quiet_since is None

    def close(self) -> None:
        """Closes the file."""
        self.watch.close()
        if self._opened is not None:
            os.close(self._opened.descriptor)
        self._opened = self._fruitless = self._quiet_since = None

    def _open(self) -> bool:
        try:
            self._opened = self._open_at(self.path)
        except (FileNotFoundError, NotADirectoryError):
            if not self._missing:
                log.warning("Couldn't find file %s for FileStreamSourceTask, waiting for it to be created", self.path)
            self._missing = True
            return False
        self._missing = False
        return True

    def _open_at(self, path: str) -> OpenedFile:
        try:
            # Without O_NONBLOCK, opening a named pipe would hang the task.
            descriptor = open_allowed(path, os.O_RDONLY | os.O_NONBLOCK, self._allowed)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as e:
            if e.errno in _PASSING:
                raise RetriableError(f"{path} cannot be opened now: {e.strerror}") from e
            raise FileError(f"{path} cannot be opened: {e.strerror}. Let this worker's user read it.") from e
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise FileError(
                f"{path} is not a regular file, so no position in it can be kept. Name a file, or leave 'file' out "
                "and feed standard input."
            )
        return OpenedFile(path, status.st_dev, status.st_ino, os.getpid(), descriptor, self._allowed)

    def _is(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == (self.opened.device, self.opened.inode)

    def _status(self) -> os.stat_result:
        return os.fstat(self.opened.descriptor)

    def _replaced(self, at: FileOffset, size: int) -> str | None:
        if size < at.position:
            reason = f"it has {size} bytes now"
        elif not self._began_as(self.opened, at):
            reason = f"it has {size} bytes and no longer begins as it did"
        else:
            return None
        for sibling in self._siblings(at):
            log.warning("%s was replaced (%s); %s is what was read up to position %d, and its rest is read first",
                        self.path, reason, sibling.path, at.position)  # fmt: skip
            self.close()
            self._opened = sibling
            return None
        return reason

    def _began_as(self, file: OpenedFile, at: FileOffset) -> bool:
        if at.head is None:
            return True
        if not same_head(os.pread(file.descriptor, HEAD_BYTES, 0), at.head):
            return False
        # An offset with a head is one of ours, and ours stand after line ends (or after the end of an unfinished
        # last line, of which there is nothing more to read).
        ends_here = os.pread(file.descriptor, 1, at.position - 1) in (b"\n", b"\r")
        return ends_here or os.fstat(file.descriptor).st_size == at.position

    def _siblings(self, at: FileOffset) -> Iterator[OpenedFile]:
        """Yields the first file beside this one that was read up to `at` and has more to read."""
        if at.head is None:
            return
        directory, name = os.path.split(self.path)
        with os.scandir(directory) as entries:
            found = [e for e in entries if e.name.startswith(name) and e.name != name and e.is_file()][:_SIBLINGS]
        for entry in found:
            if entry.stat().st_size <= at.position:
                continue
            try:
                file = self._open_at(entry.path)
            except (OSError, FileError):
                continue
            if self._began_as(file, at):
                yield file
                return
            os.close(file.descriptor)

    def _leave(self, at: FileOffset, reason: str) -> FileOffset:
        """Starts a new generation and logs that."""
        next_generation = FileOffset(generation=at.generation + 1)
        self.generation = next_generation.generation
        # Invariant 2: a new generation is logged, and counted in the offset.
        log.warning(
            "%s was replaced: %s. Read so far: generation %d up to position %d (line %s); generation %d is read from "
            "its start, position 0 of %d.",
            self.path, reason, at.generation, at.position, at.line, self.generation, self._status().st_size,
        )  # fmt: skip
        return next_generation

    def _end_within(self, at: FileOffset, window: int, size: int) -> int | None:
        """The last line end within the window, which grows until there is one; None if the file has none yet."""
        generation, position, searched = self._searched
        low = searched if (generation, position) == (at.generation, at.position) else at.position
        while True:
            high = min(at.position + window, size)
            end = self._last_end(low, high)
            if end is not None:
                return end
            # A \r at the end of what was searched may yet turn out to end a line.
            low = max(low, high - 1)
            if window >= MAX_LINE_BYTES:
                raise too_long(self.opened.path, at.position)
            if high == size:
                self._searched = (at.generation, at.position, low)
                return None
            window = min(2 * window, MAX_LINE_BYTES)

    def _last_end(self, low: int, high: int) -> int | None:
        while high > low:
            start = max(low, high - _BLOCK_BYTES)
            block = os.pread(self.opened.descriptor, high - start + 1, start)
            if end := last_line_end(block, high - start):
                return start + end
            high = start
        return None


def _state(at: FileOffset, status: os.stat_result) -> object:
    """Changes if the file changed, or how far it was read."""
    return at, status.st_size, status.st_mtime_ns
