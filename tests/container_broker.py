"""The tests' Kafka in a container, where a Docker engine runs and HEADRACE_TEST_KAFKA=testcontainers asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import javaproperties

from headrace.config.jars import KAFKA_VERSION
from headrace.worker.embedded.kafka_broker import cluster_id
from headrace.worker.embedded.kafka_files import server_properties
from headrace.worker.machine.processes import free_port

_CONTROLLER_PORT = 29093
_START_S = 180.0


class ContainerBroker:
    """As `headrace.worker.embedded.kafka_broker.Broker`: its port and data outlive `stop()` and `kill()`."""

    def __init__(self) -> None:
        from testcontainers.core.container import DockerContainer

        port = free_port()
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._started = False
        self._container = (
            DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_bind_ports(port, port).with_envs(**_environment(port))
        )

    @property
    def is_running(self) -> bool:
        if not self._started:
            return False
        docker: Any = self._container.get_wrapped_container()
        docker.reload()
        return bool(docker.status == "running")

    def start(self) -> None:
        """The broker answers clients."""
        if self._started:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._started = True
        assert cluster_id(self.bootstrap_servers, _START_S), self._container.get_logs()

    def stop(self) -> None:
        """The broker has ended as on SIGTERM."""
        self._container.get_wrapped_container().stop(timeout=60)

    def kill(self) -> None:
        """The broker has ended as on SIGKILL."""
        self._container.get_wrapped_container().kill()

    def remove(self) -> None:
        """Nothing of it is left."""
        self._container.stop()


def _environment(port: int) -> dict[str, str]:
    """The embedded broker's properties, with listeners that a port of the host can be bound to."""
    listeners = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{_CONTROLLER_PORT}"
    text = server_properties(Path("/tmp/kraft-combined-logs"), port, _CONTROLLER_PORT, {"listeners": listeners})
    return {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in javaproperties.loads(text).items()}
