"""The files that this process has open."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def open_below(folder: Path) -> list[str]:
    """The open files of a folder, once per descriptor; other threads' files elsewhere do not count."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself, or of another thread
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in found if Path(name.removesuffix(" (deleted)")).is_relative_to(folder)]
