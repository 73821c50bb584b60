"""Liveness of Spark's Python workers: each touches a file once a second; and stacks on SIGQUIT, as a JVM prints them.

The file is touched however long the worker's reader or writer takes: a slow disk or broker blocks one thread and leaves
the interpreter running. A process that is stopped, or hangs in native code without releasing the interpreter, touches
nothing: the worker ends it.
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
"""The environment variable with the folder that is watched: it holds a file for each process, named by its id."""
EVERY_S = 1.0
_STDERR = 2
"""The process's own: `sys.stderr` may be replaced, or closed, by then."""

_reporting: int | None = None
_handling: int | None = None


def report_liveness() -> None:
    """Touch this process's file from now on, if a folder is watched, and show stacks on SIGQUIT."""
    global _reporting
    show_stacks_on_quit()
    folder = os.environ.get(FOLDER)
    if folder is None or _reporting == os.getpid():
        return
    _reporting = os.getpid()
    threading.Thread(target=_touch, args=(Path(folder, str(_reporting)),), name="liveness", daemon=True).start()


def show_stacks_on_quit() -> None:
    """Print the stacks of all threads to the process's stderr on SIGQUIT from now on, and end nothing."""
    global _handling
    if _handling != os.getpid():
        _handling = os.getpid()
        faulthandler.register(signal.SIGQUIT, file=_STDERR, all_threads=True, chain=False)


def _touch(file: Path) -> None:
    with contextlib.suppress(OSError):  # the folder is gone: nothing is watched any more
        while True:
            file.touch()
            time.sleep(EVERY_S)
