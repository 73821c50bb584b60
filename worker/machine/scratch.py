"""Folders that live as long as their process; the next process removes those of a killed one."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import psutil

_PREFIX = "headrace-"


def scratch_folder(purpose: str, shared_memory: bool = False) -> tempfile.TemporaryDirectory[str]:
    """A new folder; with `shared_memory` in shared memory, where the machine has it."""
    memory = shared_memory and os.access("/dev/shm", os.W_OK)
    parent = Path("/dev/shm" if memory else tempfile.gettempdir())
    _sweep(parent)
    prefix = f"{_PREFIX}{os.getpid()}-{purpose}-"
    return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}[0-9]*-*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        with contextlib.suppress(OSError):  # another process may sweep too
            if owner.isdigit() and not psutil.pid_exists(int(owner)) and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
