"""Liveness of Spark's Python workers: each touches a file once a second. Also stacks on SIGQUIT, as of a JVM.

The file is touched however long the worker's reader or writer takes: a slow disk or broker blocks one thread and leaves
the interpreter running. A process that is stopped, or hangs in native code without releasing the interpreter, touches
nothing, and the worker ends it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from pathlib import Path

FOLDER = "HEADRACE_LIVENESS_FOLDER"
"""Environment variable with the watched folder, which holds a file for each process, named by its id."""
EVERY_S = 1.0
_STDERR = 2
"""The process's own stderr, because `sys.stderr` may be replaced or closed by then."""

_reporting: int | None = None
_handling: int | None = None


def report_liveness() -> None:
    """Start to touch this process's file, if a folder is watched, and show stacks on SIGQUIT."""
    global _reporting
    show_stacks_on_quit()
    folder = os.environ.get(FOLDER)
    if folder is None or _reporting == os.getpid():
        return
    _reporting = os.getpid()
    threading.Thread(target=_touch, args=(Path(folder, str(_reporting)),), name="liveness", daemon=True).start()


def show_stacks_on_quit() -> None:
    """Make SIGQUIT print the stacks of all threads to the process's stderr, and end nothing."""
    global _handling
    if _handling != os.getpid():
        _handling = os.getpid()
        faulthandler.register(signal.SIGQUIT, file=_STDERR, all_threads=True, chain=False)


def _touch(file: Path) -> None:
    with contextlib.suppress(OSError):  # the folder was removed: nothing watches any more
        while True:
            file.touch()
            time.sleep(EVERY_S)
