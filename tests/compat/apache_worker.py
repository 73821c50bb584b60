"""Apache Connect's own distributed worker as a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from headrace.worker.machine.jars import fetch, find_java
from headrace.worker.machine.processes import free_port
from tests.bench.sides import JSON, LOG4J2
from tests.integration.worker_process import eventually, properties


class ApacheWorker:
    """A worker of the group `group`, whose topics are `<group>-config`, `-offset` and `-status`; a context."""

    def __init__(self, directory: Path, bootstrap: str, group: str, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"group-{group}",
            "listeners": self.url,
            "key.converter": JSON,
            "value.converter": JSON,
            "plugin.discovery": "service_load",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **(settings or {}),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """The process runs, with a new log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "worker.properties").write_text(properties(self.settings))
        (self.directory / "log4j2.properties").write_text(LOG4J2)
        command = [
            str(find_java().path),
            *("-Xmx256M", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            *("-cp", os.pathsep.join(str(jar) for jar in fetch("connect"))),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self.directory / "worker.properties"),
        ]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)

    def stop(self) -> None:
        """It has left its group and ended."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    @property
    def worker_id(self) -> str:
        """What it is called in statuses."""
        return self.url.removeprefix("http://")

    @property
    def log(self) -> str:
        """All that it has logged."""
        return (self.directory / "log").read_text()

    def wait_ready(self, within_s: float = 60) -> Self:
        """It has joined its group and takes requests."""
        eventually(lambda: self.get("/health").get("status") == "healthy", within_s, lambda: self.log[-3000:])
        return self

    def get(self, path: str) -> Any:
        """What it answers; {} while it does not, or not well."""
        try:
            answer = httpx.get(self.url + path, timeout=10)
        except httpx.TransportError:
            return {}
        return answer.json() if answer.is_success else {}

    def request(self, method: str, path: str, json: Any = None) -> httpx.Response:
        """Its good answer."""
        answer = httpx.request(method, self.url + path, json=json, timeout=30)
        assert answer.is_success, answer.text
        return answer

    def states(self, connector: str) -> list[str]:
        """The states of a connector and of its tasks, as it shows them."""
        status = self.get(f"/connectors/{connector}/status")
        return [one["state"] for one in (status["connector"], *status["tasks"])] if status else []
