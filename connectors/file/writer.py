"""Appends whole lines to a file, in any process of the worker's host.

Decided: no fsync. `finish` leaves the lines with the operating system, as Apache's connector does: they outlive
`kill -9` of every process here, not a loss of power. An fdatasync a batch was measured at 1.6 ms on an idle virtual
disk, which twenty sinks at fifty batches a second cannot pay. The task syncs when it gives partitions up and when it
stops. Loses: after a power failure the last seconds may be missing though their offsets are committed.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import stat
import sys
from contextlib import suppress
from typing import Any, Final
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.file.errors import FileError
from headrace.plugins.contracts import RetriableError
from headrace.plugins.path_bounds import check_allowed, open_allowed

_PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE)
_NO_LOCKS: Final = (errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.ENOSYS)

log = logging.getLogger(__name__)


class Appender:
    """A file open for appending. It is made anew after it was renamed or removed."""

    def __init__(self, path: str, allowed: tuple[str, ...]) -> None:
        self.path = path
        self._allowed = allowed
        self._descriptor: int | None = None
        self._readable = True

    def open(self) -> None:
        """Opens the file under the path, or creates it.

        Errors: FileError if it cannot be opened; RetriableError if a retry may help.
        """
        if self._descriptor is not None and not self._is_under_path(self._descriptor):
            log.warning("%s was renamed or removed; it is created anew", self.path)
            self.close()
        if self._descriptor is None:
            self._descriptor = self._open()

    def is_there(self) -> bool:
        """Return True if the file exists. Opens and creates nothing.

        Errors: as `open`, for a file or directory in which this user cannot write.
        """
        check_allowed(self.path, self._allowed)
        there = os.path.exists(self.path)
        needed = self.path if there else os.path.dirname(self.path)
        if not os.access(needed, os.W_OK):
            cause = errno.EACCES if os.path.exists(needed) else errno.ENOENT
            raise self._error("Couldn't find or create", OSError(cause, os.strerror(cause)))
        return there

    def append(self, *pieces: Any) -> None:
        """Appends these bytes as a whole or not at all, and never in the middle of a line.

        Errors: RetriableError with nothing of them left in the file, if it can be cut at all.
        """
        self.open()
        assert self._descriptor is not None
        try:
            _lock(self._descriptor, fcntl.LOCK_EX)
            try:
                self._append(self._descriptor, [memoryview(piece) for piece in pieces])
            finally:
                _lock(self._descriptor, fcntl.LOCK_UN)
        except OSError as e:
            raise self._error("Couldn't write to", e) from e

    def append_file(self, path: str) -> None:
        """Appends the lines of that file as a whole or not at all, and removes it. Errors: RetriableError."""
        try:
            with open(path, "rb", buffering=0) as part, mmap.mmap(part.fileno(), 0, prot=mmap.PROT_READ) as lines:
                self.append(lines)
            os.unlink(path)
        except OSError as e:
            raise self._error("Couldn't append what was staged to", e) from e

    def sync(self) -> None:
        """Syncs the file to the disk."""
        if self._descriptor is not None:
            with suppress(OSError):  # a pipe or terminal has nothing to sync
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the file; `open` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _append(self, descriptor: int, pieces: list[memoryview]) -> None:
        status = os.fstat(descriptor)
        regular = stat.S_ISREG(status.st_mode)
        # A line torn by a crash, of whichever process, must not swallow the next one.
        torn = regular and self._readable and status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n"
        if torn:
            log.warning("%s does not end in a line end: a write before was cut off there", self.path)
            pieces = [memoryview(b"\n"), *pieces]
        try:
            _write_all(descriptor, pieces)
        except OSError:
            if regular:
                with suppress(OSError):
                    os.ftruncate(descriptor, status.st_size)
            raise

    def _open(self) -> int:
        flags = os.O_APPEND | os.O_CREAT
        try:
            try:
                self._readable = True
                return open_allowed(self.path, flags | os.O_RDWR, self._allowed)
            except PermissionError:
                self._readable = False
                return open_allowed(self.path, flags | os.O_WRONLY, self._allowed)
        except OSError as e:
            raise self._error("Couldn't find or create", e) from e

    def _is_under_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))
        except FileNotFoundError:
            return False
        except OSError as e:
            raise self._error("Couldn't look at", e) from e

    def _error(self, what: str, cause: OSError) -> Exception:
        text = f"{what} file '{self.path}' for FileStreamSinkTask: {cause.strerror}."
        if cause.errno in _PASSING:
            return RetriableError(f"{text} It is tried again; make room on that file system if it is full.")
        return FileError(
            f"{text} Create its directory '{os.path.dirname(self.path)}' and let this worker's user write there, "
            "or name another 'file'."
        )


def _lock(descriptor: int, how: int) -> None:
    # Against another task's cut after a failure, and against seeing half of its write as a torn line.
    try:
        fcntl.flock(descriptor, how)
    except OSError as e:
        if e.errno not in _NO_LOCKS:
            raise


def _write_all(descriptor: int, pieces: list[memoryview]) -> None:
    while pieces:
        written = os.writev(descriptor, pieces)
        while pieces and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if pieces:
            pieces[0] = pieces[0][written:]


_KEPT: Final[WeakValueDictionary[str, Appender]] = WeakValueDictionary()


def keep(name: str, appender: Appender) -> None:
    """Makes writers of this name in this process append through `appender`, as long as its task holds it."""
    _KEPT[name] = appender


class LineWriter:
    """Appends the column `line`, each value as a line, in one write a batch."""

    def __init__(self, name: str, path: str, allowed: tuple[str, ...]) -> None:
        self.name = name
        self.path = path
        self.allowed = allowed
        self._own: Appender | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends the lines to the file; the operating system has them."""
        if rows.num_rows:
            # In the worker's process the task's file is open already; in an executor this writer opens its own.
            (_KEPT.get(self.name) or self._opened()).append(joined(rows.column("line")), b"\n")

    def finish(self) -> bytes:
        """Returns nothing: all lines were written before."""
        self.abort()
        return b""

    def abort(self) -> None:
        """Closes the file that this writer opened. Written lines stay, and a retry repeats them."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _opened(self) -> Appender:
        if self._own is None:
            self._own = Appender(self.path, self.allowed)
        return self._own


class StandardOutputWriter:
    """Writes the column `line` to standard output."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Prints the lines; the operating system has them."""
        if rows.num_rows:
            sys.stdout.buffer.write(joined(rows.column("line")))
            sys.stdout.buffer.write(b"\n")
            sys.stdout.buffer.flush()

    def finish(self) -> bytes:
        """Returns nothing: nothing is staged."""
        return b""

    def abort(self) -> None:
        """Does nothing: nothing is open."""


def joined(lines: pa.Array) -> memoryview:
    """The values with a line end between each two; null as `null`."""
    if len(lines) == 1 and not lines.null_count:  # as most batches of a trickle: a sixteenth of the time
        return memoryview(lines[0].as_buffer())
    texts = shown(lines)
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return memoryview(pc.binary_join(whole, "\n")[0].as_buffer())


def shown(lines: pa.Array) -> pa.Array:
    """Return the values as they stand in the file; null as `null`."""
    return pc.fill_null(lines.cast(pa.string()), "null")
