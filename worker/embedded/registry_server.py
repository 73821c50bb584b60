"""A real schema registry (Apicurio) on loopback: for development and tests; a client sees Confluent's protocol.

Everything of one registry lies in its data folder: `data/` (an H2 database, so that schemas survive), `logs/` and
`registry.json`, which says who runs it.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

import psutil

from headrace.config.jars import REGISTRY_VERSION
from headrace.worker.embedded import server_process
from headrace.worker.embedded.registry_files import CCOMPAT, MINIMUM_JAVA, command, unpacked
from headrace.worker.embedded.server_process import Running, port_owner, state_dir
from headrace.worker.machine import processes
from headrace.worker.machine.jars import Unavailable
from headrace.worker.machine.java_search import find_newer_java

DEFAULT_PORT: Final = 8081
PURPOSE: Final = f"the schema registry (Apicurio {REGISTRY_VERSION})"


def default_data_dir() -> Path:
    """`headrace/registry` in the user's state folder."""
    return state_dir() / "registry"


def running(data_dir: Path) -> Running | None:
    """The registry that runs on this data folder, whoever started it."""
    return server_process.running(data_dir, Registry.what)


def stop_running(data_dir: Path, timeout_s: float = 60) -> Running | None:
    """The registry of this data folder has ended; None when none ran.

    Errors: Unavailable when it did not end in time and was killed.
    """
    return server_process.stop_running(data_dir, timeout_s, Registry.what)


def url(port: int) -> str:
    """What `schema.registry.url` is set to for a registry of ours."""
    return f"http://127.0.0.1:{port}{CCOMPAT}"


def answers(port: int, timeout_s: float = 5) -> bool:
    """Whether a schema registry answers there: as Confluent's would, out of its storage."""
    import httpx

    try:
        answer = httpx.get(f"{url(port)}/subjects", timeout=timeout_s, trust_env=False)
        return answer.status_code == 200 and isinstance(answer.json(), list)
    except (httpx.HTTPError, ValueError):
        return False


class Registry:
    """One registry on one data folder; as a context manager it runs inside and is stopped at the end.

    Without a port it takes a free one at its first start and keeps it over restarts.
    """

    what: ClassVar[str] = "registry"

    def __init__(self, data_dir: Path, port: int | None = None, *, detached: bool = False) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.log_file = self.data_dir / "logs" / "server.log"
        self._note = self.data_dir / "registry.json"
        self._out = self.data_dir / "logs" / "registry.out"
        self._detached = detached
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For `schema.registry.url`."""
        if self.port is None:
            raise RuntimeError("the registry has no port before its first start()")
        return url(self.port)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the registry was not started: call start() first")
        return self._process

    @property
    def described(self) -> str:
        return describe(Running(self.process.pid, 0.0, self.port or 0), self.data_dir)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout_s: float = 180) -> None:
        """The registry answers clients.

        Errors: Unavailable without a Java that is new enough, when the port or the folder is taken, or it does not
        answer in time (with its log's end).
        """
        java = find_newer_java(MINIMUM_JAVA, PURPOSE)
        home = unpacked()
        self._out.parent.mkdir(parents=True, exist_ok=True)
        with open(self.data_dir / ".starting", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Unavailable(f"another process is starting a registry on {self.data_dir}; wait for it") from error
            port = self._place()
            self._out.unlink(missing_ok=True)
            self._process = processes.spawn(
                command(java, home, port, self.log_file), output=self._out, cwd=self.data_dir, detached=self._detached
            )
            try:
                self._note_running()
                self._wait_until_it_answers(port, time.monotonic() + timeout_s)
            except BaseException:
                self.kill()
                raise

    def stop(self, timeout_s: float = 60) -> None:
        """The registry has ended; killed where it would not within the time."""
        if self._process is not None:
            processes.stop(self._process, timeout_s)
            self._forget()

    def kill(self) -> None:
        """The registry is gone as by `kill -9`; what it answered for is in its database."""
        processes.kill(self.process)
        self._forget()

    def _forget(self) -> None:
        self._process = None
        self._note.unlink(missing_ok=True)

    def _place(self) -> int:
        """The port, with nobody else on it or on the folder."""
        found = running(self.data_dir)
        if found is not None:
            raise Unavailable(f"a registry (pid {found.pid}, port {found.port}) already runs on {self.data_dir}")
        if self.port is None:
            self.port = processes.free_port()
        if not processes.is_free(self.port):
            owner = port_owner(self.port)
            raise Unavailable(f"port {self.port} is taken{owner}; stop that, or choose another port with --port")
        return self.port

    def _note_running(self) -> None:
        pid = self.process.pid
        try:
            noted = Running(pid, psutil.Process(pid).create_time(), self.port or 0)
        except psutil.NoSuchProcess:
            return  # ended already; the wait that follows says why
        self._note.write_text(json.dumps(asdict(noted)), encoding="utf-8")

    def _wait_until_it_answers(self, port: int, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Unavailable(
                    f"the registry ended with code {self.process.returncode} before it answered; the end of its log "
                    f"({self.log_file}):\n{self.log_end()}\nWhere the data is damaged, start with another --data-dir"
                )
            if answers(port):
                return
            time.sleep(0.1)
        raise Unavailable(
            f"the registry did not answer on {url(port)} in time and was stopped; the end of its log "
            f"({self.log_file}):\n{self.log_end()}\nWhere the machine is just slow, try again"
        )

    def log_end(self, lines: int = 25) -> str:
        """The last lines of the registry's log and of its bare output."""
        said: list[str] = []
        for path in (self.log_file, self._out):
            if path.exists():
                with open(path, encoding="utf-8", errors="replace") as file:
                    said += deque(file, lines)
        return "".join(said).rstrip() or "(it logged nothing)"


def describe(found: Running, data_dir: Path) -> str:
    """One line for an operator."""
    return f"Apicurio Registry {REGISTRY_VERSION} at {url(found.port)} (pid {found.pid}, data in {data_dir})"
