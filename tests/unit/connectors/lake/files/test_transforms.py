"""Partition transforms, by the values of Iceberg's specification."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.murmur import hash_bytes, hash_longs
from headrace.connectors.lake.iceberg.files.partitions import Partitioning, json_value
from headrace.connectors.lake.iceberg.files.transforms import storage, transform
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import PartitionField, PartitionSpec

MOST = 0x7FFFFFFF
MOMENT = dt.datetime(2017, 11, 16, 22, 31, 8)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
US, UTC, DATE = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()
ID = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
IDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes], pa.binary(16)))


def made(text: str, values: list[Any], kind: pa.DataType) -> list[Any]:
    found: list[Any] = transform(text, "p")(pa.array(values, kind)).to_pylist()
    return found


@pytest.mark.parametrize(
    ("kind", "value", "hashed"),
    [
        (pa.int32(), 34, 2017239379),
        (pa.int64(), 34, 2017239379),
        (pa.decimal128(9, 2), Decimal("14.20"), -500754589),
        (pa.decimal128(38, 2), Decimal("14.20"), -500754589),
        (DATE, MOMENT.date(), -653330422),
        (pa.time64("us"), MOMENT.time(), -662762989),
        (US, MOMENT, -2047944441),
        (UTC, MOMENT, -2047944441),
        (pa.timestamp("ns"), MOMENT, -2047944441),
        (pa.string(), "iceberg", 1210000089),
        (pa.binary(), b"\0\1\2\3", -188683207),
        (pa.binary(4), b"\0\1\2\3", -188683207),
    ],
)
def test_buckets_are_those_of_the_specification(kind: pa.DataType, value: Any, hashed: int) -> None:
    assert made(f"bucket[{MOST}]", [value, None, value], kind) == [(hashed & MOST) % MOST, None, (hashed & MOST) % MOST]
    assert made("bucket[16]", [value], kind) == [(hashed & MOST) % 16]


def test_a_bucket_of_a_uuid() -> None:
    assert transform(f"bucket[{MOST}]", "p")(IDS).to_pylist() == [1488055340]


def plain_murmur(data: bytes) -> int:
    """Murmur3 in its simplest form."""
    mask, made = 0xFFFFFFFF, 0

    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (32 - bits)) & mask

    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little")
        made ^= rotated(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        if at + 4 <= len(data):
            made = (rotated(made, 13) * 5 + 0xE6546B64) & mask
    made ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        made = (made ^ made >> shift) * factor & mask
    return made - (1 << 32) if made >> 31 else made


def test_murmur_of_many_lengths() -> None:
    texts = [bytes((number * 7 + at) % 256 for at in range(number)) for number in range(70)]
    array = pa.array(texts)
    hashes = hash_bytes(np.frombuffer(array.buffers()[2], np.uint8), np.frombuffer(array.buffers()[1], np.int32))
    assert hashes.tolist() == [plain_murmur(text) for text in texts]
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63)])
    assert hash_longs(numbers).tolist() == [
        plain_murmur(int(one).to_bytes(8, "little", signed=True)) for one in numbers
    ]


@pytest.mark.parametrize(
    "text", ["0", "0.01", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "2.55", "2.56", "-327.68", "9" * 36]
)
def test_decimals_are_hashed_in_their_fewest_bytes(text: str) -> None:
    unscaled = int(f"{Decimal(text):.2f}".replace(".", ""))
    size = next(size for size in range(1, 17) if -(1 << 8 * size - 1) <= unscaled < 1 << 8 * size - 1)
    wanted = plain_murmur(unscaled.to_bytes(size, "big", signed=True)) & MOST
    assert made(f"bucket[{MOST}]", [Decimal(text)], pa.decimal128(38, 2)) == [wanted % MOST]


def test_truncate() -> None:
    for kind in (pa.int32(), pa.int64()):
        assert made("truncate[10]", [1, -1, 19, None, -10], kind) == [0, -10, 10, None, -10]
    decimals = [Decimal("10.65"), Decimal("-0.05"), None]
    assert made("truncate[50]", decimals, pa.decimal128(9, 2)) == [Decimal("10.50"), Decimal("-0.50"), None]
    assert made("truncate[3]", ["iceberg", "ab", "日本語だ", None], pa.string()) == ["ice", "ab", "日本語", None]
    assert made("truncate[3]", [b"\1\2\3\4", None], pa.binary()) == [b"\1\2\3", None]
    with pytest.raises(LakeError, match="38 digits"):
        made("truncate[10]", [Decimal(1)], pa.decimal128(38, 2))


def test_times_are_in_whole_units_rounded_down() -> None:
    for kind in (US, UTC):
        assert made("year", [MOMENT, BEFORE, None], kind) == [47, -1, None]
        assert made("month", [MOMENT, BEFORE, None], kind) == [574, -1, None]
        assert made("day", [MOMENT, BEFORE, None], kind) == [MOMENT.date(), BEFORE.date(), None]
        assert made("hour", [MOMENT, BEFORE, None], kind) == [419686, -1, None]
    assert made("year", [MOMENT.date(), BEFORE.date(), None], DATE) == [47, -1, None]
    assert made("month", [MOMENT.date(), BEFORE.date(), None], DATE) == [574, -1, None]
    assert made("day", [MOMENT.date(), BEFORE.date(), None], DATE) == [MOMENT.date(), BEFORE.date(), None]


def test_other_transforms() -> None:
    assert made("identity", ["a", None], pa.string()) == ["a", None]
    assert made("void", ["a", None], pa.string()) == [None, None]
    with pytest.raises(LakeError, match=r"field p has the transform zorder\[2\]"):
        transform("zorder[2]", "p")


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (pa.array([MOMENT, None], US), ["2017-11-16T22:31:08.000000", None]),
        (pa.array([MOMENT], UTC), ["2017-11-16T22:31:08.000000+00:00"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (pa.array([MOMENT.date()]), ["2017-11-16"]),
        (
            pa.array([2932896, 2932897, 20_000_000, -719_529], pa.int32()).view(pa.date32()),
            ["9999-12-31", "+10000-01-01", "+56728-02-22", "-0001-12-31"],
        ),
        (pa.array([20_000_000 * 86_400_000_000], pa.int64()).view(UTC), ["+56728-02-22T00:00:00.000000+00:00"]),
        (pa.array([MOMENT.time()], pa.time64("us")), ["22:31:08.000000"]),
        (IDS, [str(ID)]),
        (pa.array([b"\xab\xcd"]), ["abcd"]),
        (pa.array([b"\xab\xcd"], pa.binary(2)), ["abcd"]),
        (pa.array([Decimal("1.20")]), ["1.20"]),
        (pa.array([Decimal("0.00000000")], pa.decimal128(38, 8)), ["0.00000000"]),
        (pa.array([1.5, 1.0]), [1.5, 1.0]),
        (pa.array([True, False]), [True, False]),
    ],
)
def test_values_as_icebergs_json(array: pa.Array, shown: list[Any]) -> None:
    assert [json_value(one, array.type) for one in storage(array)] == shown


def test_a_partition_of_infinity_or_nan_is_refused() -> None:
    with pytest.raises(LakeError, match="nan"):
        json_value(pa.scalar(float("nan")), pa.float64())


def test_rows_are_grouped_in_order() -> None:
    schema = Struct((Field(1, "at", Struct((Field(2, "day", "date"),))), Field(3, "name", "string")))
    fields = (PartitionField(2, 1000, "day", "identity"), PartitionField(3, 1001, "name", "truncate[1]"))
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]
    table = pa.table(
        {
            "at": pa.array([{"day": days[number % 3]} if number % 6 else None for number in range(12)]),
            "name": pa.array([f"{'ab'[number % 2]}{number}" for number in range(12)]),
        }
    )
    made = Partitioning.of(PartitionSpec(0, fields), schema).grouped(table.append_column("n", [list(range(12))]))
    found = {values: made.rows["n"].slice(begin, end - begin).to_pylist() for values, begin, end in made}
    assert found == {
        (None, "a"): [0, 2, 6, 8],
        ("2020-01-02", "b"): [1, 7],
        ("2020-01-01", "b"): [3, 9],
        ("2020-01-02", "a"): [4, 10],
        (None, "b"): [5, 11],
    }


def test_one_partition_is_not_copied() -> None:
    schema = Struct((Field(1, "id", "long"),))
    table = pa.table({"id": pa.array([5, 6])})
    plain = Partitioning.of(PartitionSpec(0), schema).grouped(table)
    assert list(plain) == [((), 0, 2)]
    assert plain.rows is table
    spec = PartitionSpec(1, (PartitionField(9, 1000, "gone", "void"), PartitionField(1, 1001, "t", "truncate[10]")))
    assert list(Partitioning.of(spec, schema).grouped(table)) == [((None, 0), 0, 2)]
    with pytest.raises(LakeError, match="partition field gone has no column"):
        Partitioning.of(PartitionSpec(1, (PartitionField(9, 1000, "gone", "identity"),)), schema)
