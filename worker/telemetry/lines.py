"""Metrics as lines for StatsD and for Graphite's plain text, under one path for each series.

    <prefix>.<name as in GET /metrics>.<values of its labels, by the labels' names>

    connect.kafka_connect_sink_task_sink_record_lag.orders.0

Totals are sent as they stand, as gauges, so that a lost packet loses nothing. What shows a state as a label is left
out, as such a gauge would stay there when the state has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.worker.telemetry.numbers import Column

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_PACKET_BYTES: Final = 1_400
"""A datagram that passes any link in one piece."""


def path(prefix: str, name: str, labels: Mapping[str, str]) -> str:
    """Return the path of a series; other characters of labels are shown as %XX, so that no two series share one."""
    return ".".join([*filter(None, [prefix]), name, *(_segment(value) for _, value in sorted(labels.items()))])


def graphite(columns: Iterable[Column], prefix: str, at_s: int) -> Iterator[str]:
    """Yield the lines for Graphite, each with its line break."""
    for column in columns:
        for labels, value in column.numbers():
            yield f"{path(prefix, column.name, labels)} {value:.15g} {at_s}\n"


def statsd(columns: Iterable[Column], prefix: str) -> Iterator[str]:
    """Yield the lines for StatsD; a negative gauge is set to 0 first, as its sign would mean a change."""
    for column in columns:
        for labels, value in column.numbers():
            where = path(prefix, column.name, labels)
            before = f"{where}:0|g\n" if value < 0 else ""
            yield f"{before}{where}:{value:.15g}|g"


def packets(lines: Iterable[str], most: int = _PACKET_BYTES) -> Iterator[bytes]:
    """Yield the lines together in datagrams; one that is too long stands alone."""
    packet = b""
    for line in lines:
        data = line.encode()
        if packet and len(packet) + 1 + len(data) > most:
            yield packet
            packet = b""
        packet = packet + b"\n" + data if packet else data
    if packet:
        yield packet


def _segment(value: str) -> str:
    return _OTHER.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(errors="replace")), value) or "%"
