"""The age of the oldest record that waits, by clocks that a test turns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.plugins.offsets import TopicPartition
from headrace.worker.tasks.waiting_age import WaitingAge

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCH_S = 1_000_000.0


class Clocks:
    def __init__(self) -> None:
        self.now = 0.0

    def steady(self) -> float:
        return self.now

    def wall(self) -> float:
        return EPOCH_S + self.now


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def age(clocks: Clocks) -> WaitingAge:
    return WaitingAge(clocks.steady, clocks.wall)


def rows(*given: tuple[TopicPartition, float | None]) -> pa.RecordBatch:
    """Records of these partitions with these ages, in seconds at the clocks' beginning."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "timestamp": None if old is None else int((EPOCH_S - old) * 1000),
            }
            for partition, old in given
        ],
        pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("timestamp", pa.int64())]),
    )


def test_nothing_waits_for_0_seconds(age: WaitingAge) -> None:
    assert age.measure({}, are_held=False) == 0
    assert age.measure({A: 0, B: 0}, are_held=False) == 0


def test_an_old_backlog_is_as_old_as_the_last_record_that_was_taken(age: WaitingAge, clocks: Clocks) -> None:
    assert age.measure({A: 10}, are_held=False) is None
    age.took(rows((A, 7200), (A, 3600), (B, 60)))
    assert age.measure({A: 9, B: 5}, are_held=False) == 3600
    assert age.measure({A: 0, B: 5}, are_held=False) == 60
    clocks.now += 10
    assert age.measure({B: 5}, are_held=False) == 70


def test_a_record_after_a_long_silence_is_as_old_as_the_silences_end(age: WaitingAge, clocks: Clocks) -> None:
    age.took(rows((A, 0)))
    assert age.measure({A: 1}, are_held=False) == 0
    clocks.now += 3600
    assert age.measure({A: 0}, are_held=False) == 0
    clocks.now += 1
    assert age.measure({A: 1}, are_held=False) == 1


def test_old_timestamps_of_new_records_make_no_age(age: WaitingAge, clocks: Clocks) -> None:
    age.measure({A: 0}, are_held=False)
    age.took(rows((A, 1e6)))
    clocks.now += 2
    assert age.measure({A: 1}, are_held=False) == 2


def test_records_without_a_timestamp_or_of_the_future_are_not_negative(age: WaitingAge) -> None:
    age.took(rows((A, None)))
    assert age.measure({A: 1}, are_held=False) is None
    age.took(rows((A, -100)))
    assert age.measure({A: 1}, are_held=False) == 0


def test_while_the_partitions_are_held_nothing_is_known_of_new_records(age: WaitingAge, clocks: Clocks) -> None:
    age.took(rows((A, 5)))
    assert age.measure({A: 3}, are_held=True) == 5
    assert age.measure({A: 0}, are_held=True) is None
    clocks.now += 50
    age.had_all([A], 40.0)  # a job read all that was there then
    assert age.measure({A: 3}, are_held=True) == 10


def test_partitions_that_went_are_forgotten(age: WaitingAge) -> None:
    age.took(rows((A, 500)))
    age.measure({A: 1}, are_held=False)
    age.measure({B: 1}, are_held=False)
    assert age.measure({A: 1}, are_held=False) is None
