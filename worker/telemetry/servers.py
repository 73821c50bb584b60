"""Sends metrics to StatsD and Graphite; a server that is away costs a line in the log, and the next try."""

from __future__ import annotations

import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.metrics_output import GRAPHITE, STATSD
from headrace.worker.telemetry.lines import graphite, packets, statsd
from headrace.worker.telemetry.numbers import Column

log = logging.getLogger(__name__)

_WAIT_S: Final = 5.0


class Server(ABC):
    """A server that metrics are sent to."""

    kind: str

    def __init__(self, host: str, port: int, prefix: str) -> None:
        self.host = host
        self.port = port
        self.prefix = prefix
        self._is_away = False

    def send(self, columns: Sequence[Column]) -> None:
        """Send these samples, or log once that it cannot be done."""
        try:
            self._send(columns)
        except OSError as error:
            if not self._is_away:
                where = self.kind, self.host, self.port, error
                log.warning("Metrics cannot be sent to %s at %s:%d, and will be tried again: %s", *where)
            self._is_away = True
        else:
            if self._is_away:
                log.info("Metrics are sent to %s at %s:%d again", self.kind, self.host, self.port)
            self._is_away = False

    @abstractmethod
    def _send(self, columns: Sequence[Column]) -> None:
        """Send these samples. Errors: OSError."""


class StatsdServer(Server):
    """A StatsD server, by UDP."""

    kind = "StatsD"

    def _send(self, columns: Sequence[Column]) -> None:
        family, type_, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, type_, protocol) as udp:
            udp.connect(address)
            for packet in packets(statsd(columns, self.prefix)):
                udp.send(packet)


class GraphiteServer(Server):
    """Graphite's receiver of plain text, by TCP."""

    kind = "Graphite"

    def _send(self, columns: Sequence[Column]) -> None:
        data = "".join(graphite(columns, self.prefix, int(time.time()))).encode()
        with socket.create_connection((self.host, self.port), _WAIT_S) as tcp:
            tcp.sendall(data)


def servers_of(config: WorkerConfig) -> list[Server]:
    """The servers that a worker's settings name."""
    kinds: Sequence[tuple[str, type[Server]]] = ((STATSD, StatsdServer), (GRAPHITE, GraphiteServer))
    return [
        kind(host, config[f"{prefix}.port"], config[f"{prefix}.prefix"])
        for prefix, kind in kinds
        if (host := config[f"{prefix}.host"])
    ]
