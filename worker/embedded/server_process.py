"""A server that is one process on a data folder, the broker or the schema registry: found, run and stopped.

`<what>.json` in the data folder names its process.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

import psutil

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine import processes

_STOPPED_BY_TERM: Final = (143, -15)
_STARTS: Final = 3
"""The number of ports tried if another process takes each between the check and the start."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server process that lives; `created` guards against a process id that was given away again."""

    pid: int
    created: float
    port: int
    version: str = ""
    """Empty: noted by a Headrace that started one version only."""


_NOTED: Final = frozenset(one.name for one in fields(Running))


class ServerProcess(ABC):
    """One server on one data folder; as a context manager it runs inside and is stopped at the end.

    Without a port it takes a free one at its first start and keeps it over restarts while it is free.
    """

    what: ClassVar[str]
    """Its name in messages and in its files' names."""
    home: ClassVar[str]
    """The name of its data folder in the user's state folder, and of its commands."""
    start_timeout_s: ClassVar[float]
    version: str = ""
    """The version that it starts, if there are several."""

    def __init__(self, data_dir: Path, port: int | None = None, *, detached: bool = False) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.log_file = self.data_dir / "logs" / "server.log"
        self._output = self.data_dir / "logs" / f"{self.what}.out"
        self._membership_ok = port is None
        self._detached = detached
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self, port: int) -> Sequence[str]:
        """Write the server's files; return the command that runs it on this port. Errors: Unavailable."""

    @abstractmethod
    def _answers(self, port: int) -> bool:
        """True if this server, and no other, answers clients."""

    @classmethod
    @abstractmethod
    def describe(cls, found: Running, data_dir: Path) -> str:
        """Describe it in one line for an operator."""

    @classmethod
    def default_data_dir(cls) -> Path:
        """A folder of the user's state: a server holds data, not a cache."""
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return state.absolute() / "headrace" / cls.home

    @classmethod
    def running_on(cls, data_dir: Path) -> Running | None:
        """The server that runs on this data folder, started by any process."""
        try:
            said = json.loads((data_dir / f"{cls.what}.json").read_bytes())
            noted = Running(**{key: value for key, value in said.items() if key in _NOTED})
            process = psutil.Process(noted.pid)
            alive = abs(process.create_time() - noted.created) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, TypeError, AttributeError, psutil.NoSuchProcess):
            return None
        return noted if alive else None

    @classmethod
    def stop_on(cls, data_dir: Path, timeout_s: float = 60) -> Running | None:
        """Stop the server that runs on this data folder, and wait for its end; None if none ran.

        Errors: Unavailable if it did not end in time and was killed.
        """
        found = cls.running_on(data_dir)
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
                f"the {cls.what} (pid {found.pid}) did not stop within {timeout_s:.0f} s and was killed; "
                f"see the end of {data_dir / 'logs' / 'server.log'}; its next start recovers what it stored"
            ) from error
        except psutil.AccessDenied as error:
            raise Unavailable(
                f"the {cls.what} (pid {found.pid}) belongs to another user; stop it as that user"
            ) from error
        (data_dir / f"{cls.what}.json").unlink(missing_ok=True)
        return found

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its process. Errors: RuntimeError before its start."""
        if self._process is None:
            raise RuntimeError(f"the {self.what} was not started: call start() first")
        return self._process

    @property
    def described(self) -> str:
        """Describe it in one line for an operator."""
        return self.describe(Running(self.process.pid, 0.0, self.known_port, self.version), self.data_dir)

    @property
    def known_port(self) -> int:
        """Its port. Errors: RuntimeError before its first start."""
        if self.port is None:
            raise RuntimeError(f"the {self.what} has no port before its first start()")
        return self.port

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout_s: float | None = None) -> None:
        """Start the server and wait until it answers clients.

        Errors: Unavailable if a program is missing, the port or the folder is taken, or it does not answer in time
        (with its log's end).
        """
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with open(self.data_dir / ".starting", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Unavailable(
                    f"another process is starting a {self.what} on {self.data_dir}; wait for it"
                ) from error
            for attempt in range(1, _STARTS + 1):
                try:
                    self._start(self.start_timeout_s if timeout_s is None else timeout_s)
                    return
                except _PortLost as error:
                    if attempt == _STARTS:
                        raise Unavailable(str(error)) from error

    def stop(self, timeout_s: float = 60) -> None:
        """Stop the server, which stores its data; kill it if it does not end within the time."""
        if self._process is not None:
            processes.stop(self._process, timeout_s)
            self._forget()

    def kill(self) -> None:
        """End the server as by `kill -9`; its next start recovers what it stored."""
        processes.kill(self.process)
        self._forget()

    def log_end(self, lines: int = 25) -> str:
        """The last lines of the server's log and of its bare output."""
        said: list[str] = []
        for path in (self.log_file, self._output):
            if path.exists():
                with open(path, encoding="utf-8", errors="replace") as file:
                    said += deque(file, lines)
        return "".join(said).rstrip() or "(it logged nothing)"

    def _forget(self) -> None:
        self._process = None
        (self.data_dir / f"{self.what}.json").unlink(missing_ok=True)

    def _start(self, timeout_s: float) -> None:
        command = self._command(self._choose_port())
        self._output.unlink(missing_ok=True)
        self._process = processes.spawn(command, output=self._output, cwd=self.data_dir, detached=self._detached)
        try:
            self._note_running()
            self._wait_until_it_answers(time.monotonic() + timeout_s)
        except BaseException:
            self.kill()
            raise

    def _choose_port(self) -> int:
        """Choose the port; neither it nor the folder is taken. Errors: Unavailable."""
        found = self.running_on(self.data_dir)
        if found is not None:
            raise Unavailable(f"a {self.what} (pid {found.pid}, port {found.port}) already runs on {self.data_dir}")
        if self.port is None or (self._membership_ok and not processes.is_free(self.port)):
            self.port = processes.free_port()
        if not processes.is_free(self.port):
            raise Unavailable(
                f"port {self.port} is taken{port_owner(self.port)}; stop that, or choose another port with --port"
            )
        return self.port

    def _note_running(self) -> None:
        pid = self.process.pid
        try:
            noted = Running(pid, psutil.Process(pid).create_time(), self.known_port, self.version)
        except psutil.NoSuchProcess:
            return  # ended already; the wait that follows says why
        (self.data_dir / f"{self.what}.json").write_text(json.dumps(asdict(noted)), encoding="utf-8")

    def _wait_until_it_answers(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                said = self.log_end()
                lost = "Address already in use" in said or "BindException" in said
                kind = _PortLost if lost else Unavailable
                raise kind(
                    f"the {self.what} ended with code {self.process.returncode} before it answered; the end of its log "
                    f"({self.log_file}):\n{said}\nWhere the data is damaged, start with another --data-dir"
                )
            if self._answers(self.known_port):
                return
            time.sleep(0.05)
        raise Unavailable(
            f"the {self.what} did not answer on 127.0.0.1:{self.port} in time and was stopped; the end of its log "
            f"({self.log_file}):\n{self.log_end()}\nWhere the machine is just slow, try again"
        )


class _PortLost(Unavailable):
    """Another process took the port between the check and the start; worth another try."""


def run(server: ServerProcess, say: Callable[[str], object], *, foreground: bool) -> int:
    """Start a server and, in the foreground, stay until Ctrl-C or its end; returns the exit code.

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
    """The process that listens at this port, if the system tells."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return ""
