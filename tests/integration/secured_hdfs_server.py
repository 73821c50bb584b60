"""A real HDFS that wants Kerberos, for tests: nodes log in by keytabs, data nodes ask for block tokens and SASL."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from headrace.worker.machine import processes
from tests.integration.hdfs_server import HdfsServer, java, run, write_conf
from tests.integration.kdc import REALM, Kdc

SERVER = "hdfs/127.0.0.1"
"""The principal of both nodes."""

USER = "archive"
"""A principal that may write anywhere."""

_WEB = "HTTP/127.0.0.1"
_SHELL = "org.apache.hadoop.fs.FsShell"


class SecuredHdfsServer(HdfsServer):
    """One HDFS whose users are those of a Kerberos server."""

    def __init__(self, folder: Path, kdc: Kdc) -> None:
        self._kdc = kdc
        self._options = [f"-Djava.security.krb5.conf={kdc.conf}"]
        self._keytabs = {name: str(kdc.add(name)) for name in (SERVER, _WEB)}
        super().__init__(folder)

    @property
    def client_conf_dir(self) -> Path:
        """For `hadoop.conf.dir` of a client."""
        return self._folder / "client-conf"

    def shell(self, *arguments: str) -> str:
        """Run `hdfs dfs` as the user with a ticket in the ticket cache; return what it printed."""
        return run([*self._java(_SHELL), *arguments], self._folder, self._kdc.env)

    def _java(self, main: str) -> list[str]:
        return java(self.conf_dir, main, *self._options)

    def _format(self) -> None:
        super()._format()
        core = {**self._core_settings(), "hadoop.kerberos.min.seconds.before.relogin": "1"}
        write_conf(self.client_conf_dir, core, self._client_settings())

    def _core_settings(self) -> dict[str, str]:
        return {
            **super()._core_settings(),
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "hadoop.user.group.static.mapping.overrides": f"{USER}=supergroup;",
        }

    @staticmethod
    def _client_settings() -> dict[str, str]:
        return {
            "dfs.namenode.kerberos.principal": f"{SERVER}@{REALM}",
            "dfs.data.transfer.protection": "privacy",
        }

    def _settings(self) -> dict[str, str]:
        return {
            **super()._settings(),
            **self._client_settings(),
            "dfs.namenode.keytab.file": self._keytabs[SERVER],
            "dfs.datanode.kerberos.principal": f"{SERVER}@{REALM}",
            "dfs.datanode.keytab.file": self._keytabs[SERVER],
            "dfs.web.authentication.kerberos.principal": f"{_WEB}@{REALM}",
            "dfs.web.authentication.kerberos.keytab": self._keytabs[_WEB],
            "dfs.block.access.token.enable": "true",
            "ignore.secure.ports.for.testing": "true",
        }

    def _has_name_node(self) -> bool:
        return self._told("NameNodeStatus").get("State") == "active"

    def _has_data_node(self) -> bool:
        has_room = self._told("FSNamesystemState").get("NumLiveDataNodes") == 1
        return not processes.is_free(self._data_port) and has_room and not self._told("NameNodeInfo").get("Safemode")

    def _told(self, bean: str) -> dict[str, object]:
        """Return what the name node shows of itself."""
        asked = f"http://{self.web_address}/jmx?qry=Hadoop:service=NameNode,name={bean}"
        try:
            with urllib.request.urlopen(asked, timeout=2) as answer:
                beans: list[dict[str, object]] = json.load(answer)["beans"]
        except OSError:
            return {}
        return beans[0] if beans else {}
