"""Apache Connect's own distributed worker as a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx

from tests.bench.sides import JSON
from tests.compat.apache_process import ApacheProcess
from tests.held_ports import held_port
from tests.integration.worker_process import eventually


class ApacheWorker(ApacheProcess):
    """A worker of the group `group`, whose topics are `<group>-config`, `-offset` and `-status`; a context."""

    main: ClassVar = "org.apache.kafka.connect.cli.ConnectDistributed"

    def __init__(self, directory: Path, bootstrap: str, group: str, settings: Mapping[str, str] | None = None) -> None:
        self.port = held_port()
        self.url = f"http://127.0.0.1:{self.port}"
        worker = {
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
        super().__init__(directory, worker)

    @property
    def worker_id(self) -> str:
        """Its name in statuses."""
        return self.url.removeprefix("http://")

    def wait_ready(self, within_s: float = 60) -> Self:
        """It has joined its group and takes requests."""
        eventually(lambda: self.get("/health").get("status") == "healthy", within_s, lambda: self.log[-3000:])
        return self

    def get(self, path: str) -> Any:
        """Return its answer; {} while it does not answer, or not well."""
        try:
            answer = httpx.get(self.url + path, timeout=60)
        except httpx.TransportError:
            return {}
        return answer.json() if answer.is_success else {}

    def request(self, method: str, path: str, json: Any = None) -> httpx.Response:
        """Its good answer."""
        answer = httpx.request(method, self.url + path, json=json, timeout=60)
        assert answer.is_success, answer.text
        return answer

    def states(self, connector: str) -> list[str]:
        """The states of a connector and of its tasks, as it shows them."""
        status = self.get(f"/connectors/{connector}/status")
        return [one["state"] for one in (status["connector"], *status["tasks"])] if status else []
