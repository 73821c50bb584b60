"""What a fetched answer becomes in a lane: batches to copy, and what is passed over."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from crc32c import crc32c

from headrace.connectors.mirror.copy.fetching import Fetcher, FetchLimits, Lane
from headrace.plugins.offsets import TopicPartition
from tests.unit.connectors.mirror.copy.test_batches import CONTROL, TRANSACTIONAL, built

PARTITION = TopicPartition("t", 0)


def of_producer(data: bytearray, producer: int) -> bytearray:
    struct.pack_into(">q", data, 43, producer)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def end_of(base: int, producer: int, aborted: bool) -> bytearray:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 1 << 20)
    builder.append(0, 1, struct.pack(">hh", 0, int(not aborted)), struct.pack(">hi", 0, 1), [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">h", data, 21, CONTROL | TRANSACTIONAL)
    return data


def sorted_into(lane: Lane, data: bytes, read_committed: bool = True, aborted: list[tuple[int, int]] = []) -> Lane:  # noqa: B006
    cluster: Any = None
    part = SimpleNamespace(
        error_code=0,
        records=bytes(data),
        last_stable_offset=50,
        high_watermark=60,
        log_start_offset=0,
        aborted_transactions=[SimpleNamespace(producer_id=pid, first_offset=first) for pid, first in aborted],
    )
    Fetcher(cluster, read_committed, FetchLimits())._sort(lane, part)
    return lane


def transactional(base: int, values: list[bytes | None], producer: int) -> bytearray:
    return of_producer(built(base, values, attributes=TRANSACTIONAL), producer)


def test_aborted_records_are_passed_over_for_readers_of_committed_ones() -> None:
    data = transactional(0, [b"a"], 1) + transactional(1, [b"b"], 2) + end_of(2, 1, aborted=True)
    data += transactional(3, [b"c"], 1) + end_of(4, 2, aborted=False) + end_of(5, 1, aborted=False)
    lane = sorted_into(Lane(PARTITION, 0), data, aborted=[(1, 0)])
    assert [batch.base for batch in lane.waiting] == [1, 3], "the producer's next transaction counts"
    assert (lane.position, lane.next, lane.end) == (6, 1, 50)
    everything = sorted_into(Lane(PARTITION, 0), data, read_committed=False, aborted=[])
    assert [batch.base for batch in everything.waiting] == [0, 1, 3]
    assert everything.end == 60


def test_what_lies_before_the_position_is_left_out() -> None:
    lane = sorted_into(Lane(PARTITION, 3), built(0, [b"a", b"b"]) + built(2, [b"c", b"d"]))
    assert [(batch.base, batch.last) for batch in lane.waiting] == [(2, 3)]
    assert lane.next == 3


def test_a_lane_goes_on_where_it_is_and_begins_anew_elsewhere() -> None:
    lane = sorted_into(Lane(PARTITION, 0), built(0, [b"a"]) + end_of(1, 1, aborted=True) + built(2, [b"c"]))
    lane.take()
    lane.seek(2)
    assert [batch.base for batch in lane.waiting] == [2], "a control batch between is passed over"
    assert lane.taken == 1
    lane.seek(0)
    assert (len(lane.waiting), lane.position, lane.waiting_bytes) == (0, 0, 0)
