"""Memory and processor time of a container, held by Linux's control groups, in their first version or the second."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 100_000


class Limits:
    """A group of processes with this much memory and so many cores."""

    def __init__(self, memory_bytes: int, cores: int) -> None:
        name = f"headrace-{uuid.uuid4().hex[:8]}"
        quota = cores * _PERIOD_US
        if (_GROUPS / "cgroup.controllers").exists():
            self._folders = [_made(_GROUPS / name)]
            (self._folders[0] / "memory.max").write_text(str(memory_bytes))
            (self._folders[0] / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            self._folders = [_made(_GROUPS / kind / name) for kind in ("memory", "cpu")]
            (self._folders[0] / "memory.limit_in_bytes").write_text(str(memory_bytes))
            (self._folders[1] / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self._folders[1] / "cpu.cfs_quota_us").write_text(str(quota))

    def entered(self, command: Sequence[str]) -> list[str]:
        """The command, in the group."""
        enter = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in self._folders)
        return ["sh", "-ec", f'{enter}exec "$@"', "sh", *command]

    def killed(self) -> int:
        """So many processes were killed because there was no memory left."""
        memory = self._folders[0]
        file = next(one for one in (memory / "memory.events", memory / "memory.oom_control") if one.exists())
        counts = dict(line.split() for line in file.read_text().splitlines())
        return int(counts["oom_kill"])

    def peak_bytes(self) -> int:
        """The most memory that was used at once, with what files are cached in."""
        memory = self._folders[0]
        files = (memory / "memory.peak", memory / "memory.max_usage_in_bytes")
        return next((int(one.read_text()) for one in files if one.exists()), 0)

    def remove(self) -> None:
        """The group is gone; its processes must have ended."""
        for folder in self._folders:
            folder.rmdir()


def are_there() -> bool:
    """True where this process may make groups."""
    kinds = (_GROUPS,) if (_GROUPS / "cgroup.controllers").exists() else (_GROUPS / "memory", _GROUPS / "cpu")
    return all(os.access(one, os.W_OK) and one.is_dir() for one in kinds)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
