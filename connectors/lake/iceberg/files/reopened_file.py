"""A file on the local disk that holds no descriptor while nobody writes to it."""

from __future__ import annotations

import io
import os
from typing import Any


class ReopenedFile(io.RawIOBase):
    """A file that is opened by a write, until `release`: a thousand partitions need no thousand descriptors."""

    def __init__(self, path: str) -> None:
        self._path, self._at = path, 0
        self._descriptor: int | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Append the data. Errors: OSError."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        view, done = memoryview(data).cast("B"), 0
        while done < len(view):
            done += os.write(self._descriptor, view[done:])
        self._at += done
        return done

    def tell(self) -> int:
        """Return the file's size."""
        return self._at

    def release(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def close(self) -> None:
        """Close the file for good."""
        self.release()
        super().close()
