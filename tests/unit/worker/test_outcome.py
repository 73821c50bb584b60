"""The outcomes of parts of a batch, merged."""

from __future__ import annotations

import pytest

from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition
from headrace.worker.outcome import Outcome, hold, leave_out, read_to

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def part(time: int | None, written: int, stop: Stop | None = None, topic: str = "t") -> PartitionResult:
    """A part of a split up to this time."""
    offset = None if time is None else {"timestamp": time}
    return PartitionResult(source_offset=offset, written=written, stop=stop, topics=(topic,))


def merged(*parts: PartitionResult) -> PartitionResult:
    outcome = Outcome[int]()
    for one in parts:
        outcome.add(0, one)
    return outcome.of[0]


def test_parts_of_a_split_count_up_to_the_first_that_stopped() -> None:
    done = merged(part(1, 10), part(2, 10, topic="u"), part(3, 5, Stop.RETRY), part(9, 10))
    assert done.source_offset == {"timestamp": 3}
    assert (done.written, done.stop, done.topics) == (25, Stop.RETRY, ("t", "u"))


def test_a_part_that_reached_nothing_leaves_what_was_reached_before() -> None:
    done = merged(part(1, 10), part(None, 0, Stop.FATAL), part(9, 1))
    assert (done.source_offset, done.stop, done.written) == ({"timestamp": 1}, Stop.FATAL, 10)


@pytest.mark.parametrize(
    ("uptos", "stop", "expected"),
    [
        ((5, 9), None, 9),
        ((9, 5), None, 9),  # a slow record that was refused last
        ((9, 5), Stop.FATAL, 5),
        ((9, None), Stop.FATAL, 9),
        ((None, 5), None, 5),
    ],
)
def test_a_partition_goes_back_only_to_where_it_stopped(
    uptos: tuple[int | None, int | None], stop: Stop | None, expected: int
) -> None:
    first, last = uptos
    done = merged(PartitionResult(P0, first, written=2), PartitionResult(P0, last, bad=1, stop=stop))
    assert (done.upto, done.rows, done.stop) == (expected, 3, stop)


def test_parts_of_several_keys_are_apart() -> None:
    outcome = Outcome({P0: PartitionResult(P0, 1, written=2)})
    outcome.add(P1, PartitionResult(P1, 7, written=1, stop=Stop.UNKNOWN))
    assert (outcome.rows, outcome.stops) == (3, {Stop.UNKNOWN})
    assert [one.partition for one in outcome] == [P0, P1]


def test_partitions_that_did_not_stop_were_read_to_their_ends() -> None:
    outcome = Outcome({P0: PartitionResult(P0, 3, stop=Stop.UNKNOWN)})
    read_to(outcome, {P0: 10, P1: 20})
    assert [one.upto for one in outcome] == [3, 19]


def test_nothing_counts_from_the_first_row_on_that_is_held() -> None:
    outcome = Outcome({P0: PartitionResult(P0, 9, written=10)})
    hold(outcome, {P0: 4, P1: 7})
    assert [(one.partition, one.upto) for one in outcome] == [(P0, 3), (P1, 6)]


def test_rows_that_the_sink_left_out_are_not_written() -> None:
    outcome = Outcome({P0: PartitionResult(P0, 9, written=3, dropped=1)})
    leave_out(outcome, {P0: 2, P1: 5})
    assert [(one.written, one.dropped) for one in outcome] == [(1, 3)]
