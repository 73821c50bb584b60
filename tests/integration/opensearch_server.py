"""A real OpenSearch for tests: one node, a process on a free loopback port."""

from __future__ import annotations

import importlib.util
import json
import os
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

from headrace.plugins.interop.jvm.jars import fetch, find_java
from headrace.plugins.interop.jvm.java_compiler import compiled
from tests.held_ports import held_port
from tests.integration.hdfs_server import LOG4J, Node
from tests.short_jvms import ONLY_C1

_SOURCES: Final = Path(__file__).parent / "opensearch"
_DISKS: Final = "cluster.routing.allocation.disk.threshold_enabled=false"
"""A full disk of the machine is no fault of a test."""


class OpenSearchServer(Node):
    """One node on one data folder; its port and documents stay the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.port, transport = held_port(), held_port()
        (folder / "log4j2.properties").write_text(LOG4J, encoding="ascii")
        settings = {
            "path.home": folder,
            "cluster.name": "tests",
            "node.name": "node",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": self.port,
            "transport.port": transport,
        }
        command = [str(find_java().path), ONLY_C1, "-XX:+UseSerialGC", "-Xmx512m", "-cp", _class_path(folder)]
        given = [f"{name}={value}" for name, value in settings.items()]
        super().__init__([*command, "OpenSearchNode", *given, _DISKS], folder, "opensearch", self._answers_now)

    @property
    def url(self) -> str:
        """For `connection.url`."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; None if what is asked for is not there, or its shards have not started yet (503)."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            if error.code in (404, 503):
                return None
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def documents(self, index: str) -> dict[str, Any]:
        """All documents of an index by their ids; at most 10,000, none of an index that is just being made."""
        self.ask("POST", f"/{index}/_refresh")
        found = self.ask("GET", f"/{index}/_search?size=10000&version=true")
        return {} if found is None else {one["_id"]: one["_source"] for one in found["hits"]["hits"]}

    def _answers_now(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s", timeout=5):
                return True
        except OSError:
            return False


def _class_path(folder: Path) -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = [*fetch("opensearch"), *sorted((Path(spec.origin).parent / "jars").glob("log4j-[ac]*-2.*.jar"))]
    return os.pathsep.join(map(str, [folder, compiled("opensearch-node", _SOURCES, jars), *jars]))
