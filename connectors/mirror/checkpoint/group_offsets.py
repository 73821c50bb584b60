"""Writes translated offsets as those of the same groups in the target cluster (`sync.group.offsets.enabled`).

A group is only ever moved forwards, and only while it has no members there: its own commits count more.

Decided: a group with members is not asked for at all (MirrorMaker writes all the same and is refused), because a
refusal at each interval hides the errors that matter; the offsets are read when they are written, not an interval
before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from headrace.config.worker.trusted import TRUSTED
from headrace.connectors.mirror.checkpoint.emitted import EmittedCheckpoints
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups, GroupOffsets
from headrace.connectors.mirror.formats import Checkpoint
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_WITHOUT_MEMBERS: Final = (None, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
_MEMBERS_CAME: Final = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.STALE_MEMBER_EPOCH)


class GroupOffsetSync:
    """Moves the groups of a task in the target cluster."""

    def __init__(self, target: ConsumerGroups, alias: str, is_foreign: Callable[[str], bool] = lambda _: False) -> None:
        """`is_foreign`: true for groups that the connector may not move."""
        self._is_foreign = is_foreign
        self._target = target
        self._alias = alias
        self._left_alone: dict[str, str] = {}

    def sync(self, groups: Collection[str], emitted: EmittedCheckpoints) -> None:
        """Move the groups to their last checkpoints.

        Errors: RetriableError if the target cluster does not answer; StoppedError.
        """
        foreign = {group for group in groups if self._is_foreign(group)}
        for group in foreign:
            why = f"it is of another connector or of workers; {TRUSTED} of the workers may name this connector"
            self._leave_alone(group, why)
        wanted = {group: found for group in groups if group not in foreign and (found := emitted.of_group(group))}
        if not wanted:
            return
        states = self._target.states()
        active = {group: states[group] for group in wanted if states.get(group) not in _WITHOUT_MEMBERS}
        for group, state in active.items():
            self._leave_alone(group, f"it has members there (its state is {state.name})")
        idle = [group for group in wanted if group not in active]
        for group, committed in self._target.offsets(idle).items():
            if ahead := ahead_of(committed, wanted[group]):
                self._move(group, ahead)
            else:
                self._left_alone.pop(group, None)

    def _move(self, group: str, to: list[GroupOffset]) -> None:
        try:
            self._target.move(group, to)
        except KafkaException as raised:
            error = raised.args[0]
            came = error.code() in _MEMBERS_CAME
            self._leave_alone(group, "it has members there" if came else error.str())
        else:
            self._left_alone.pop(group, None)
            log.debug("Moved %d partitions of group %s in cluster %s", len(to), group, self._alias)

    def _leave_alone(self, group: str, why: str) -> None:
        """Log once why a group is not moved."""
        if self._left_alone.get(group) != why:
            log.info("The offsets of group %s are not written to cluster %s: %s", group, self._alias, why)
        self._left_alone[group] = why


def ahead_of(committed: GroupOffsets, checkpoints: Mapping[TopicPartition, Checkpoint]) -> list[GroupOffset]:
    """The offsets that a group without members is moved to: it has none there, or is behind them."""
    return [
        GroupOffset(at.topic, at.partition, checkpoint.downstream_offset, checkpoint.metadata)
        for at, checkpoint in checkpoints.items()
        if at not in committed or committed[at].offset < checkpoint.downstream_offset
    ]
