"""The workers that run on this machine, as a container's health check asks them: each by its own properties."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from headrace.config.properties import read_properties

_MIRROR_MAKER: Final = "connect-mirror-maker"
_COMMANDS: Final = ("connect-standalone", "connect-distributed", _MIRROR_MAKER)


@dataclass(frozen=True)
class RunningWorker:
    """A worker's process, and the file of its properties."""

    command: str
    file: Path

    def properties(self) -> dict[str, str] | None:
        """Its properties; None if it has no REST API. Errors: ConfigError for an unreadable file."""
        props = read_properties(self.file)
        return None if self.command == _MIRROR_MAKER and "listeners" not in props else props


def running_workers() -> list[RunningWorker]:
    """The workers that this user can see."""
    return list(_found())


def _found() -> Iterator[RunningWorker]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if named := _named(process.cmdline()):
                command, file = named
                yield RunningWorker(command, Path(process.cwd(), file))


def _named(arguments: Sequence[str]) -> tuple[str, str] | None:
    """The command and its first file; None for another program, also for one that only starts such a command."""
    for place, one in enumerate(arguments[:4]):
        if Path(one).name in _COMMANDS and "python" in Path(arguments[0]).name:
            files = [after for after in arguments[place + 1 :] if after != "-daemon"]
            return (Path(one).name, files[0]) if files else None
    return None
