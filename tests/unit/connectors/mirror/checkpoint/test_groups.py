"""The checkpoints that are written, and the moves of groups of the target cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from headrace.connectors.mirror.checkpoint.emitted import EmittedCheckpoints
from headrace.connectors.mirror.checkpoint.group_offsets import GroupOffsetSync
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups, GroupOffsets
from headrace.connectors.mirror.formats import Checkpoint
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import TopicPartition


def checkpoint(upstream: int, downstream: int, partition: int = 0, group: str = "g") -> Checkpoint:
    return Checkpoint(group, "A.t", partition, upstream, downstream, "m")


@pytest.mark.parametrize(
    ("upstream", "downstream", "news"),
    [
        (10, 10, False),  # again
        (20, 10, False),  # the group went on, its translation did not
        (20, 9, False),  # coarser than before: not backwards
        (20, 11, True),
        (9, 3, True),  # the group itself was moved back
        (9, 12, True),
    ],
)
def test_a_checkpoint_is_written_where_a_group_went_on_or_was_moved_back(
    upstream: int, downstream: int, news: bool
) -> None:
    emitted = EmittedCheckpoints(["g"])
    assert emitted.is_news(checkpoint(10, 10))
    emitted.add(checkpoint(10, 10))
    assert emitted.is_news(checkpoint(upstream, downstream)) is news
    assert emitted.is_news(checkpoint(0, 0, partition=1))


def test_checkpoints_of_other_tasks_groups_are_left_out() -> None:
    emitted = EmittedCheckpoints(["g"])
    emitted.add(checkpoint(1, 1, group="other"))
    assert emitted.of_group("g") == {}


class Target(ConsumerGroups):
    """The groups of a cluster that is not there."""

    def __init__(self) -> None:
        self.at: dict[str, dict[int, int]] = {}
        self.state: dict[str, ConsumerGroupState] = {}
        self.error: int | None = None
        self.moves: list[tuple[str, dict[int, int]]] = []

    def states(self) -> dict[str, ConsumerGroupState]:
        return self.state

    def offsets(self, groups: Iterable[str]) -> dict[str, GroupOffsets]:
        return {
            group: {
                TopicPartition("A.t", number): GroupOffset("A.t", number, offset)
                for number, offset in self.at.get(group, {}).items()
            }
            for group in groups
        }

    def move(self, group: str, to: Sequence[GroupOffset]) -> None:
        if self.error is not None:
            raise KafkaException(KafkaError(self.error))
        assert {one.metadata for one in to} == {"m"}
        self.moves.append((group, {one.partition: one.offset for one in to}))


@pytest.fixture
def emitted() -> EmittedCheckpoints:
    made = EmittedCheckpoints(["g", "h", "without"])
    for one in (checkpoint(10, 10), checkpoint(20, 20, 1), checkpoint(30, 30, 2), checkpoint(5, 5, group="h")):
        made.add(one)
    return made


GROUPS = ["g", "h", "without"]


def test_groups_without_members_are_moved_forwards_only(emitted: EmittedCheckpoints) -> None:
    target = Target()
    target.state, target.at = {"g": ConsumerGroupState.EMPTY}, {"g": {0: 9, 1: 20}}
    GroupOffsetSync(target, "B").sync(GROUPS, emitted)
    assert target.moves == [("g", {0: 10, 2: 30}), ("h", {0: 5})]


def test_a_group_that_no_listing_shows_is_not_moved_back(emitted: EmittedCheckpoints) -> None:
    target = Target()
    target.at = {"g": {0: 50, 1: 50, 2: 50}, "h": {0: 5}}
    GroupOffsetSync(target, "B").sync(GROUPS, emitted)
    assert target.moves == []


def test_a_group_with_members_is_left_alone_and_said_once(
    emitted: EmittedCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target()
    target.state = {"g": ConsumerGroupState.STABLE}
    sync = GroupOffsetSync(target, "B")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            sync.sync(GROUPS, emitted)
    assert {group for group, _ in target.moves} == {"h"}
    said = "The offsets of group g are not written to cluster B: it has members there (its state is STABLE)"
    assert caplog.messages == [said]
    target.state = {"g": ConsumerGroupState.EMPTY}
    sync.sync(["g"], emitted)
    assert target.moves[-1] == ("g", {0: 10, 1: 20, 2: 30})
    target.state = {"g": ConsumerGroupState.STABLE}
    with caplog.at_level(logging.INFO):
        sync.sync(["g"], emitted)
    assert caplog.messages == [said, said]


def test_groups_of_other_connectors_are_not_moved(
    emitted: EmittedCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target()
    with caplog.at_level(logging.INFO):
        GroupOffsetSync(target, "B", lambda group: group == "g").sync(GROUPS, emitted)
    assert [group for group, _ in target.moves] == ["h"]
    assert "trusted.connectors of the workers may name this connector" in caplog.text


def test_members_that_come_meanwhile_are_no_error(
    emitted: EmittedCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target()
    target.error = KafkaError.UNKNOWN_MEMBER_ID
    sync = GroupOffsetSync(target, "B")
    with caplog.at_level(logging.INFO):
        sync.sync(["g"], emitted)
        sync.sync(["g"], emitted)
    assert caplog.messages == ["The offsets of group g are not written to cluster B: it has members there"]
