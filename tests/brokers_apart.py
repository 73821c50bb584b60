"""Brokers without a controller of their own, and one that is fenced for its silence.

with fenced_broker(folder) as broker:
    with broker.silent():      # it says nothing; its connections stay open
        ...
    # its controller has fenced it, and it goes on
"""

from __future__ import annotations

import base64
import contextlib
import signal
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import javaproperties

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.worker_process import eventually

_FENCED: Final = "Fencing broker"


class BrokerApart(Broker):
    """A broker of the cluster of another one, whose controller it has."""

    node: Final = 2

    def __init__(self, data_dir: Path, first: Broker) -> None:
        super().__init__(data_dir)
        self.first = first

    def _write_configs(self, port: int) -> None:
        super()._write_configs(port)
        meta = self.data_dir / "data" / "meta.properties"
        if not meta.exists():
            cluster = _read(self.first.data_dir / "data" / "meta.properties")["cluster.id"]
            folder = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            meta.parent.mkdir()
            meta.write_text(f"version=1\nnode.id={self.node}\ncluster.id={cluster}\ndirectory.id={folder}\n")
        voters = _read(self.first.data_dir / "server.properties")["controller.quorum.voters"]
        own = {"process.roles": "broker", "node.id": str(self.node), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        _change(self.data_dir / "server.properties", {**own, "controller.quorum.voters": voters})


class Controller(Broker):
    """A controller that is no broker."""

    def _write_configs(self, port: int) -> None:
        super()._write_configs(port)
        own = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
        own |= {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
        _change(self.data_dir / "server.properties", own, without="advertised.listeners")

    def _answers(self, port: int) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
            return True
        return False


class FencedBroker(BrokerApart):
    """The only broker of a cluster, whose controller goes on while it stands still."""

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Stop it, and let it go on once its controller has fenced it and the body has ended."""
        said = self.first.log_file.stat().st_size
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
            eventually(lambda: _FENCED in self.first.log_file.read_text()[said:], 60, self.first.log_end)
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def fenced_broker(folder: Path) -> Iterator[FencedBroker]:
    """A broker that can be fenced, which runs with its controller as long as the body."""
    with Controller(folder / "controller") as controller:
        broker = FencedBroker(folder / "broker", controller)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()  # an orderly stop would take its time


def _read(path: Path) -> dict[str, str]:
    return dict(javaproperties.loads(path.read_bytes()))


def _change(path: Path, own: Mapping[str, str], without: str = "") -> None:
    properties = {key: value for key, value in {**_read(path), **own}.items() if key != without}
    path.write_text(javaproperties.dumps(properties, timestamp=False), encoding="ascii")
