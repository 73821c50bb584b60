"""Random reads of a file that a server sends by ranges of bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Final

import pyarrow as pa

_BUFFER_BYTES: Final = 4 << 20


def by_ranges(size: int, read: Callable[[int, int], bytes], close: Callable[[], None] | None = None) -> pa.NativeFile:
    """Return a file of this size with random access; `read` returns so many bytes from an offset on.

    `close` is called once, when the file is closed.
    """
    return pa.PythonFile(io.BufferedReader(_Ranges(size, read, close), _BUFFER_BYTES), mode="r")


class _Ranges(io.RawIOBase):
    def __init__(self, size: int, read: Callable[[int, int], bytes], close: Callable[[], None] | None) -> None:
        self._size = size
        self._read = read
        self._close = close
        self._at = 0

    def close(self) -> None:
        super().close()
        close, self._close = self._close, None
        if close is not None:
            close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        found = self._read(self._at, wanted)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
