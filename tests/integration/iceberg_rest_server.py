"""A REST catalog of Iceberg for tests: Iceberg's own request handlers in a process on a free loopback port.

Behind it is a JDBC catalog in an SQLite file, so that tables survive `kill()`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from headrace.plugins.interop.jvm.jars import fetch, find_java
from headrace.plugins.interop.jvm.java_compiler import compiled
from tests.held_ports import held_port
from tests.integration.hdfs_server import LOG4J, Node
from tests.short_jvms import ONLY_C1

_SOURCES: Final = Path(__file__).with_name("iceberg_java")
_MAIN: Final = "org.apache.iceberg.rest.CatalogServer"


class IcebergRestServer(Node):
    """One catalog on one folder; its port and tables stay the same over restarts."""

    client_id: Final = "headrace"
    client_secret: Final = "r3st-s3cret"

    def __init__(
        self, folder: Path, behind: Mapping[str, str] | None = None, token_s: int = 3600, *, is_open: bool = False
    ) -> None:
        """`behind`: more properties of the catalog behind it, such as another `warehouse` than one in the folder.

        `token_s`: how long a client is logged in; `is_open`: nobody logs in.
        """
        folder.mkdir(exist_ok=True)
        self.port = held_port()
        (folder / "log4j2.properties").write_text(LOG4J, encoding="ascii")
        properties = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder}/catalog.db",
            "clients": "1",
            "warehouse": f"file://{folder}/warehouse",
            **(behind or {}),
        }
        self.warehouse = properties["warehouse"]
        login = [self.client_id, "" if is_open else self.client_secret, str(token_s)]
        given = [f"{key}={value}" for key, value in properties.items()]
        java = [str(find_java().path), ONLY_C1, "-Xmx256m", "-cp", f"{folder}:{_class_path()}", _MAIN]
        super().__init__([*java, str(self.port), *login, *given], folder, "rest-catalog", self._answers_requests)

    @property
    def url(self) -> str:
        """For `uri` of a catalog."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> Mapping[str, str]:
        """A client's properties, as Iceberg's library and pyiceberg have them."""
        credential = f"{self.client_id}:{self.client_secret}"
        return {"type": "rest", "uri": self.url, "credential": credential, "warehouse": self.warehouse}

    def next_commits(self, *faults: str) -> None:
        """Break the next commits of any table, each by one of these; none: break no more.

        A status such as `409` or `503` is answered without a change, after `applied-` with it; `cut` closes the
        connection without an answer, before the change, `applied-cut` after it. `hold` and `applied-hold` keep the
        client waiting until the next call of this method. An empty text breaks nothing.
        """
        httpx.post(f"{self.url}/faults", content="\n".join(faults)).raise_for_status()

    def held(self) -> int:
        """Return the count of commits that are kept waiting now."""
        return int(httpx.get(f"{self.url}/faults").raise_for_status().json())

    def tool(self, action: str, catalog: Mapping[str, str], table: str, branch: str = "main") -> Any:
        """Run an action of `TableTool` with a table of any catalog, by Iceberg's library in this server's process.

        Errors: LookupError if there is no such table.
        """
        wanted = {"catalog": dict(catalog), "table": table, "branch": branch}
        answer = httpx.post(f"{self.url}/tool/{action}", json=wanted, timeout=300)
        if answer.status_code == 404:
            raise LookupError(answer.text)
        assert answer.is_success, answer.text
        return answer.json()

    def _answers_requests(self) -> bool:
        try:
            return httpx.get(f"{self.url}/v1/config").status_code in {200, 401}
        except httpx.HTTPError:
            return False


def _class_path() -> str:
    """Iceberg's library, its S3, drivers of databases, and the clients of Hadoop and Hive that pyspark has."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    pyspark = Path(spec.origin).parent / "jars"
    drivers = [jar for jar in fetch("spark") if jar.name.startswith(("sqlite-jdbc", "postgresql", "mariadb"))]
    library = [*fetch("lake"), *fetch("lake-aws")]
    needed = [jar for name in ("hadoop-client", "hive", "libthrift") for jar in sorted(pyspark.glob(f"{name}-*.jar"))]
    server = compiled("test-iceberg", _SOURCES, [*library, *needed])
    return ":".join([str(server), *map(str, library), *map(str, drivers), f"{pyspark}/*"])
