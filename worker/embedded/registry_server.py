"""A real schema registry (Apicurio) on loopback: for development and tests; a client sees Confluent's protocol.

All of one registry is in its data folder: `data/` (an H2 database, so that schemas survive), `logs/` and
`registry.json`, which names its process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from headrace.config.jars import REGISTRY_VERSION
from headrace.worker.embedded.registry_files import CCOMPAT, MINIMUM_JAVA, command, unpacked
from headrace.worker.embedded.server_process import Running, ServerProcess
from headrace.worker.machine.java_search import find_newer_java

DEFAULT_PORT: Final = 8081
PURPOSE: Final = f"the schema registry (Apicurio {REGISTRY_VERSION})"


def url(port: int) -> str:
    """The `schema.registry.url` of an embedded registry."""
    return f"http://127.0.0.1:{port}{CCOMPAT}"


def answers(port: int, timeout_s: float = 5) -> bool:
    """True if a schema registry answers at this port, as Confluent's would, from its storage."""
    import httpx

    try:
        answer = httpx.get(f"{url(port)}/subjects", timeout=timeout_s, trust_env=False)
        return answer.status_code == 200 and isinstance(answer.json(), list)
    except (httpx.HTTPError, ValueError):
        return False


class Registry(ServerProcess):
    """One registry on one data folder."""

    what: ClassVar[str] = "registry"
    home: ClassVar[str] = "registry"
    start_timeout_s: ClassVar[float] = 180

    @classmethod
    def describe(cls, found: Running, data_dir: Path) -> str:
        """Describe it in one line for an operator."""
        return f"Apicurio Registry {REGISTRY_VERSION} at {url(found.port)} (pid {found.pid}, data in {data_dir})"

    @property
    def url(self) -> str:
        """The value for `schema.registry.url`."""
        return url(self.known_port)

    def _command(self, port: int) -> Sequence[str]:
        return command(find_newer_java(MINIMUM_JAVA, PURPOSE), unpacked(), port, self.log_file)

    def _answers(self, port: int) -> bool:
        return answers(port)
