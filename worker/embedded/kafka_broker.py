"""A real single-node Kafka broker (KRaft) on loopback: for development, the quickstart and tests.

Everything of one broker lies in its data folder: `data/` (the log), `logs/server.log`, the generated
`server.properties` and `log4j2.properties`, and `broker.json`, which says who runs it. The controller listens on a free
port that may change from start to start, which a static quorum allows and a dynamic one would not.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shlex
import socket
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

import psutil

from headrace.config.jars import KAFKA_VERSION
from headrace.worker.embedded import server_process
from headrace.worker.embedded.kafka_files import OURS, log4j2_properties, server_properties
from headrace.worker.embedded.server_process import Running, port_owner, state_dir
from headrace.worker.machine import processes
from headrace.worker.machine.jars import Unavailable, fetch, find_java

DEFAULT_PORT: Final = 9092
_HEAP: Final = "-Xms128m -Xmx512m"


def default_data_dir() -> Path:
    """`headrace/kafka` in the user's state folder: what a broker holds is data, not cache."""
    return state_dir() / "kafka"


def running(data_dir: Path) -> Running | None:
    """The broker that runs on this data folder, whoever started it."""
    return server_process.running(data_dir, Broker.what)


def stop_running(data_dir: Path, timeout_s: float = 60) -> Running | None:
    """The broker of this data folder has ended; None when none ran.

    Errors: Unavailable when it did not end in time and was killed.
    """
    return server_process.stop_running(data_dir, timeout_s, Broker.what)


