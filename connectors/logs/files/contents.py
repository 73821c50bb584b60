"""The contents of log files, plain or compressed: opened, measured and read from a position."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple, cast

from headrace.connectors.file.offsets import HEAD_BYTES, head_of, same_head
from headrace.connectors.file.reader import OpenedFile
from headrace.connectors.logs.files.offsets import LogOffset, identity, modified
from headrace.connectors.logs.files.rotation import is_gzip
from headrace.plugins.contracts import RetriableError
from headrace.plugins.path_bounds import open_allowed

DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error)
"""Errors of a compressed file that is not complete, or damaged."""
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.EINTR)
_BLOCK_BYTES: Final = 1 << 20


class Unusable(Exception):
    """A file cannot be read; the others can."""


class Measure(NamedTuple):
    """The first bytes of a file and its length, once decompressed."""

    head: bytes
    length: int


@dataclass(frozen=True)
class Content:
    """An open file; picklable, and opened again where it is read."""

    file: OpenedFile
    is_gzip: bool

    @classmethod
    def open(cls, path: str, allowed: tuple[str, ...]) -> Content:
        """Opens a file. Errors: FileNotFoundError; Unusable; RetriableError; ConfigError for a forbidden file."""
        try:
            descriptor = open_allowed(path, os.O_RDONLY | os.O_NONBLOCK, allowed)
        except (FileNotFoundError, NotADirectoryError) as e:
            raise FileNotFoundError(e.errno, e.strerror, path) from e
        except OSError as e:
            if e.errno in _PASSING:
                raise RetriableError(f"{path} cannot be opened now: {e.strerror}") from e
            raise Unusable(f"{path} cannot be opened: {e.strerror}. Let this worker's user read it.") from e
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise Unusable(f"{path} is not a regular file. Leave it out by `exclude`.")
        file = OpenedFile(path, status.st_dev, status.st_ino, os.getpid(), descriptor, allowed)
        return cls(file, is_gzip(path))

    @property
    def descriptor(self) -> int:
        """The open descriptor, in the process that opened it."""
        return self.file.descriptor

    def close(self) -> None:
        """Closes the file."""
        os.close(self.descriptor)

    def status(self) -> os.stat_result:
        """The state of the open file."""
        return os.fstat(self.descriptor)

    def stream(self) -> BinaryIO:
        """A stream of the file's bytes, decompressed, at its start; opened anew, also in another process.

        Errors: RetriableError if the file is out of reach.
        """
        raw = os.fdopen(self.file.open(), "rb", buffering=0)
        raw.seek(0)
        return cast(BinaryIO, _Decompressed(raw)) if self.is_gzip else raw

    def measure(self) -> Measure | None:
        """The file's first bytes and length; None for a compressed file that is not complete, or damaged."""
        if not self.is_gzip:
            return Measure(os.pread(self.descriptor, HEAD_BYTES, 0), self.status().st_size)
        try:
            with self.stream() as stream:
                head = stream.read(HEAD_BYTES)
                length = len(head)
                while block := stream.read(_BLOCK_BYTES):
                    length += len(block)
        except DAMAGED:
            return None
        return Measure(head, length)

    def head(self) -> bytes | None:
        """The file's first bytes; None for a compressed file in which they are damaged."""
        try:
            with self.stream() as stream:
                return stream.read(HEAD_BYTES)
        except DAMAGED:
            return None

    def begin(self, position: int = 0) -> LogOffset:
        """A position in this file; its head if the file is plain."""
        status = self.status()
        start = b"" if self.is_gzip or not position else os.pread(self.descriptor, HEAD_BYTES, 0)
        head = head_of(start, position) if start else None
        return LogOffset(position, self.file.path, *identity(status), head, modified(status))

    def fits(self, at: LogOffset) -> bool:
        """True if this file can be the one that was read up to this offset."""
        if not self.is_gzip and self.status().st_size < at.position:
            return False
        head = self.head()
        if head is None or not same_head(head, at.head):
            return False
        found = self.measure()
        return found is not None and found.length >= at.position


class _Decompressed(gzip.GzipFile):
    """A compressed file that closes what it reads."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._raw = raw

    def close(self) -> None:
        super().close()
        self._raw.close()
