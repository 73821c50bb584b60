"""A real single-node Kafka broker (KRaft) on loopback: for development, the quickstart and tests.

All of one broker is in its data folder: `data/` (the log), `logs/server.log`, the generated `server.properties` and
`log4j2.properties`, and `broker.json`, which names its process. The controller listens on a free port that may change
from start to start, which a static quorum allows and a dynamic one would not.
"""

from __future__ import annotations

import base64
import os
import shlex
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from headrace.config.jars import KAFKA_SETS, KAFKA_VERSION
from headrace.plugins.interop.jvm.jars import Unavailable, fetch, find_java
from headrace.worker.embedded.kafka_files import OURS, log4j2_properties, server_properties
from headrace.worker.embedded.server_process import Running, ServerProcess
from headrace.worker.machine import processes

DEFAULT_PORT: Final = 9092
_HEAP: Final = "-Xms128m -Xmx512m"


class Broker(ServerProcess):
    """One broker on one data folder."""

    what: ClassVar[str] = "broker"
    home: ClassVar[str] = "kafka"
    start_timeout_s: ClassVar[float] = 60

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        loggers: Mapping[str, str] | None = None,
        detached: bool = False,
        version: str | None = None,
    ) -> None:
        """Without a version it is that of HEADRACE_KAFKA_VERSION. Errors: Unavailable if there are no jars of it."""
        super().__init__(data_dir, port, detached=detached)
        self.version = kafka_version(version)
        self._settings = dict(settings or {})
        self._loggers = dict(loggers or {})
        self._cluster = ""
        refused = sorted(OURS & self._settings.keys())
        if refused:
            raise ValueError(f"{', '.join(refused)}: set by Headrace itself: use --port and --data-dir")

    @classmethod
    def describe(cls, found: Running, data_dir: Path) -> str:
        """Describe it in one line for an operator."""
        return f"Kafka {found.version or KAFKA_VERSION} at 127.0.0.1:{found.port} (pid {found.pid}, data in {data_dir})"

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.known_port}"

    def _command(self, port: int) -> Sequence[str]:
        java, jars = str(find_java().path), os.pathsep.join(map(str, fetch(KAFKA_SETS[self.version][0])))
        self._write_configs(port)
        command = [java, *shlex.split(os.environ.get("KAFKA_HEAP_OPTS", _HEAP)), "-XX:+UseG1GC"]
        command += ["-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true"]
        command += [f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}", "-cp", jars]
        self._cluster = self._formatted(command)
        command[1:1] = shlex.split(os.environ.get("KAFKA_OPTS", ""))
        return [*command, "kafka.Kafka", str(self.data_dir / "server.properties")]

    def _write_configs(self, port: int) -> None:
        controller = processes.free_port()
        properties = server_properties(self.data_dir / "data", port, controller, self._settings)
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

    def _answers(self, port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
        except OSError:
            return False
        return cluster_id(self.bootstrap_servers, timeout_s=2) == self._cluster


def kafka_version(asked: str | None = None) -> str:
    """The version asked for, else that of HEADRACE_KAFKA_VERSION, else the usual one.

    Errors: Unavailable names the versions that there are.
    """
    version = asked or os.environ.get("HEADRACE_KAFKA_VERSION") or KAFKA_VERSION
    if version not in KAFKA_SETS:
        what = f"version={asked!r}" if asked else f"HEADRACE_KAFKA_VERSION={version!r}"
        known = " or ".join(KAFKA_SETS)
        raise Unavailable(f"{what}: Headrace has no such Kafka to start; say {known}, or nothing for {KAFKA_VERSION}")
    return version


def cluster_id(bootstrap_servers: str, timeout_s: float) -> str | None:
    """The id of the cluster that answers at this address as Kafka; None if none does in time."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        found = admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return None
    return str(found.cluster_id) if found.brokers else None
