"""The latencies of checkpoints, under MirrorMaker's names in Strimzi's dashboard.

Each group and partition has its own; MirrorMaker mixes those of all groups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final

from headrace.connectors.mirror.formats import Checkpoint
from headrace.connectors.mirror.metrics import Latency
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.samples import Sample

_NAME: Final = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"


class CheckpointLatencies:
    """Times from the look at a group's offsets to the checkpoint in Kafka; any thread may call."""

    def __init__(self, source: str, target: str) -> None:
        """`source`, `target`: the aliases of the clusters."""
        self._flow = {"source": source, "target": target}
        self._lock = threading.Lock()
        self._by_place: dict[tuple[str, TopicPartition], Latency] = {}

    def written(self, checkpoints: Iterable[Checkpoint], took_ms: float) -> None:
        """Record that these checkpoints took so long."""
        now = time.monotonic()
        with self._lock:
            for one in checkpoints:
                place = one.group, TopicPartition(one.topic, one.partition)
                self._by_place.setdefault(place, Latency(now)).record(took_ms, now)

    def samples(self) -> list[Sample]:
        """Four samples for each group and partition."""
        now = time.monotonic()
        with self._lock:
            return [
                sample
                for (group, at), latency in self._by_place.items()
                for sample in latency.samples(
                    _NAME, {**self._flow, "group": group, "topic": at.topic, "partition": str(at.partition)}, now
                )
            ]
