"""The memory that this process and its children may use: the machine's, or less in a container or a service."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def memory_limit(groups: Path = _GROUPS, own: Path = _OWN) -> int:
    """The bytes that Linux gives before it kills: the least of the machine's and of each control group's."""
    machine: int = psutil.virtual_memory().total
    return min(machine, *_limits(groups, own))


def how_ended(returncode: int) -> str:
    """The words for a child's end, and for that which mostly has one cause the cause."""
    if returncode >= 0:
        return f"ended with {returncode}"
    killed = f"was killed by signal {-returncode}"
    if returncode == -signal.SIGKILL:
        return f"{killed}, as Linux does if the container or the machine has no memory left: give it more"
    return killed


def _limits(groups: Path, own: Path) -> Iterator[int]:
    yield 1 << 62
    for line in own.read_text(encoding="utf-8").splitlines() if own.exists() else ():
        _, kinds, place = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        top, name = (groups / "memory", "memory.limit_in_bytes") if kinds else (groups, "memory.max")
        # A container may be told its place on the host, and see only its own group, as if that were the top.
        folder = top / place.lstrip("/")
        for one in (folder, *folder.parents):
            with contextlib.suppress(OSError, ValueError):  # no such folder; no limit: `max`
                yield int((one / name).read_text(encoding="ascii"))
            if one == top:
                break
