"""A sign of life that a Spark Python worker gives once a second, and the stacks that any process shows when asked.

The sign is given however long the worker's reader or writer takes.

A slow disk or broker blocks one thread and leaves the interpreter running: the sign is given. A process that is
stopped, or hangs in native code without letting go of the interpreter, gives none: the worker ends it.

What every thread of a process is at is printed when somebody asks with `kill -QUIT`, as a JVM does.
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
"""The environment's name of the folder where the signs are looked for: a file a process, named by its id."""
EVERY_S = 1.0
_STDERR = 2
"""The process's own: `sys.stderr` may be something else, or be gone by then."""

_giving: int | None = None
_showing: int | None = None


def report_liveness() -> None:
    """This process gives signs from now on, where somebody on this machine looks for them, and shows its stacks."""
    global _giving
    show_stacks_on_quit()
    folder = os.environ.get(FOLDER)
    if folder is None or _giving == os.getpid():
        return
    _giving = os.getpid()
    threading.Thread(target=_give, args=(Path(folder, str(_giving)),), name="signs-of-life", daemon=True).start()


def show_stacks_on_quit() -> None:
    """SIGQUIT from now on prints the stacks of all threads to the process's stderr, and ends nothing."""
    global _showing
    if _showing != os.getpid():
        _showing = os.getpid()
        faulthandler.register(signal.SIGQUIT, file=_STDERR, all_threads=True, chain=False)


def _give(sign: Path) -> None:
    with contextlib.suppress(OSError):  # the folder has gone: nobody looks any more
        while True:
            sign.touch()
            time.sleep(EVERY_S)
