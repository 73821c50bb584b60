"""Counts connections and bytes of this process's Kafka clients, from librdkafka's statistics.

A client with these `settings` reports every ten seconds if it is polled; one that nobody polls would keep every report
for ever. Each report also checks the client's known brokers (`known_brokers.py`). The figures live until `end`, or as
long as the client. If several clients share an id, a client's bytes count as long as any of them lives, because a total
that decreases would look like a reset.

Decided: the report's JSON is only searched for these figures, because it describes every partition and broker: 20 kB
for an idle sink of 8 partitions, and parsing would be most of the cost; loses: nothing while librdkafka puts the totals
after everything else; a test notices if it does not.

Source: librdkafka's STATISTICS.md.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from headrace.plugins.interop.kafka.known_brokers import CHECK_EVERY_S, KnownBrokers

Kind = Literal["producer", "consumer", "admin-client"]
KINDS: Final[tuple[Kind, ...]] = ("producer", "consumer", "admin-client")

INTERVAL_MS: Final = int(CHECK_EVERY_S * 1000)
_CONNECTED: Final = '"state":"UP"'


class Traffic(NamedTuple):
    """Traffic of the clients of one kind and id."""

    connections: int
    """Number of connected brokers."""
    sent: int
    """Bytes sent, in requests of every kind."""
    received: int


_NONE: Final = Traffic(0, 0, 0)


@dataclass
class _Figures:
    """Last figures of a client; they outlive it."""

    traffic: Traffic = _NONE
    has_ended: bool = False

    def end(self) -> None:
        self.has_ended = True


class ClientStatistics:
    """Figures of one client; called with each report, as librdkafka's `stats_cb`."""

    def __init__(self, kind: Kind, config: Mapping[str, Any]) -> None:
        """Register the figures; `config` is the client's, for librdkafka."""
        self.kind = kind
        self.client_id: str = config.get("client.id", "rdkafka")
        self._config = config
        self._brokers: KnownBrokers | None = None
        self._figures = _Figures()
        # The finalizer may run whenever memory is freed, also under the lock.
        self._finalizer = weakref.finalize(self, self._figures.end)
        self._finalizer.atexit = False
        with _lock:
            _together(kind, self.client_id)  # otherwise ended clients would accumulate if nobody scrapes
            _clients.setdefault((kind, self.client_id), []).append(self._figures)

    def settings(self) -> dict[str, Any]:
        """Return the settings to add to the client's config for confluent-kafka."""
        return {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self}

    def watch(self, client: Any) -> None:
        """Watch the known brokers of confluent-kafka's client, which must be alive whenever a report comes."""
        self._brokers = KnownBrokers.of(client, self._config)

    @property
    def is_cut_off(self) -> bool:
        """True if the last report shows no connection; False before the first one."""
        return self._figures.traffic is not _NONE and not self._figures.traffic.connections

    def end(self) -> None:
        """Mark the client as closed, although something may still refer to it."""
        self._finalizer()

    def __call__(self, report: str) -> None:
        """Take the figures from a report."""
        # Searched from the end, because the client id, at the beginning, may be any text.
        topics = report.rindex('"topics":')
        connections = report.count(_CONNECTED, report.rindex('"brokers":', 0, topics), topics)
        self._figures.traffic = Traffic(connections, _last(report, "tx_bytes"), _last(report, "rx_bytes"))
        if self._brokers is not None:
            self._brokers.check()


_clients: Final[dict[tuple[Kind, str], list[_Figures]]] = {}
_lock: Final = threading.Lock()


def traffic(kind: Kind) -> dict[str, Traffic]:
    """Return the traffic of a kind's clients by client id, summed over clients that share an id."""
    with _lock:
        found = {client_id: _together(kind, client_id) for one, client_id in list(_clients) if one == kind}
    return {client_id: together for client_id, together in found.items() if together is not None}


def _together(kind: Kind, client_id: str) -> Traffic | None:
    """Sum the traffic of an id's clients, with the bytes of ended ones; if none lives, forget all and return None.

    The caller holds the lock.
    """
    live: list[_Figures] = []
    ended: list[_Figures] = []
    for one in _clients.pop((kind, client_id), ()):
        (ended if one.has_ended else live).append(one)
    if not live:
        return None
    gone = _sum(one.traffic for one in ended)._replace(connections=0)
    _clients[kind, client_id] = [*live, *([_Figures(gone, has_ended=True)] if ended else ())]
    return _sum([gone, *(one.traffic for one in live)])


def _sum(parts: Iterable[Traffic]) -> Traffic:
    return Traffic(*map(sum, zip(_NONE, *parts, strict=True)))


def _last(report: str, name: str) -> int:
    mark = f'"{name}":'
    begin = report.rindex(mark) + len(mark)
    return int(report[begin : report.index(",", begin)])
