"""The state of a partition that is copied: rests, stretches that are read record by record, ranges."""

from __future__ import annotations

from headrace.connectors.mirror.copy.batches import batches_in
from headrace.connectors.mirror.copy.fetching import PartitionFetch
from headrace.connectors.mirror.source.partitions import MirroredPartition
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.mirror.copy.test_batches import built


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def partition(*batches: bytearray, end: int, begin: int = 0) -> tuple[MirroredPartition, Clock]:
    fetch, clock = PartitionFetch(TopicPartition("t", 1), begin), Clock()
    for data in batches:
        (batch,) = batches_in(memoryview(data))
        fetch.waiting.append(batch)
        fetch.waiting_bytes += len(data)
        fetch.position = batch.last + 1
    fetch.end = end
    return MirroredPartition(fetch, TopicPartition("A.t", 1), clock), clock


def test_it_rests_longer_with_each_failure_and_not_at_all_after_a_success() -> None:
    one, clock = partition(built(0, [b"a"]), end=1)
    pauses = []
    for _ in range(3):
        one.failed()
        assert not one.is_awake
        began = clock.now
        while not one.is_awake:
            clock.now += 0.1
        pauses.append(clock.now - began)
    assert pauses[0] < pauses[1] < pauses[2]
    one.reached(0, by_records=False)
    assert one.is_awake
    one.failed()
    clock.now += pauses[0]
    assert one.is_awake


def test_a_share_of_the_backlog_is_planned_but_all_that_waits() -> None:
    one, _ = partition(built(0, [b"a", b"b"]), end=1000)
    assert one.range(1.0, as_records=False)[2:4] == (-1, 999)
    assert one.range(0.5, as_records=False)[2:4] == (-1, 499)
    assert one.range(0.0, as_records=False)[2:4] == (-1, 1)


def test_what_compaction_thinned_out_is_read_by_records_for_a_growing_stretch() -> None:
    one, _ = partition(built(0, [b"a", b"b"], last=9), end=100_000)
    assert one.goes_by_records()
    first = one.range(1.0, as_records=True)
    assert 9 <= first.upto < 99_999
    one.reached(first.upto, by_records=True)
    assert one.fetch.position == first.upto + 1
    assert not one.goes_by_records(), "copying is tried again"
    one.not_whole()
    assert one.goes_by_records()
    second = one.range(1.0, as_records=True)
    assert second.upto - second.after > first.upto - first.after


def test_a_backlog_of_tiny_batches_is_read_by_records() -> None:
    few, _ = partition(*(built(number, [b"a"]) for number in range(10)), end=100_000)
    many, _ = partition(*(built(number, [b"a"]) for number in range(100)), end=100_000)
    large, _ = partition(*(built(number, [b"a" * 5000]) for number in range(100)), end=100_000)
    soon_done, _ = partition(*(built(number, [b"a"]) for number in range(100)), end=100)
    assert [one.goes_by_records() for one in (few, many, large, soon_done)] == [False, True, False, False]


def test_what_comes_after_a_stretch_of_records_is_copied_again() -> None:
    one, _ = partition(built(0, [b"a", b"b"], last=9), end=10)
    assert one.goes_by_records()
    assert one.range(1.0, as_records=True).upto == 9, "no further than the end that was known"
