"""A worker of either side as a process, what it costs, and that nothing of it outlives the run."""

import atexit
import multiprocessing
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import httpx
import psutil

from headrace.worker.machine import processes as child
from tests.bench.sides import SAME_FOR_ALL, Side

MARK = "HEADRACE_BENCH"  # in the environment of all that a worker starts, so that also orphans are found
LOG_TAIL_LINES = 12


class Failed(Exception):
    """A run that gives no figure: the process died, did not finish in time, or its output was wrong."""


@dataclass(frozen=True)
class Cost:
    """Processor time used up to one moment, or between two.  Units: seconds."""

    at: float
    side: float
    broker: float
    machine: float
    bench: float

    def __sub__(self, earlier: "Cost") -> "Cost":
        return Cost(
            self.at - earlier.at,
            self.side - earlier.side,
            self.broker - earlier.broker,
            self.machine - earlier.machine,
            self.bench - earlier.bench,
        )

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.at + other.at,
            self.side + other.side,
            self.broker + other.broker,
            self.machine + other.machine,
            self.bench + other.bench,
        )

    def shares(self) -> dict[str, float]:
        """Percent of one core, by whom; `others` is what the machine did that is no part of the run."""
        others = self.machine - self.side - self.broker - self.bench
        return {
            "cpu_pct": 100 * self.side / self.at,
            "broker_cpu_pct": 100 * self.broker / self.at,
            "others_cpu_pct": 100 * max(0.0, others) / self.at,
        }


def free_port() -> int:
    """A loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def marked(mark: str) -> list[psutil.Process]:
    """All live processes that carry the mark, with any parent."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


