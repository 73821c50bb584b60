from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.java.batches import _Reader
from headrace.connectors.java.sink_batches import bytes_of, numbers_of

ARRAYS = [
    pa.array([1, None, 3], pa.int8()),
    pa.array([1.5, None, -2.0], pa.float64()),
    pa.array([True, None, False]),
    pa.array(["a", None, "é😀"]),
    pa.array([b"\x00", b"", None], pa.binary()),
    pa.array([Decimal("-1.23"), None, Decimal("4.50")], pa.decimal128(38, 2)),
    pa.array([date(1969, 12, 31), None, date(2026, 1, 1)]),
    pa.array([datetime(1970, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
    pa.array([["a", None], None, []], pa.list_(pa.string())),
    pa.array([[("k", 1)], None, [("l", None), ("m", 2)]], pa.map_(pa.string(), pa.int32())),
    pa.array([{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": None}]),
    pa.nulls(3, pa.string()),
]


def read(data: bytes, types: list[Any]) -> list[Any]:
    reader = _Reader(pa.py_buffer(data))
    return [reader.array(one).to_pylist() for one in types]


@pytest.mark.parametrize("slices", [(0, 3), (1, 2), (1, 1), (0, 0)])
def test_every_column_crosses_as_it_is(slices: tuple[int, int]) -> None:
    rows = pa.RecordBatch.from_arrays(ARRAYS, names=[f"c{index}" for index in range(len(ARRAYS))]).slice(*slices)
    assert read(bytes_of(rows), [one.type for one in ARRAYS]) == [column.to_pylist() for column in rows.columns]


def test_the_columns_tell_which_schemas_are_there() -> None:
    names = ["topic", "key_schema", "value_schema", "key_3", "value_0", "value_12"]
    rows = pa.RecordBatch.from_arrays([pa.nulls(0)] * len(names), names=names)
    assert (numbers_of(rows, "key"), numbers_of(rows, "value")) == ([3], [0, 12])
