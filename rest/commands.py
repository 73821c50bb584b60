"""Apache's commands `connect-standalone` and `connect-distributed`, with Apache's arguments and exit codes.

1 usage, 2 error in arguments or config, 3 failed start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class _Command:
    """One of Apache's two commands."""

    name: str
    arguments: str
    most_files: int | None
    output: str
    """The file in LOG_DIR for the output of a worker in the background."""
    run: Callable[[Sequence[Path]], int]

    def usage(self) -> str:
        return f"USAGE: {self.name} [-daemon] {self.arguments}"


def _run_standalone(files: Sequence[Path]) -> int:
    from headrace.rest.service import RestService
    from headrace.worker.process.standalone import run

    return run(files[0], files[1:], RestService)


def _run_distributed(files: Sequence[Path]) -> int:
    from headrace.rest.service import RestService
    from headrace.worker.process.distributed import run

    return run(files[0], RestService)


_STANDALONE: Final = _Command(
    "connect-standalone",
    "worker.properties [connector1.properties connector2.json ...]",
    None,
    "connectStandalone.out",
    _run_standalone,
)
_DISTRIBUTED: Final = _Command(
    "connect-distributed", "worker.properties", 1, "connectDistributed.out", _run_distributed
)
_COMMANDS: Final = {command.name: command for command in (_STANDALONE, _DISTRIBUTED)}


def connect_standalone() -> None:
    """The `connect-standalone` command: Apache's arguments and exit codes."""
    sys.exit(standalone(sys.argv[1:]))


def connect_distributed() -> None:
    """The `connect-distributed` command: Apache's arguments and exit codes."""
    sys.exit(distributed(sys.argv[1:]))


def standalone(arguments: Sequence[str]) -> int:
    """Run a standalone worker until it ends; its exit code."""
    return _started(_STANDALONE, arguments)


def distributed(arguments: Sequence[str]) -> int:
    """Run a worker of a cluster until it ends; its exit code."""
    return _started(_DISTRIBUTED, arguments)


def _started(command: _Command, arguments: Sequence[str]) -> int:
    daemon = bool(arguments) and arguments[0] == "-daemon"
    files = [Path(name) for name in arguments[daemon:]]
    too_many = command.most_files is not None and len(files) > command.most_files
    if not files or too_many or {"-h", "--help"} & set(arguments):
        print(command.usage())
        return 1
    problems = [f"{path}: {why}" for path in files if (why := _unreadable(path))]
    if problems:
        print(f"{command.name}: name files that can be read:", *problems, sep="\n  ", file=sys.stderr)
        return 2
    if daemon:
        return _start_in_background(command, files)
    return command.run(files)


def _unreadable(path: Path) -> str | None:
    try:
        open(path, "rb").close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _start_in_background(command: _Command, files: Sequence[Path]) -> int:
    """As Apache's -daemon: write the output to a file in LOG_DIR, and return without waiting."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = Path(os.environ.get("LOG_DIR") or state / "headrace" / "logs").absolute()
    output = folder / command.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(output, "ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace.rest.commands", command.name, *map(str, files)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
    except OSError as error:
        print(f"{command.name}: no output can be written to {output} ({error}); set LOG_DIR", file=sys.stderr)
        return 3
    print(f"{command.name}: started as pid {process.pid}; its output goes to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(_started(_COMMANDS[sys.argv[1]], sys.argv[2:]))
