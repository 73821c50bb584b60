"""How long checkpoints were on their way, by MirrorMaker's name as Strimzi's dashboard has it.

Each group and partition has its own, where MirrorMaker mixes those of all groups.
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
    """From the look at a group's offsets to the checkpoint in Kafka; any thread may call."""

    def __init__(self, source: str, target: str) -> None:
        """The aliases of the clusters."""
        self._flow = {"source": source, "target": target}
        self._lock = threading.Lock()
        self._by_place: dict[tuple[str, TopicPartition], Latency] = {}

    def written(self, checkpoints: Iterable[Checkpoint], took_ms: float) -> None:
        """These checkpoints took so long."""
        now = time.monotonic()
        with self._lock:
            for one in checkpoints:
                place = one.group, TopicPartition(one.topic, one.partition)
                self._by_place.setdefault(place, Latency(now)).record(took_ms, now)

    def samples(self) -> list[Sample]:
        """Four for each group and partition."""
        now = time.monotonic()
        with self._lock:
            return [
                sample
                for (group, at), latency in self._by_place.items()
                for sample in latency.samples(
                    _NAME, {**self._flow, "group": group, "topic": at.topic, "partition": str(at.partition)}, now
                )
            ]
