"""Reads files that settings name. A file that is not regular, or too large, is an error."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 4 << 20
"""The largest size of a file; stores of certificates and keys, key tabs and properties are smaller."""
READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags to open a file; a pipe without a writer does not block."""


def read_file(path: str | Path) -> bytes:
    """The file's bytes. Errors: OSError, also if it is no regular file, or too large."""
    return read_open(os.open(path, READING))


def read_open(descriptor: int) -> bytes:
    """The bytes of the file behind a descriptor; closes it. Errors: as `read_file`."""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"Larger than {MOST_BYTES} bytes")
    return data


def is_readable(path: str | Path) -> bool:
    """True if `read_file` can read the file; opens nothing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES and os.access(path, os.R_OK)
