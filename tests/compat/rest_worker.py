"""A running worker, for the tests that look at nothing but its REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import httpx

from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.worker_process import WorkerProcess, eventually

MODES: Final = ("standalone", "distributed")


def process(mode: str, folder: Path, bootstrap: str) -> WorkerProcess:
    """A worker of this mode, not started yet."""
    if mode == "distributed":
        return ClusterWorker(folder, bootstrap, new_cluster())
    return WorkerProcess(folder, bootstrap)


class RestWorker:
    """A worker by its URL."""

    def __init__(self, url: str, mode: str) -> None:
        self.url = url
        self.mode = mode
        self.http = httpx.Client(base_url=url, timeout=100)

    def put(self, name: str, **config: str) -> None:
        """The connector has this config; `_` in a key stands for `.`; a source to the topic `clients` by default."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        default = {"connector.class": "FileStreamSource", "topic": "clients"}
        self.http.put(f"/connectors/{name}/config", json={**default, **given}).raise_for_status()

    def wait_states(self, name: str, *states: str) -> None:
        """The connector's tasks are in these states."""
        eventually(lambda: self.states(name) == list(states), 60, lambda: self.states(name))

    def wait_gone(self, name: str) -> None:
        """A connector of this name that was deleted has ended: none that is made now shows its status."""
        eventually(lambda: self.http.get(f"/connectors/{name}/status").status_code == 404, 60)

    def states(self, name: str) -> list[str]:
        """The states of the connector's tasks."""
        status = self.http.get(f"/connectors/{name}/status").json()
        return [task["state"] for task in status.get("tasks", ())]
