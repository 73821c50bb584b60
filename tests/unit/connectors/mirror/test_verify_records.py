"""Digests and fingerprints of records: equal for equal records, however they are cut; different for any difference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.mirror.verify.records import RangeDigest, fingerprints, key_fingerprints

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def row(key: bytes | None = b"k", value: bytes | None = b"v", headers: Any = None, timestamp: int = 5) -> Row:
    return {"timestamp": timestamp, "headers": headers, "key": key, "value": value}


def header(name: str, value: bytes | None) -> dict[str, Any]:
    return {"key": name, "value": value}


ROWS = [
    row(),
    row(None, None),
    row(b"", b"", []),
    row(b"kk", b"v" * 300, [header("a", b"1"), header("a", b"2"), header("ä", None), header("", b"")]),
    row(b"k", None, [header("b", b"")], 0),
    row(timestamp=4_102_444_800_000),
    row(None, b"x", timestamp=-1),
]
OTHERS = [
    row(b"j"),
    row(None),
    row(b""),
    row(value=b"w"),
    row(value=None),
    row(value=b""),
    row(timestamp=6),
    row(headers=[header("a", b"1")]),
    row(headers=[header("a", None)]),
    row(headers=[header("a", b"")]),
    row(headers=[header("a", b"1"), header("b", b"2")]),
    row(headers=[header("b", b"2"), header("a", b"1")]),
    row(b"kv", b""),
]


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def digest(*batches: pa.RecordBatch, timestamps: bool = True) -> str:
    made = RangeDigest(timestamps)
    for one in batches:
        made.add(one)
    return made.hex()


@pytest.mark.parametrize("cut", range(len(ROWS) + 1))
def test_a_digest_does_not_show_how_records_are_cut_into_batches(cut: int) -> None:
    whole = batch(ROWS)
    assert (
        digest(whole) == digest(whole.slice(0, cut), whole.slice(cut)) == digest(batch(ROWS[:cut]), batch(ROWS[cut:]))
    )


def test_a_digest_is_the_same_for_any_width_of_binary() -> None:
    large = pa.RecordBatch.from_arrays(
        [
            column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column
            for column in batch(ROWS).columns
        ],
        names=SCHEMA.names,
    )
    assert digest(large) == digest(batch(ROWS))


def test_a_digest_changes_with_every_part_of_a_record_and_with_the_order() -> None:
    found = [digest(batch([one])) for one in [row(), *OTHERS]]
    assert len(set(found)) == len(found)
    assert digest(batch([OTHERS[0], OTHERS[3]])) != digest(batch([OTHERS[3], OTHERS[0]]))
    assert digest(batch([row()])) != digest(batch([row(), row()]))


def test_the_same_digest_is_made_in_every_process() -> None:
    assert digest(batch(ROWS)) == "c4b8494dfca7b177288672465ae4aa88"


def test_columns_that_differ_are_named() -> None:
    one, two = RangeDigest(), RangeDigest()
    one.add(batch([row(timestamp=1)]))
    two.add(batch([row(timestamp=2)]))
    assert [name for name, part in one.columns().items() if two.columns()[name] != part] == ["timestamps"]
    assert digest(batch([row(timestamp=1)]), timestamps=False) == digest(batch([row(timestamp=2)]), timestamps=False)


def test_no_records_have_a_digest_too() -> None:
    assert digest() == digest(batch([]))


def test_fingerprints_are_equal_for_equal_records_alone() -> None:
    rows = [row(), *OTHERS]
    marks = fingerprints(batch(rows)).tolist()
    assert len(set(marks)) == len(marks)
    assert fingerprints(batch(rows[::-1])).tolist() == marks[::-1]
    assert fingerprints(batch([row(headers=[])])).tolist() == fingerprints(batch([row(headers=None)])).tolist()
    late = fingerprints(batch([row(timestamp=9)]), timestamps=False)
    assert late.tolist() == fingerprints(batch([row()]), timestamps=False).tolist()


def test_a_null_key_is_not_an_empty_one() -> None:
    null, empty, full = key_fingerprints(batch([row(None), row(b""), row()])).tolist()
    assert len({null, empty, full}) == 3
