"""Record batches: what their headers say, and stamped anew; kafka-python's own reader tells what is in them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.copy import compression
from headrace.connectors.mirror.copy.batches import CorruptBatch, RecordBatch, batches_in
from headrace.connectors.mirror.copy.compression import Codec, codec_of

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20


def built(base: int, values: list[bytes | None], codec: int = 0, **header: int) -> bytearray:
    """A batch as a broker keeps it; `header` overwrites its fields."""
    builder = DefaultRecordBatchBuilder(2, codec, False, 77, 3, 500, 1 << 20)
    for number, value in enumerate(values):
        builder.append(number, 1_700_000_000_000 + number, b"k", value, [("h", b"1"), ("h", None)])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">i", data, 12, 9)
    if "attributes" in header:
        struct.pack_into(">h", data, 21, header["attributes"])
    if "last" in header:
        struct.pack_into(">i", data, 23, header["last"] - base)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return data


def one(data: bytes | bytearray) -> RecordBatch:
    (batch,) = batches_in(memoryview(data))
    return batch


def records(data: bytes | bytearray) -> list[Any]:
    read = DefaultRecordBatch(bytes(data))
    assert read.validate_crc()
    return [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in read]


def test_the_batches_of_an_answer_are_found_and_a_part_of_one_is_left_out() -> None:
    answer = built(5, [b"a", b"b"]) + built(7, [b"c"])
    first, second = batches_in(memoryview(answer + built(8, [b"d"])[:40]))
    assert (first.base, first.last, first.count, first.producer_id) == (5, 6, 2, 77)
    assert (second.base, second.last, second.count) == (7, 7, 1)
    assert first.max_timestamp == 1_700_000_000_001


def test_a_stamped_batch_has_the_same_records_from_offset_0_on_and_another_producer() -> None:
    data = built(5, [b"a", None, b""], attributes=TRANSACTIONAL)
    stamped = b"".join(one(data).stamped(4242, 1, 17))
    (made,) = batches_in(memoryview(stamped))
    assert [record[1:] for record in records(stamped)] == [record[1:] for record in records(data)]
    assert [record[0] for record in records(stamped)] == [0, 1, 2]
    assert (made.producer_id, made.is_transactional) == (4242, False)
    assert struct.unpack_from(">hi", stamped, 51) == (1, 17)


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4", "none"])
def test_another_compression_leaves_the_records_as_they_are(name: str) -> None:
    values: list[bytes | None] = [b"x" * 500, b"y" * 500, None]
    data = built(0, values)
    codec = codec_of(ClientConfig("producer", {"bootstrap.servers": "a:1", "compression.type": name}))
    assert codec is not None
    stamped = b"".join(one(data).stamped(1, 0, 0, codec))
    assert one(stamped).codec == codec.number
    back = b"".join(one(stamped).stamped(1, 0, 0, Codec(0)))
    assert [record[1:] for record in records(back)] == [record[1:] for record in records(data)]
    assert (len(stamped) < len(data)) == (name != "none")


def test_a_batch_that_is_too_large_once_decompressed_keeps_its_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = built(0, [b"x" * 3_000_000])
    data = b"".join(one(plain).stamped(1, 0, 0, Codec(1)))
    assert len(b"".join(one(data).stamped(1, 0, 0, Codec(0)))) == len(plain)
    monkeypatch.setattr(compression, "MOST_BYTES", 2_000_000)
    kept = b"".join(one(data).stamped(1, 0, 0, Codec(0)))
    assert (one(kept).codec, records(kept)) == (1, records(data))


def test_compression_is_kept_where_the_producer_names_none() -> None:
    assert codec_of(ClientConfig("producer", {"bootstrap.servers": "a:1"})) is None


def test_a_broken_batch_is_not_passed_on_with_a_new_checksum() -> None:
    data = built(0, [b"a" * 100])
    data[-3] ^= 1
    with pytest.raises(CorruptBatch, match="offset 0"):
        one(data).stamped(1, 0, 0)


@pytest.mark.parametrize(
    ("data", "position", "why"),
    [
        (built(5, [b"a", b"b"]), 5, None),
        (built(5, [b"a", b"b"]), 3, None),
        (built(5, [b"a", b"b"]), 6, "begins before"),
        (built(5, [b"a", b"b"], last=9), 5, "compaction"),
        (built(5, [b"a"], attributes=LOG_APPEND_TIME), 5, "broker's"),
        (built(5, [b"a"], attributes=TRANSACTIONAL), 5, None),
    ],
)
def test_what_cannot_be_copied_as_it_is(data: bytes, position: int, why: str | None) -> None:
    found = one(data).why_not_whole(position)
    assert found is None if why is None else found is not None and why in found


def test_an_older_format_is_no_whole_batch() -> None:
    old = struct.pack(">qiIb", 3, 5, 0, 1)
    assert "format is 1" in (one(old).why_not_whole(3) or "")


@pytest.mark.parametrize(("kind", "aborted"), [(0, True), (1, False)])
def test_a_control_batch_tells_how_its_transaction_ended(kind: int, aborted: bool) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, True, 7, 0, -1, 1 << 20)
    builder.append(0, 1_700_000_000_000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 1), [])
    data = bytearray(builder.build())
    struct.pack_into(">h", data, 21, CONTROL | TRANSACTIONAL)
    assert (one(data).is_control, one(data).ends_aborted) == (True, aborted)
