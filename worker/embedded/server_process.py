"""A server of ours that is one process on a data folder, the broker or the schema registry: found, run and stopped.

`<what>.json` in its data folder says who runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Protocol

import psutil

from headrace.worker.machine import processes
from headrace.worker.machine.jars import Unavailable

_STOPPED_BY_TERM: Final = (143, -15)


@dataclass(frozen=True, slots=True)
class Running:
    """A server process that lives; `created` guards against a process id that was given away again."""

    pid: int
    created: float
    port: int


def state_dir() -> Path:
    """`headrace` in the user's state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state").absolute() / "headrace"


def running(data_dir: Path, what: str) -> Running | None:
    """The server of this data folder that runs, whoever started it."""
    try:
        noted = Running(**json.loads((data_dir / f"{what}.json").read_bytes()))
        process = psutil.Process(noted.pid)
        alive = abs(process.create_time() - noted.created) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, ValueError, TypeError, psutil.NoSuchProcess):
        return None
    return noted if alive else None


def stop_running(data_dir: Path, timeout_s: float, what: str) -> Running | None:
    """The server of this data folder has ended; None when none ran.

    Errors: Unavailable when it did not end in time and was killed.
    """
    found = running(data_dir, what)
    if found is None:
        return None
    try:
        process = psutil.Process(found.pid)
        process.terminate()
        process.wait(timeout_s)
    except psutil.NoSuchProcess:
        pass
    except psutil.TimeoutExpired as error:
        process.kill()
        raise Unavailable(
            f"the {what} (pid {found.pid}) did not stop within {timeout_s:.0f} s and was killed; "
            f"see the end of {data_dir / 'logs' / 'server.log'}; its next start recovers what it stored"
        ) from error
    except psutil.AccessDenied as error:
        raise Unavailable(f"the {what} (pid {found.pid}) belongs to another user; stop it as that user") from error
    (data_dir / f"{what}.json").unlink(missing_ok=True)
    return found


class Server(Protocol):
    """What `run` asks of a server."""

    what: ClassVar[str]
    log_file: Path

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its process; RuntimeError before its start."""

    @property
    def described(self) -> str:
        """One line for an operator."""

    def start(self) -> None:
        """It answers. Errors: Unavailable."""

    def stop(self) -> None:
        """It has ended."""

    def log_end(self) -> str:
        """The last lines of its log."""


def run(server: Server, say: Callable[[str], object], *, foreground: bool) -> int:
    """Starts a server and, in the foreground, stays until Ctrl-C or its end; the exit code.

    Errors: Unavailable as its `start`.
    """
    started = False
    with processes.interrupts():
        try:
            server.start()
            started = True
            say(f"{server.described}{'; Ctrl-C stops it' if foreground else ''}")
            if not foreground:
                return 0
            code = server.process.wait()
        except processes.Interrupted as stop:
            server.stop()
            return 0 if started else 128 + stop.signum
    server.stop()
    if code in _STOPPED_BY_TERM:
        return 0
    say(f"the {server.what} ended by itself with code {code}; its log's end ({server.log_file}):\n{server.log_end()}")
    return 1


def port_owner(port: int) -> str:
    """Who listens there, where the system tells."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return ""
