"""A real Hive metastore for tests, a process on a free loopback port: pyspark carries it; its tables are in Derby."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from headrace.plugins.interop.jvm.jars import find_java
from headrace.plugins.interop.jvm.java_compiler import compiled
from tests.held_ports import held_port
from tests.integration.hdfs_server import LOG4J, Node, write_settings
from tests.short_jvms import ONLY_C1

_MAIN = "headrace.test.MetastoreWithLocks"
_SOURCES = Path(__file__).with_name("hive_java")


class HiveServer(Node):
    """One metastore on one data folder; its port and tables stay the same over restarts."""

    def __init__(self, folder: Path, *, gives_locks: bool = True) -> None:
        """`gives_locks`: False for a metastore whose lock manager does not work."""
        self.port = held_port()
        folder.mkdir(exist_ok=True)
        (folder / "log4j2.properties").write_text(LOG4J, encoding="ascii")
        self._settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(folder / "warehouse"),
            # The jar of the default pool is not in pyspark: without a pool no lock is given.
            "datanucleus.connectionPoolingType": "HikariCP" if gives_locks else "BONECP",
            "hive.async.log.enabled": "false",
            "hive.log4j.file": str(folder / "log4j2.properties"),
        }
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        jars = Path(spec.origin).parent / "jars"
        needed = [*sorted(jars.glob("hive-*.jar")), *sorted(jars.glob("hadoop-client-*.jar"))]
        main = compiled("test-hive", _SOURCES, needed)
        java = [str(find_java().path), ONLY_C1, "-Xmx512m", "-cp", f"{folder}:{main}:{jars}/*"]
        command = [*java, _MAIN, "-p", str(self.port)]
        super().__init__(command, folder, "metastore", self._listens)
        self.configure()

    def configure(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """It has these settings, beside its own, from its next start on."""
        write_settings(self._folder / "hive-site.xml", {**self._settings, **settings})

    @property
    def uris(self) -> str:
        """For `hive.metastore.uris`."""
        return f"thrift://127.0.0.1:{self.port}"

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
