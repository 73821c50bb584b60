"""Reads files that settings name: regular ones of a bounded size, whatever else stands under the name."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 4 << 20
"""Stores of certificates and keys, tables of keys, properties: all are smaller."""
READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Without waiting for who writes a pipe."""


def read_file(path: str | Path) -> bytes:
    """The file's bytes. Errors: OSError, also for what is no regular file, or too large."""
    return read_open(os.open(path, READING))


def read_open(descriptor: int) -> bytes:
    """The bytes of the file behind a descriptor, which is closed. Errors: as `read_file`."""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"Larger than {MOST_BYTES} bytes")
    return data


def is_readable(path: str | Path) -> bool:
    """Whether `read_file` can read it; nothing is opened."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES and os.access(path, os.R_OK)
