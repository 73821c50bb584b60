"""A real HDFS with two name nodes for tests. One is active; they share their edits by a folder."""

from __future__ import annotations

import json
import shutil
import urllib.request
from functools import partial
from pathlib import Path

from tests.held_ports import held_port
from tests.integration.hdfs_server import DATA_NODE, NAME_NODE, QUICK, Node, finds_room, java, run, write_conf

SERVICE = "lake"
"""The name of the name service."""

_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_PROXIES = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
_NAMES = ("a", "b")


class HaHdfsServer:
    """The name service, and its data node."""

    url = f"hdfs://{SERVICE}"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.conf_dir = folder / "conf"
        """For `hadoop.conf.dir`; says where WebHDFS is."""
        self.rpc_conf_dir = folder / "rpc-conf"
        """For `hadoop.conf.dir`; knows of no WebHDFS."""
        self._web = {name: f"127.0.0.1:{held_port()}" for name in _NAMES}
        self._rpc = {name: f"127.0.0.1:{held_port()}" for name in _NAMES}
        self._nodes = {name: self._name_node(name) for name in _NAMES}
        self._data_node = Node(java(self.conf_dir, DATA_NODE), folder, "data-node", self._finds_room)
        self.active = _NAMES[0]

    @property
    def web_addresses(self) -> list[str]:
        """The addresses of WebHDFS on both name nodes."""
        return [*self._web.values()]

    def start(self) -> None:
        """Make both name nodes and start all; the first name node is active."""
        self._configure()
        run([*self._java(_NAMES[0]), "-format", "-nonInteractive"], self._folder)
        shutil.copytree(self._folder / "name-a", self._folder / "name-b")
        for node in [*self._nodes.values(), self._data_node]:
            node.spawn()
        for node in self._nodes.values():
            node.wait()
        self._activate(self.active)
        self._data_node.wait()

    def stop(self) -> None:
        """End all nodes."""
        for node in [self._data_node, *self._nodes.values()]:
            node.kill()

    def kill_active(self) -> None:
        """End the active name node as by `kill -9`; the other one stands by."""
        self._nodes[self.active].kill()

    def fail_over(self) -> None:
        """Make the other name node active, as an administrator does, and start the killed one again to stand by."""
        killed, self.active = self.active, next(name for name in _NAMES if name != self.active)
        self._nodes[killed].spawn()
        self._activate(self.active)
        self._nodes[killed].wait()

    def _name_node(self, name: str) -> Node:
        return Node(self._java(name), self._folder, f"name-node-{name}", partial(self._serves, name))

    def _java(self, name: str) -> list[str]:
        return [*java(self.conf_dir, NAME_NODE), "-D", f"dfs.ha.namenode.id={name}"]

    def _activate(self, name: str) -> None:
        run([*java(self.conf_dir, _ADMIN), "-ns", SERVICE, "-transitionToActive", "--forceactive", name], self._folder)

    def _serves(self, name: str) -> bool:
        """True if the name node is active or stands by."""
        asked = f"http://{self._web[name]}/jmx?qry=Hadoop:service=NameNode,name=NameNodeStatus"
        try:
            with urllib.request.urlopen(asked, timeout=2) as answer:
                beans = json.load(answer)["beans"]
        except OSError:
            return False
        return bool(beans) and beans[0]["State"] in ("active", "standby")

    def _finds_room(self) -> bool:
        return finds_room(self._web[self.active])

    def _configure(self) -> None:
        web = {f"dfs.namenode.http-address.{SERVICE}.{name}": address for name, address in self._web.items()}
        service = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": ",".join(_NAMES),
            f"dfs.client.failover.proxy.provider.{SERVICE}": _PROXIES,
            **{f"dfs.namenode.rpc-address.{SERVICE}.{name}": address for name, address in self._rpc.items()},
        }
        own = {
            "dfs.namenode.shared.edits.dir": (self._folder / "edits").as_uri(),
            **{f"dfs.namenode.name.dir.{SERVICE}.{name}": str(self._folder / f"name-{name}") for name in _NAMES},
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.datanode.data.dir": str(self._folder / "data"),
            **{f"dfs.datanode.{kind}address": f"127.0.0.1:{held_port()}" for kind in ("", "http.", "ipc.")},
            **QUICK,
        }
        core = {"fs.defaultFS": self.url, "fs.trash.interval": "0"}
        write_conf(self.conf_dir, core, {**service, **web, **own})
        write_conf(self.rpc_conf_dir, core, service)
