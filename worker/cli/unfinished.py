"""Folders on `plugin.path` in which something is made that is not finished, and the lock under which that is written.

An installation that is ended removes its folder; what a killed one left is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from headrace.config.plugin_path.locations import UNFINISHED

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unfinished_in(plugin_path: Path) -> Iterator[Path]:
    """Make a folder on `plugin.path` in which no worker looks, and remove it in the end. Errors: OSError."""
    make_writable(plugin_path)
    with held(plugin_path):
        _sweep(plugin_path)
        scratch = tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=plugin_path)
        mark = os.open(scratch.name, os.O_RDONLY)
        fcntl.flock(mark, fcntl.LOCK_SH)  # says to others that this process lives
    try:
        with scratch:
            yield Path(scratch.name)
    finally:
        os.close(mark)


def make_writable(plugin_path: Path) -> None:
    """Make the folder unless it is there. Errors: OSError, which says what to do, also if it cannot be written."""
    try:
        plugin_path.mkdir(parents=True, exist_ok=True)
        if not os.access(plugin_path, os.W_OK | os.X_OK):
            raise PermissionError("not writable for this user, or mounted read-only")
    except PermissionError as error:
        raise PermissionError(
            f"{plugin_path} cannot be written ({error.strerror or error}), and nothing was changed. Run this as its "
            "owner, or where it is mounted writable, such as while an image is built"
        ) from error


@contextmanager
def held(plugin_path: Path) -> Iterator[None]:
    """Keep other processes from writing the lock file. Errors: OSError."""
    folder = os.open(plugin_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _sweep(plugin_path: Path) -> None:
    """Remove what killed processes left; the caller holds the lock, under which files are written."""
    for left in plugin_path.glob(f"{UNFINISHED}*"):
        if not left.is_dir():
            left.unlink(missing_ok=True)
        elif _is_free(left):
            shutil.rmtree(left, ignore_errors=True)


def _is_free(folder: Path) -> bool:
    try:
        mark = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(mark)


@contextmanager
def ended_orderly() -> Iterator[None]:
    """Let a signal that ends this process be an exception, as Ctrl-C is, so that nothing is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
