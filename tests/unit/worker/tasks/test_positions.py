"""The positions at which a sink task goes on, and those that are committed."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Message

from headrace.plugins.contracts import TopicPartition
from headrace.worker.tasks.positions import Positions

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def positions() -> Positions:
    return Positions("earliest")


def rows(*offsets: tuple[TopicPartition, int]) -> pa.RecordBatch:
    made = [{"topic": p.topic, "partition": p.partition, "offset": offset} for p, offset in offsets]
    return pa.RecordBatch.from_pylist(made)


def test_a_partition_of_which_nothing_is_known_starts_as_the_policy_says() -> None:
    starts = {policy: Positions(policy).start(A0) for policy in ("earliest", "latest", "error")}
    assert starts == {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END, "error": OFFSET_INVALID}
    assert Positions("latest").next(A0) is None
    own = Positions("latest", whole=["a"])
    assert (own.start(A0), own.start(B0)) == (OFFSET_BEGINNING, OFFSET_END)


def test_a_partition_is_read_anew_from_where_it_began() -> None:
    positions = Positions("latest")
    positions.began(A0, 7)
    assert (positions.start(A0), positions.read_from(A0), positions.next(A0)) == (7, 7, None)
    assert positions.uncommitted() == {}
    positions.go_on({A0: 8})
    assert positions.start(A0) == 8
    positions.give_up([A0])
    assert positions.start(A0) == OFFSET_END
    positions.began(A0, 9)
    positions.forget_topics({"a"})
    assert positions.read_from(A0) is None
    assert positions.start(A0) == OFFSET_BEGINNING, "all that is in it is new"


def test_only_what_went_on_is_committed_and_once(positions: Positions) -> None:
    positions.found_committed(A0, 5)
    assert positions.uncommitted() == {}
    positions.go_on({A0: 7, B0: 1})
    assert positions.uncommitted() == {A0: 7, B0: 1}
    positions.committed({A0: 7, B0: 1})
    assert positions.uncommitted() == {}
    positions.not_committed([A0])
    assert positions.uncommitted() == {A0: 7}


def test_gaps_are_passed_forward_only_and_only_behind_what_was_read(positions: Positions) -> None:
    positions.go_on({A0: 5})
    positions.pass_gap(A0, 9)
    positions.pass_gap(A0, 6)
    positions.pass_gap(A1, 9)
    assert (positions.next(A0), positions.next(A1)) == (9, None)


@pytest.mark.parametrize(
    ("policy", "begin", "to", "said"),
    [
        ("earliest", 5, 10, "records 5 to 9 were deleted"),
        ("latest", 5, 20, "records 5 to 9 were deleted"),
        ("earliest", 12, 12, ""),
        ("earliest", 20, 20, ""),
        ("earliest", 25, 20, "its brokers have lost records"),
    ],
)
def test_what_is_missing_is_said(policy: str, begin: int, to: int, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert Positions(policy).in_topic(A0, begin, 10, 20) == to
    assert said in caplog.text
    assert bool(said) == bool(caplog.text)


def test_nothing_is_kept_of_topics_made_again_and_partitions_given_up(positions: Positions) -> None:
    for partition in (A0, A1, B0):
        positions.found_committed(partition, 5)
    positions.forget_topics({"a"})
    assert [positions.next(partition) for partition in (A0, A1, B0)] == [None, None, 5]
    positions.go_on({A0: 5})
    assert positions.uncommitted() == {A0: 5}, "what was committed of the former topic does not count"
    positions.give_up([B0])
    assert positions.next(B0) is None


def test_rows_that_were_handled_are_left_out(positions: Positions) -> None:
    positions.go_on({A0: 3, A1: 0})
    given = positions.not_handled(rows((A0, 2), (A1, 2), (A0, 3), (B0, 0)))
    assert given.equals(rows((A1, 2), (A0, 3), (B0, 0)))
    assert positions.not_handled(rows((A0, 1), (A0, 2))).num_rows == 0
    assert positions.not_handled(rows((A0, 2), (A0, 3))).equals(rows((A0, 3)))
    assert positions.not_handled(rows((A0, 2))).num_rows == 0
    assert positions.not_handled(rows((A0, 3))).num_rows == 1
    positions.go_on({A1: 9})
    assert positions.not_handled(rows((A0, 1), (A1, 9))).equals(rows((A1, 9)))
    assert positions.not_handled(rows((A0, 1), (A1, 8), (A0, 3))).equals(rows((A0, 3)))


def test_of_a_few_messages_those_that_were_handled_are_left_out(positions: Positions) -> None:
    positions.go_on({A0: 3, A1: 0})
    given = [Message(topic=p.topic, partition=p.partition, offset=at) for p, at in ((A0, 2), (A1, 2), (A0, 3), (B0, 0))]
    assert positions.new_of(given) == given[1:]
    assert positions.new_of(given[:1]) == []


def test_what_the_outside_system_knows_counts_where_it_is_further(positions: Positions) -> None:
    positions.found_committed(A0, 10)
    positions.found_committed(A1, 10)
    positions.go_on_at_least({A0: 12, A1: 7, B0: 3})
    assert (positions.next(A0), positions.next(A1), positions.next(B0)) == (12, 10, 3)
    assert positions.uncommitted() == {A0: 12, B0: 3}
