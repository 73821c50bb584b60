"""Apache's command `connect-standalone`, with Apache's arguments and exit codes.

1 usage, 2 error in arguments or config, 3 failed start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_USAGE: Final = "USAGE: connect-standalone [-daemon] worker.properties [connector1.properties connector2.json ...]"


def connect_standalone() -> None:
    """The `connect-standalone` command: Apache's arguments and exit codes."""
    sys.exit(standalone(sys.argv[1:]))


def standalone(arguments: Sequence[str]) -> int:
    """Runs a standalone worker until it ends; its exit code."""
    daemon = bool(arguments) and arguments[0] == "-daemon"
    files = [Path(name) for name in arguments[daemon:]]
    if not files or {"-h", "--help"} & set(arguments):
        print(_USAGE)
        return 1
    problems = [f"{path}: {why}" for path in files if (why := _unreadable(path))]
    if problems:
        print("connect-standalone: name files that can be read:", *problems, sep="\n  ", file=sys.stderr)
        return 2
    if daemon:
        return _start_in_background(files)
    from headrace.rest.standalone import run

    return run(files[0], files[1:])


def _unreadable(path: Path) -> str | None:
    try:
        open(path, "rb").close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _start_in_background(files: Sequence[Path]) -> int:
    """As Apache's -daemon: output goes to connectStandalone.out in LOG_DIR; returns without waiting."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = Path(os.environ.get("LOG_DIR") or state / "headrace" / "logs").absolute()
    output = folder / "connectStandalone.out"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(output, "ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace.rest.commands", "connect-standalone", *map(str, files)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
    except OSError as error:
        print(f"connect-standalone: no output can be written to {output} ({error}); set LOG_DIR", file=sys.stderr)
        return 3
    print(f"connect-standalone: started as pid {process.pid}; its output goes to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(standalone(sys.argv[2:]))
