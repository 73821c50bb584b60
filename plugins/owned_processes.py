"""Child processes that end with the thread that started them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

# Run between fork and exec of the real command; a shim and not preexec_fn, which may deadlock beside threads.
_DIE_WITH_OWNER: Final = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); "
    "os.getppid() == int(sys.argv[1]) and os.execv(sys.argv[2], sys.argv[2:])"
)


def dying_with_owner(command: Sequence[str]) -> list[str]:
    """Return a command line that runs this command, an absolute path with arguments, as a child of this process.

    The kernel sends the child SIGTERM once the thread that started it has ended, even by `kill -9` of its process
    (Linux; elsewhere the child lives on).
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-S", "-c", _DIE_WITH_OWNER, str(os.getpid()), *command]
