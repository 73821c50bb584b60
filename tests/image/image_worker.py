"""Workers of the image: their properties, their connectors' files, their health."""

from __future__ import annotations

from typing import Any, Final

import httpx

from headrace.worker.machine.processes import free_port
from tests.image.container import Container
from tests.integration.cluster_worker import cluster_settings
from tests.integration.mixed_cluster import QUICK

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
START_S: Final = 600


class ImageWorker:
    """A worker in a container, which listens on loopback."""

    def __init__(self, container: Container, broker: str, **more: str) -> None:
        """`more`: further variables of its environment."""
        port = free_port()
        self.container, self.worker_id = container, f"127.0.0.1:{port}"
        self._rest = httpx.Client(base_url=f"http://{self.worker_id}", timeout=60)
        self._env = {
            "CONNECT_BOOTSTRAP_SERVERS": broker,
            "CONNECT_LISTENERS": f"http://{self.worker_id}",
            "CONNECT_KEY_CONVERTER": JSON,
            "CONNECT_VALUE_CONVERTER": JSON,
            "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "1000",
            **more,
        }

    def start(self, *arguments: str) -> None:
        """The container runs with these arguments."""
        self.container.start(arguments, self._env)

    def is_healthy(self) -> bool:
        """True if the image's health check says so."""
        return is_healthy(self.container)

    def post(self, name: str, config: dict[str, str]) -> None:
        """The connector is there."""
        self._rest.post("/connectors", json={"name": name, "config": config}).raise_for_status()

    def put(self, path: str) -> None:
        """It took the request."""
        self._rest.put(path).raise_for_status()

    def delete(self, name: str) -> None:
        """The connector is gone."""
        self._rest.delete(f"/connectors/{name}").raise_for_status()

    def get(self, path: str) -> Any:
        """Return its answer."""
        return self._rest.get(path).raise_for_status().json()


def is_healthy(container: Container) -> bool:
    """True if the image's health check says so."""
    return container.execute(["headrace", "health", "--running"]).returncode == 0


def of_cluster(cluster: str) -> dict[str, str]:
    """The variables with which a worker joins this cluster of tests."""
    settings = {**cluster_settings(cluster), **QUICK, "rest.advertised.host.name": "127.0.0.1"}
    return {f"CONNECT_{key.upper().replace('.', '_')}": value for key, value in settings.items()}


def file_pipe(container: Container) -> dict[str, dict[str, str]]:
    """A file to a topic, and the topic to a file, by their names."""
    (container.shared / "in.txt").touch()
    text = "org.apache.kafka.connect.storage.StringConverter"
    one_task = {"tasks.max": "1", "key.converter": text, "value.converter": text}
    topic = f"lines-{free_port()}"
    return {
        "in": {**one_task, "connector.class": "FileStreamSource", "file": "/mnt/in.txt", "topic": topic},
        "out": {**one_task, "connector.class": "FileStreamSink", "file": "/mnt/out.txt", "topics": topic},
    }


def write(container: Container, *lines: str) -> None:
    """The lines are at the end of the file that is read."""
    with (container.shared / "in.txt").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def written(container: Container) -> list[str]:
    """The lines of the file that is written."""
    out = container.shared / "out.txt"
    return out.read_text().split() if out.exists() else []
