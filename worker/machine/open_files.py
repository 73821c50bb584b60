"""Lets a process have as many files and connections open as its user may.

Decided: the soft limit is raised to the hard one, as Java does by itself for Apache's workers. A connector takes about
eight descriptors, so that with the usual soft limit of 1,024 a hundred connectors would be the most; loses: `select()`
in a plugin's own code, which takes no descriptor above that.

Source: setrlimit(2).
"""

from __future__ import annotations

import contextlib
import resource
from typing import Final

MOST: Final = 1 << 20
"""A hard limit may be a thousand millions, and some programs look at each descriptor below their soft one."""


def allow_open_files() -> None:
    """Raise the soft limit of this process, and of all that it starts, to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS takes fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