class Broker:
    """One broker on one data folder; as a context manager it runs inside and is stopped at the end.

    Without a port it takes a free one at its first start and keeps it over restarts.
    """

    what: ClassVar[str] = "broker"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        loggers: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port
        self.log_file = self.data_dir / "logs" / "server.log"
        self._may_move = port is None
        self._settings = dict(settings or {})
        self._loggers = dict(loggers or {})
        self._detached = detached
        self._process: subprocess.Popen[bytes] | None = None
        refused = sorted(OURS & self._settings.keys())
        if refused:
            raise ValueError(f"{', '.join(refused)}: set by Headrace itself: use --port and --data-dir")

    @property
    def bootstrap_servers(self) -> str:
        if self.port is None:
            raise RuntimeError("the broker has no port before its first start()")
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker was not started: call start() first")
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

    def start(self, timeout_s: float = 60) -> None:
        """The broker answers clients.

        Errors: Unavailable when the port or the folder is taken, or it does not answer in time (with its log's end).
        """
        java = str(find_java().path)
        jars = os.pathsep.join(map(str, fetch("kafka")))
        (self.data_dir / "logs").mkdir(parents=True, exist_ok=True)
        with open(self.data_dir / ".starting", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Unavailable(f"another process is starting a broker on {self.data_dir}; wait for it") from error
            for attempt in (1, 2, 3):
                try:
                    self._start(java, jars, timeout_s)
                    return
                except _PortLost as error:
                    if attempt == 3:
                        raise Unavailable(str(error)) from error

    def stop(self, timeout_s: float = 60) -> None:
        """The broker has ended and flushed its log; killed where it would not within the time."""
        if self._process is not None:
            processes.stop(self._process, timeout_s)
            self._forget()

    def kill(self) -> None:
        """The broker is gone as by `kill -9`; `start()` recovers its log."""
        processes.kill(self.process)
        self._forget()

    def _forget(self) -> None:
        self._process = None
        (self.data_dir / "broker.json").unlink(missing_ok=True)

    def _start(self, java: str, jars: str, timeout_s: float) -> None:
        if self.port is None or (self._may_move and not processes.is_free(self.port)):
            self.port = processes.free_port()
        found = running(self.data_dir)
        if found is not None:
            raise Unavailable(f"a broker (pid {found.pid}, port {found.port}) already runs on {self.data_dir}")
        if not processes.is_free(self.port):
            raise Unavailable(
                f"port {self.port} is taken{port_owner(self.port)}; stop that, or choose another port with --port"
            )
        self._write_configs()
        command = [java, *shlex.split(os.environ.get("KAFKA_HEAP_OPTS", _HEAP)), "-XX:+UseG1GC"]
        command += ["-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"]
        command += [f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}", "-cp", jars]
        cluster = self._formatted(command)
        command[1:1] = shlex.split(os.environ.get("KAFKA_OPTS", ""))
        self._process = processes.spawn(
            [*command, "kafka.Kafka", str(self.data_dir / "server.properties")],
            output=self.data_dir / "logs" / "broker.out",
            cwd=self.data_dir,
            detached=self._detached,
        )
        try:
            self._note_running()
            self._wait_until_it_answers(cluster, time.monotonic() + timeout_s)
        except BaseException:
            self.kill()
            raise

    def _note_running(self) -> None:
        pid = self.process.pid
        try:
            created = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return  # ended already; the wait that follows says why
        noted = Running(pid, created, self.port or 0)
        (self.data_dir / "broker.json").write_text(json.dumps(asdict(noted)), encoding="utf-8")

    def _write_configs(self) -> None:
        controller = processes.free_port()
        properties = server_properties(self.data_dir / "data", self.port or 0, controller, self._settings)
        (self.data_dir / "server.properties").write_text(properties, encoding="ascii")
        log4j = log4j2_properties(self.log_file, self._loggers)
        (self.data_dir / "log4j2.properties").write_text(log4j, encoding="utf-8")

    def _formatted(self, command: list[str]) -> str:
        """The cluster id of the data folder, which is formatted at the first start and never again."""
        meta = self.data_dir / "data" / "meta.properties"
        if not meta.exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # One id in 64 begins with a dash; written with `=` it is not taken for an option.
            tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"]
            tool += ["--config", str(self.data_dir / "server.properties")]
            done = subprocess.run([*command, *tool], capture_output=True, text=True, cwd=self.data_dir, check=False)
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip()[-2000:]
                raise Unavailable(f"the data folder {self.data_dir} could not be formatted for Kafka: {said}")
        lines = meta.read_text(encoding="utf-8").splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def _wait_until_it_answers(self, cluster: str, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                said = self.log_end()
                lost = "Address already in use" in said or "BindException" in said
                kind = _PortLost if lost else Unavailable
                raise kind(
                    f"the broker ended with code {self.process.returncode} before it answered; the end of its log "
                    f"({self.log_file}):\n{said}\nWhere the data is damaged, start with another --data-dir"
                )
            if self._answers(cluster):
                return
            time.sleep(0.05)
        raise Unavailable(
            f"the broker did not answer on {self.bootstrap_servers} in time and was stopped; the end of its log "
            f"({self.log_file}):\n{self.log_end()}\nWhere the machine is just slow, try again"
        )

    def _answers(self, cluster: str) -> bool:
        assert self.port is not None
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=0.5).close()
        except OSError:
            return False
        return cluster_id(self.bootstrap_servers, timeout_s=2) == cluster

    def log_end(self, lines: int = 25) -> str:
        """The last lines of the broker's log, or of its bare output where it never got to log."""
        for path in (self.log_file, self.data_dir / "logs" / "broker.out"):
            if path.exists() and path.stat().st_size:
                with open(path, encoding="utf-8", errors="replace") as file:
                    return "".join(deque(file, lines)).rstrip()
        return "(it logged nothing)"


class _PortLost(Unavailable):
    """Somebody took a port between the look and the start; worth another try."""


def cluster_id(bootstrap_servers: str, timeout_s: float) -> str | None:
    """The id of the cluster that answers there as Kafka; None when nothing does in time."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        found = admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return None
    return str(found.cluster_id) if found.brokers else None


def describe(found: Running, data_dir: Path) -> str:
    """One line for an operator."""
    return f"Kafka {KAFKA_VERSION} at 127.0.0.1:{found.port} (pid {found.pid}, data in {data_dir})"
