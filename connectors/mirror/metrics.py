"""The metrics of replication, by MirrorMaker's names in Strimzi's dashboard.

All are gauges, as Strimzi's rules make them of Apache's MBeans. Times come from the records whose offsets a batch
reports, not from each record.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headrace.plugins.samples import Sample, Window

_SAMPLE_S: Final = 30.0
_SAMPLES: Final = 2
_SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector"
_PLAIN: Final = re.compile(r"[\w\-%. \t]*")


class Latency:
    """Values in milliseconds: the last one, and least, greatest and average of the last minute."""

    def __init__(self, now: float) -> None:
        self._last = 0.0
        self._window = Window(_SAMPLE_S, _SAMPLES, now)

    def record(self, value: float, now: float) -> None:
        """Record a value."""
        self._last = value
        self._window.record(value, now)

    def samples(self, name: str, labels: Mapping[str, str], now: float) -> Iterator[Sample]:
        """The samples of the last value, the least, the greatest and the average."""
        window = self._window
        figures = {"_min": window.minimum(now), "_max": window.maximum(now), "_avg": window.average(now)}
        for suffix, value in {"": self._last, **figures}.items():
            yield Sample(f"{name}{suffix}", labels, value, "Units: milliseconds")


class PartitionMetrics:
    """The metrics of one partition of the target cluster; any thread may call."""

    def __init__(self, labels: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """`labels`: source, target, topic (of the target cluster), partition."""
        self._labels = labels
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()
        self._records = self._bytes = 0
        self._record_rate, self._byte_rate = Window(_SAMPLE_S, _SAMPLES, now), Window(_SAMPLE_S, _SAMPLES, now)
        self._age, self._latency = Latency(now), Latency(now)

    def copied(self, records: int, size: int, timestamp_ms: int, read_at_ms: float) -> None:
        """Record that so many records have arrived, the last with this timestamp; they were read at that time."""
        with self._lock:
            now = self._clock()
            self._records += records
            self._bytes += size
            self._record_rate.record(records, now)
            self._byte_rate.record(size, now)
            if timestamp_ms >= 0:
                self._age.record(read_at_ms - timestamp_ms, now)
                self._latency.record(time.time() * 1000 - timestamp_ms, now)

    def samples(self) -> list[Sample]:
        """The samples of all its metrics."""
        with self._lock:
            now = self._clock()
            figures = {
                "record_count": self._records,
                "record_rate": self._record_rate.rate(now),
                "byte_count": self._bytes,
                "byte_rate": self._byte_rate.rate(now),
            }
            return [
                *(
                    Sample(
                        f"{_SOURCE}_{name}", self._labels, value, "MirrorSourceConnector, by partition of the target"
                    )
                    for name, value in figures.items()
                ),
                *self._age.samples(f"{_SOURCE}_record_age_ms", self._labels, now),
                *self._latency.samples(f"{_SOURCE}_replication_latency_ms", self._labels, now),
            ]


def lag(client_id: str, topic: str, partition: int, records: int | None) -> Sample:
    """The lag of a source partition's consumer, under the name of Kafka's clients."""
    labels = {"clientid": _as_jmx(client_id), "topic": topic, "partition": str(partition)}
    return Sample("kafka_consumer_fetch_manager_records_lag", labels, math.nan if records is None else records)


def _as_jmx(value: str) -> str:
    """The value as JMX shows it: quoted unless it is a plain name; Strimzi's dashboard counts on that."""
    return value if _PLAIN.fullmatch(value) else f'"{value}"'