def cpu_s(processes: Iterable[psutil.Process], reaped: bool = True) -> float:
    """Processor seconds of these; with `reaped`, also of their children that have ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            t = process.cpu_times()
            total += t.user + t.system + (t.children_user + t.children_system if reaped else 0)
    return total


def machine_cpu_s() -> float:
    """Processor seconds the machine was not idle."""
    t = psutil.cpu_times()
    return float(t.user + t.nice + t.system + t.irq + t.softirq)


def end(mark: str, roots: Sequence[subprocess.Popen[bytes]], grace_s: float = 15) -> None:
    """Nothing that carries the mark runs any more; it was asked politely first."""
    for root in roots:
        root.terminate()  # does nothing to one that has ended
    bound = time.monotonic() + grace_s
    for root in roots:
        with suppress(subprocess.TimeoutExpired):
            root.wait(max(0.0, bound - time.monotonic()))
    for process in marked(mark):
        with suppress(psutil.Error):
            process.kill()
    for root in roots:
        root.wait()


class Family:
    """The processes of one side in one run, as a context: on exit, all that still run are ended."""

    def __init__(self, side: Side, directory: Path, broker_pids: Iterable[int]) -> None:
        self.side, self.directory = side, directory
        self.mark = uuid4().hex
        self._broker = [psutil.Process(pid) for pid in broker_pids]
        self._roots: dict[subprocess.Popen[bytes], Path] = {}
        self._dismissed: set[subprocess.Popen[bytes]] = set()
        self._uncounted: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        atexit.register(self._end_all, 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_all()
        atexit.unregister(self._end_all)

    def _end_all(self, grace_s: float = 15) -> None:
        end(self.mark, list(self._roots), grace_s)

    def spawn(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """A worker of this side, from now on expected to run."""
        root = child.spawn(  # in a session of its own: Ctrl-C reaches only the benchmark, which then ends this
            command, output=log, cwd=log.parent, env={**os.environ, MARK: self.mark}
        )
        self._roots[root] = log
        return root

    def dismiss(self, root: subprocess.Popen[bytes]) -> None:
        """The worker may end; what it and its children have used and still use is counted no more."""
        self._dismissed.add(root)
        process = psutil.Process(root.pid)
        self._uncounted |= {process, *process.children(recursive=True)}

    def kill(self) -> None:
        """`kill -9` of all workers and what they started, at once."""
        for root in self._roots:
            self.dismiss(root)
        for process in marked(self.mark):
            with suppress(psutil.Error):
                process.kill()

    def check(self) -> None:
        """All workers are alive, but those dismissed.  Errors: Failed with the end of the log of one that is not."""
        for root, log in self._roots.items():
            if root not in self._dismissed and root.poll() is not None:
                raise Failed(f"{self.side.name} ended with exit code {root.returncode}\n{log_tail(log)}")

    def until(self, holds: Callable[[], bool], what: str, seconds: float, every: float = 0.02) -> float:
        """The moment (`time.monotonic`) at which it was first seen to hold.  Errors: Failed after the bound."""
        bound = time.monotonic() + seconds
        while True:
            if holds():
                return time.monotonic()
            self.check()
            if time.monotonic() > bound:
                tails = "\n".join(log_tail(log) for log in self._roots.values())
                raise Failed(f"{self.side.name}: not within {seconds:.0f} s: {what}\n{tails}")
            time.sleep(every)

    def cost(self) -> Cost:
        """The processor time that side, broker, machine and benchmark have used up to now."""
        helpers = [psutil.Process(p.pid) for p in multiprocessing.active_children() if p.pid and p.is_alive()]
        bench = [psutil.Process(), *helpers]
        return Cost(
            at=time.monotonic(),
            side=cpu_s(process for process in marked(self.mark) if process not in self._uncounted),
            broker=cpu_s(self._broker),
            machine=machine_cpu_s(),
            bench=cpu_s(bench, reaped=False),
        )

    def memory(self) -> dict[str, float]:
        """Resident memory of all its processes; PSS counts a shared page once.  Units: MB."""
        rss = pss = 0
        for process in marked(self.mark):
            with suppress(psutil.Error):
                full = process.memory_full_info()
                rss, pss = rss + full.rss, pss + full.pss
        return {"rss_mb": rss / 1e6, "pss_mb": pss / 1e6}


class Worker(Family):
    """A standalone worker of one side with its connectors, as a context: started on entry, gone on exit.

    Every connector is a mapping of its settings; the side's own are added by what it is, source or sink.
    """

    def __init__(
        self,
        side: Side,
        directory: Path,
        bootstrap: str,
        connectors: Sequence[Mapping[str, str]],
        settings: Mapping[str, str] | None = None,
        broker_pids: Iterable[int] = (),
    ) -> None:
        super().__init__(side, directory, broker_pids)
        self._url = f"http://127.0.0.1:{free_port()}"
        worker = {
            **SAME_FOR_ALL,
            "bootstrap.servers": bootstrap,
            "listeners": self._url,
            "offset.storage.file.filename": str(directory / "connect.offsets"),
            **side.worker,
            **(settings or {}),
        }
        self._files = [write_properties(directory / "worker.properties", worker)]
        for connector in connectors:
            self._files.append(write_properties(directory / f"{connector['name']}.properties", self._whole(connector)))

    def __enter__(self) -> Self:
        super().__enter__()
        self.started = time.monotonic()
        self.spawn([*self.side.command(self.directory), *map(str, self._files)], self.directory / "worker.log")
        return self

    def create(self, connector: Mapping[str, str]) -> None:
        """The worker, which runs by now, has one connector more."""
        body = {"name": connector["name"], "config": self._whole(connector)}
        answer = httpx.post(f"{self._url}/connectors", json=body, timeout=30)
        if answer.status_code != httpx.codes.CREATED:
            raise Failed(f"{self.side.name}: {answer.text}")

    def _whole(self, connector: Mapping[str, str]) -> dict[str, str]:
        return {**connector, **self.side.settings_of(connector)}


def log_tail(log: Path) -> str:
    """The last lines of what a worker printed."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"    | {line[:300]}" for line in lines[-LOG_TAIL_LINES:])


def listening_pid(port: int) -> int | None:
    """The process that listens on this loopback port, if it is ours to see."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
            return int(connection.pid) if connection.pid else None
    return None


def die_on_sigterm() -> None:
    """SIGTERM unwinds the contexts as Ctrl-C does."""

    def leave(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """The path, at which these settings stand now."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
