"""The replication's own record of its progress: offset syncs, checkpoints, and the offsets of its source tasks."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.connectors.mirror.formats import Checkpoint, FormatError, OffsetSync
from headrace.connectors.mirror.policy import ReplicationPolicy
from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.plugins.offsets import TopicPartition

LOCATION: Final = "offset-syncs.topic.location"


class StateError(Exception):
    """Another program writes to a topic of the replication."""


class Pair(NamedTuple):
    """The offsets of one record in both clusters."""

    upstream: int
    downstream: int


@dataclass
class ReplicationState:
    """The replication's own records; partitions are the source cluster's."""

    syncs: dict[TopicPartition, list[Pair]] = field(default_factory=dict)
    """By ascending upstream offset. A step back, by a topic or a copy made again, discards those before it."""
    checkpoints: dict[tuple[str, TopicPartition], Checkpoint] = field(default_factory=dict)
    """By group and partition of the target cluster."""
    stored: dict[TopicPartition, int] = field(default_factory=dict)
    """The source tasks' stored offsets: of the last record that is certainly copied."""
    missing: list[str] = field(default_factory=list)
    """Missing topics of the replication."""

    def sync_before(self, at: TopicPartition, upstream: int) -> Pair | None:
        """The newest sync at or before this upstream offset."""
        syncs = self.syncs.get(at, [])
        place = bisect_right(syncs, upstream, key=lambda pair: pair.upstream)
        return syncs[place - 1] if place else None


def read_state(
    source: ClusterReader,
    target: ClusterReader,
    policy: ReplicationPolicy,
    config: Mapping[str, str],
    offsets_topic: str,
) -> ReplicationState:
    """Read the topics of the replication from source to target.

    Errors: UnreachableError; StateError for records that are not the replication's.
    """
    state = ReplicationState()
    at_source = config.get(LOCATION, "source").strip() == "source"
    keeper, other = (source, target.alias) if at_source else (target, source.alias)

    def take_sync(key: bytes, value: bytes | None) -> None:
        if value is not None:
            sync = OffsetSync.of(key, value)
            _add(state.syncs.setdefault(TopicPartition(sync.topic, sync.partition), []), sync)

    def take_checkpoint(key: bytes, value: bytes | None) -> None:
        if value is not None:
            one = Checkpoint.of(key, value)
            state.checkpoints[one.group, TopicPartition(one.topic, one.partition)] = one

    def take_stored(key: bytes, value: bytes | None) -> None:
        partition = json.loads(key)[1]
        if isinstance(partition, dict) and partition.get("cluster") == source.alias and "topic" in partition:
            at = TopicPartition(str(partition["topic"]), int(partition["partition"]))
            if value is not None:
                state.stored[at] = int(json.loads(value)["offset"])
            else:
                state.stored.pop(at, None)

    _read(keeper, policy.offset_syncs_topic(other), state, take_sync)
    _read(target, policy.checkpoints_topic(source.alias), state, take_checkpoint)
    _read(target, offsets_topic, state, take_stored)
    return state


def _add(syncs: list[Pair], sync: OffsetSync) -> None:
    pair = Pair(sync.upstream_offset, sync.downstream_offset)
    if syncs and (pair.upstream < syncs[-1].upstream or pair.downstream < syncs[-1].downstream):
        syncs.clear()
    syncs.append(pair)


def _read(
    cluster: ClusterReader, topic: str, state: ReplicationState, take: Callable[[bytes, bytes | None], None]
) -> None:
    """Take every record of a topic of the replication, partition after partition in order."""
    count = cluster.topics().get(topic)
    if count is None:
        state.missing.append(f"{topic} ({cluster.alias})")
        return
    for at, batch in cluster.read(cluster.ranges([TopicPartition(topic, number) for number in range(count)])):
        for offset, key, value in zip(*(batch[name].to_pylist() for name in ("offset", "key", "value")), strict=True):
            try:
                if key is not None:
                    take(key, value)
            except (FormatError, ValueError, LookupError, TypeError) as e:
                where = f"{at} of cluster {cluster.alias} at offset {offset}"
                raise StateError(f"the record in {where} is not the replication's: {e}") from e
