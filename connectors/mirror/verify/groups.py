"""Consumer groups: the place of each in the target cluster, or the reason why it is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.connectors.mirror.filters import NameFilter
from headrace.connectors.mirror.formats import Checkpoint
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.state import ReplicationState
from headrace.plugins.offsets import TopicPartition


@dataclass
class GroupPosition:
    """A consumer group's place in one partition."""

    group: str
    partition: TopicPartition
    """At the source."""
    committed: int
    """The group's offset at the source."""
    end: int
    """The end of the partition at the source."""
    translated: int | None = None
    """The offset at the target in the newest checkpoint."""
    translated_from: int | None = None
    """The group's offset at the source when that checkpoint was made."""
    at_target: int | None = None
    """The group's offset at the target."""
    redelivered: int | None = None
    """About so many records would come again if the group moved to the target now."""
    why: list[str] = field(default_factory=list)
    """The reasons why its place there is not right; none if it is."""
    notes: list[str] = field(default_factory=list)
    """News for an operator that are no fault."""


@dataclass(frozen=True)
class GroupRules:
    """The flow's settings for groups."""

    filter: NameFilter
    synced: bool
    """`sync.group.offsets.enabled`: offsets are written at the target too."""
    checkpoints: bool
    """`emit.checkpoints.enabled`."""


def place_group(
    place: GroupPosition,
    downstream: TopicPartition,
    target_range: OffsetRange | None,
    state: ReplicationState,
    rules: GroupRules,
    active_at_target: bool,
) -> GroupPosition:
    """Fill in the group's place at the target and the remarks on it; `at_target` is filled in already."""
    checkpoint = state.checkpoints.get((place.group, downstream))
    if not rules.filter.passes(place.group):
        place.why.append("it is not in the filter: see groups and groups.exclude")
    elif checkpoint is None:
        place.why.append(_no_checkpoint(place, state, rules))
    if checkpoint is not None:
        place.translated = checkpoint.downstream_offset
        place.translated_from = checkpoint.upstream_offset
    if target_range is not None:
        _look_at_target(place, target_range, rules, active_at_target, checkpoint)
        _expect_redelivery(place, target_range, state)
    return place


def _no_checkpoint(place: GroupPosition, state: ReplicationState, rules: GroupRules) -> str:
    if not rules.checkpoints:
        return "there are no checkpoints: emit.checkpoints.enabled is false"
    syncs = state.syncs.get(place.partition)
    if not syncs:
        return "no checkpoint yet: the partition has no offset sync, so nothing of it was copied or none is emitted"
    if place.committed < syncs[0].upstream:
        return (
            f"no checkpoint: the group stands before the oldest offset sync that is left ({syncs[0].upstream}); it is "
            "translated once it commits an offset after that"
        )
    return "no checkpoint yet: it comes with the next round (emit.checkpoints.interval.seconds)"


def _look_at_target(
    place: GroupPosition, target_range: OffsetRange, rules: GroupRules, active: bool, checkpoint: Checkpoint | None
) -> None:
    if place.at_target is not None and place.at_target > target_range.end:
        place.why.append(
            f"its offset at the target is {place.at_target}, after the end of the partition ({target_range.end}): its "
            "lag is negative, and a consumer would start as auto.offset.reset says"
        )
    if checkpoint is None:
        return
    if checkpoint.upstream_offset < place.committed:
        place.notes.append(
            f"the checkpoint was made at upstream offset {checkpoint.upstream_offset}: "
            f"{place.committed - checkpoint.upstream_offset} behind the group"
        )
    if not rules.synced:
        place.notes.append("sync.group.offsets.enabled is false: the consumer has to translate its offsets itself")
    elif active:
        place.notes.append("the group is active at the target, so its offsets there are its own and are not written")
    elif place.at_target is None:
        place.why.append("its offset is not written at the target yet (sync.group.offsets.interval.seconds)")
    elif place.at_target < checkpoint.downstream_offset:
        place.why.append(f"its offset at the target, {place.at_target}, is behind the checkpoint's")
    elif place.at_target > checkpoint.downstream_offset:
        place.notes.append("its offset at the target is ahead of the checkpoint's, and offsets only go forward")


def _expect_redelivery(place: GroupPosition, target_range: OffsetRange, state: ReplicationState) -> None:
    """Count the records between the group's start at the target and its true place, by the nearest offset sync."""
    starts = place.translated if place.at_target is None else place.at_target
    if starts is None:
        return
    sync = state.sync_before(place.partition, place.committed)
    if sync is None:
        return
    exact = min(sync.downstream + (place.committed - sync.upstream), target_range.end)
    place.redelivered = max(0, exact - max(starts, target_range.start))
    if starts > exact and exact < target_range.end and not place.notes:
        place.notes.append("at the target it has gone on beyond its place at the source")


def offsets_of_interest(
    committed: Mapping[str, Mapping[TopicPartition, int]], partitions: Mapping[TopicPartition, TopicPartition]
) -> dict[str, dict[TopicPartition, int]]:
    """The groups that have offsets of replicated partitions, with those alone."""
    kept = {group: {at: one for at, one in offsets.items() if at in partitions} for group, offsets in committed.items()}
    return {group: offsets for group, offsets in kept.items() if offsets}
