"""A real HDFS for tests: a name node and a data node as processes on free loopback ports, with WebHDFS on.

The classes are those of Hadoop's mini cluster, which is one jar beside the client that pyspark carries; the nodes are
processes of their own so that each can be killed and started again on its ports and data.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from headrace.plugins.interop.jvm.jars import fetch, find_java
from headrace.worker.machine import processes
from tests.held_ports import held_port
from tests.short_jvms import ONLY_C1

USER = getpass.getuser()
"""HDFS's superuser: the user that runs the name node."""

NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_START_S = 180.0
QUICK = {
    "dfs.replication": "1",
    "dfs.namenode.safemode.extension": "0",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "500",
    "dfs.client.block.write.retries": "1",
    "dfs.ls.limit": "100",
}
"""Settings of one small HDFS that wait for nothing."""
LOG4J = """
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c{1} %m%n
"""


class Node:
    """One process of HDFS, to `kill()` and `start()`."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        name: str,
        answers: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._env = env
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._answers = answers
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """True if its process lives."""
        return self._process is not None and self._process.poll() is None

    def spawn(self) -> None:
        """Start the process and wait for nothing."""
        self._process = processes.spawn(self._command, output=self._log, cwd=self._folder, env=self._env)

    def start(self) -> None:
        """Start the node and wait until it serves."""
        self.spawn()
        self.wait()

    def wait(self) -> None:
        """Wait until the node serves."""
        deadline = time.monotonic() + _START_S
        while not self._answers():
            assert self.is_running, f"it ended: {self._log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"it does not answer: {self._log.read_text()[-2000:]}"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as by `kill -9`."""
        if self._process is not None:
            processes.kill(self._process)

    def log(self) -> str:
        """All that it has said."""
        return self._log.read_text(encoding="utf-8", errors="replace")


class HdfsServer:
    """One HDFS on one data folder; its ports and data stay the same over restarts."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = QUICK) -> None:
        """`settings` of hdfs-site.xml, beside those of places and ports."""
        self._folder = folder
        self._more = settings
        self.rpc_port, self.http_port, *self._data_ports = (held_port() for _ in range(5))
        self._data_port = self._data_ports[0]
        self.name_node = Node(self._java(NAME_NODE), folder, "name-node", self._has_name_node)
        self.data_node = Node(self._java(DATA_NODE), folder, "data-node", self._has_data_node)

    @property
    def url(self) -> str:
        """For `store.url`, with `hadoop.conf.dir`."""
        return f"hdfs://127.0.0.1:{self.rpc_port}"

    @property
    def web_url(self) -> str:
        """For `store.url`, by WebHDFS."""
        return f"webhdfs://{self.web_address}"

    @property
    def web_address(self) -> str:
        """The address of WebHDFS."""
        return f"127.0.0.1:{self.http_port}"

    @property
    def conf_dir(self) -> Path:
        """For `hadoop.conf.dir`."""
        return self._folder / "conf"

    @property
    def is_running(self) -> bool:
        """True if both nodes live."""
        return self.name_node.is_running and self.data_node.is_running

    def start(self) -> None:
        """Start the nodes that do not run, and wait until files can be written."""
        if not self.conf_dir.exists():
            self._format()
        stopped = [node for node in (self.name_node, self.data_node) if not node.is_running]
        for node in stopped:
            node.spawn()
        for node in (self.name_node, self.data_node):
            node.wait()

    def stop(self) -> None:
        """End both nodes; what they stored stays."""
        self.data_node.kill()
        self.name_node.kill()

    def admin(self, *arguments: str) -> str:
        """Run `hdfs dfsadmin`; what it printed."""
        return run([*self._java(_ADMIN), *arguments], self._folder)

    def _java(self, main: str) -> list[str]:
        return java(self.conf_dir, main)

    def _format(self) -> None:
        write_conf(self.conf_dir, self._core_settings(), self._settings())
        run([*self._java(NAME_NODE), "-format", "-nonInteractive"], self._folder)

    def _core_settings(self) -> dict[str, str]:
        return {"fs.defaultFS": self.url, "fs.trash.interval": "0"}

    def _settings(self) -> dict[str, str]:
        data, data_http, data_ipc = self._data_ports
        return {
            "dfs.namenode.name.dir": str(self._folder / "name"),
            "dfs.datanode.data.dir": str(self._folder / "data"),
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.http_port}",
            "dfs.datanode.address": f"127.0.0.1:{data}",
            "dfs.datanode.http.address": f"127.0.0.1:{data_http}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{data_ipc}",
            **self._more,
        }

    def _has_name_node(self) -> bool:
        return answers(self.web_address, "GET", "?op=GETFILESTATUS")

    def _has_data_node(self) -> bool:
        """True if it runs, and has told its blocks to the name node, which would send a writer to it."""
        return not processes.is_free(self._data_port) and finds_room(self.web_address) and self._has_blocks()

    def _has_blocks(self) -> bool:
        asked = f"http://{self.web_address}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
        try:
            with urllib.request.urlopen(asked, timeout=2) as answer:
                return not json.load(answer)["beans"][0]["Safemode"]
        except OSError:
            return False


def java(conf_dir: Path, main: str, *options: str) -> list[str]:
    """The command that runs a class of Hadoop's."""
    return [str(find_java().path), ONLY_C1, "-Xmx256m", *options, "-cp", _class_path(conf_dir), main]


def run(command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answers(address: str, method: str, asked: str) -> bool:
    """True if WebHDFS there does what it is asked."""
    request = urllib.request.Request(f"http://{address}/webhdfs/v1/{asked}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=2):
            return True
    except OSError:
        return False


def finds_room(address: str) -> bool:
    """True if the name node there would send a writer to a data node."""
    return answers(address, "PUT", "probe?op=CREATE&noredirect=true")


def _class_path(conf_dir: Path) -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    wanted = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "*-slf4j2-impl-*", "jcl-*", "log4j-*")
    found = sorted({path for pattern in wanted for path in jars.glob(f"{pattern}.jar")})
    return os.pathsep.join(map(str, [conf_dir, *fetch("hdfs"), *found]))


def write_conf(conf_dir: Path, core: Mapping[str, str], hdfs: Mapping[str, str]) -> None:
    """Make this Hadoop's folder of configuration."""
    conf_dir.mkdir(parents=True)
    (conf_dir / "log4j2.properties").write_text(LOG4J, encoding="ascii")
    write_settings(conf_dir / "core-site.xml", core)
    write_settings(conf_dir / "hdfs-site.xml", hdfs)


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{rows}</configuration>\n", encoding="utf-8")
