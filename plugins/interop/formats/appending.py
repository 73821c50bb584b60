"""Files that grow by whole pieces: each piece is appended and the file closed again, so that none stays open."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer


class Appended:
    """A new file on the local disk, and its size."""

    def __init__(self, local: str) -> None:
        self._local = local
        self._begun = False
        self.size = 0

    def append(self, *pieces: Data) -> None:
        """Writes these pieces one after the other; creates the file. Errors: OSError."""
        with open(self._local, "ab" if self._begun else "xb", buffering=0) as file:
            self._begun = True
            for piece in pieces:
                left = memoryview(piece)
                while len(left):
                    written = file.write(left)
                    self.size += written
                    left = left[written:]


def binary_parts(payload: pa.Array) -> tuple[pa.Buffer, npt.NDArray[np.int64]]:
    """The bytes of a binary array's values that are not null, one after the other, with their positions.

    The positions are those in the buffer: values `i` to `j` are its bytes from `positions[i]` to `positions[j]`.
    """
    values = payload.drop_null() if payload.null_count else payload
    is_large = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
    _, offsets, data = values.buffers()
    kind = np.int64 if is_large else np.int32
    positions = np.frombuffer(offsets, kind)[values.offset : values.offset + len(values) + 1]
    return data if data is not None else pa.py_buffer(b""), positions.astype(np.int64)
