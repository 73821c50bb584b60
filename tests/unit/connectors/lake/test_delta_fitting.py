"""Values of Connect's schemas as columns of Delta tables: the same value, or a bad one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.lake.delta.fitting import fit
from headrace.connectors.lake.delta.types import merged_fields, type_of
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

INT8, INT32, INT64 = (Schema(one, optional=True) for one in (SchemaType.INT8, SchemaType.INT32, SchemaType.INT64))
FLOAT32, FLOAT64 = (Schema(one, optional=True) for one in (SchemaType.FLOAT32, SchemaType.FLOAT64))
TEXT, BYTES = (Schema(one, optional=True) for one in (SchemaType.STRING, SchemaType.BYTES))
MONEY = Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "2"})
UTC = pa.timestamp("us", "UTC")
MOMENT = dt.datetime(2026, 11, 29, 1, 2, 3, 456789)


def named(kind: SchemaType, name: str) -> Schema:
    return Schema(kind, optional=True, name=name)


def struct(**fields: Schema) -> Schema:
    return Schema(SchemaType.STRUCT, optional=True, fields=tuple(Field(name, one) for name, one in fields.items()))


def list_of(element: Schema) -> Schema:
    return Schema(SchemaType.ARRAY, optional=True, value_schema=element)


def map_of(key: Schema, value: Schema) -> Schema:
    return Schema(SchemaType.MAP, optional=True, key_schema=key, value_schema=value)


def fitted(values: list[Any], there: pa.DataType, schema: Schema, column: pa.DataType) -> list[Any]:
    """Each value as its column has it; `bad` for a bad one. Also as a slice of a longer array."""
    array = pa.array([values[-1], *values, values[0]], there)[1:-1]
    made = fit(array, schema, column)
    made.values.validate(full=True)
    return ["bad" if bad else value for value, bad in zip(made.values.to_pylist(), made.bad, strict=True)]


@pytest.mark.parametrize(
    ("schema", "there", "column", "values", "wanted"),
    [
        (INT32, pa.int32(), pa.int64(), [1, None], [1, None]),
        (INT64, pa.int64(), pa.int32(), [1, 2**31, None, -(2**31)], [1, "bad", None, -(2**31)]),
        (INT64, pa.int64(), pa.float64(), [2**53, 2**53 + 1], [2.0**53, "bad"]),
        (INT8, pa.int8(), pa.decimal128(5, 2), [7, None], [Decimal("7.00"), None]),
        (INT64, pa.int64(), pa.string(), [7, None], ["bad", None]),
        (INT64, pa.int64(), pa.bool_(), [1], ["bad"]),
        (INT64, pa.int64(), UTC, [1], ["bad"]),
        (FLOAT32, pa.float32(), pa.float64(), [0.5, None], [0.5, None]),
        (FLOAT64, pa.float64(), pa.float32(), [0.1], ["bad"]),
        (FLOAT64, pa.float64(), pa.int64(), [1.0], ["bad"]),
        (TEXT, pa.string(), pa.int64(), ["1", None], ["bad", None]),
        (TEXT, pa.string(), pa.binary(), ["1"], ["bad"]),
        (BYTES, pa.binary(), pa.binary(), [b"\xff", None], [b"\xff", None]),
        (BYTES, pa.binary(), pa.string(), [b"a"], ["bad"]),
        (
            MONEY,
            pa.decimal128(38, 2),
            pa.decimal128(4, 1),
            [Decimal("1.10"), Decimal("1.11"), Decimal("1000.00"), None],
            [Decimal("1.1"), "bad", "bad", None],
        ),
        (MONEY, pa.decimal128(38, 2), pa.float64(), [Decimal("1.10")], ["bad"]),
        (named(SchemaType.INT32, DATE), pa.date32(), pa.date32(), [dt.date(2026, 11, 29)], [dt.date(2026, 11, 29)]),
        (named(SchemaType.INT32, DATE), pa.date32(), UTC, [dt.date(2026, 11, 29)], ["bad"]),
        (named(SchemaType.INT32, TIME), pa.int32(), pa.string(), [45_296_789, None], ["12:34:56.789", None]),
        (
            named(SchemaType.INT64, TIMESTAMP),
            UTC,
            pa.timestamp("us"),
            [MOMENT.replace(tzinfo=dt.UTC), None],
            [MOMENT, None],
        ),
        (
            named(SchemaType.INT64, "io.debezium.time.Timestamp"),
            pa.int64(),
            pa.timestamp("us"),
            [1, 2**62, None],
            [dt.datetime(1970, 1, 1, 0, 0, 0, 1000), "bad", None],
        ),
        (
            named(SchemaType.INT64, "io.debezium.time.NanoTimestamp"),
            pa.int64(),
            pa.timestamp("us"),
            [5000, 5001],
            [dt.datetime(1970, 1, 1, 0, 0, 0, 5), "bad"],
        ),
        (
            named(SchemaType.STRING, "io.debezium.time.ZonedTimestamp"),
            pa.string(),
            UTC,
            ["2026-11-29T01:02:03.456789Z", "2026-11-29T03:02:03.456789+02:00", "soon", None],
            [MOMENT.replace(tzinfo=dt.UTC), MOMENT.replace(tzinfo=dt.UTC), "bad", None],
        ),
        (
            named(SchemaType.INT64, "io.debezium.time.MicroTime"),
            pa.int64(),
            pa.string(),
            [45_296_789_012, 86_400_000_000],
            ["12:34:56.789012", "bad"],
        ),
        (named(SchemaType.INT32, "io.debezium.time.Date"), pa.int32(), pa.date32(), [1], [dt.date(1970, 1, 2)]),
        (
            struct(a=INT64, B=TEXT),
            pa.struct([("a", pa.int64()), ("B", pa.string())]),
            pa.struct([("b", pa.string()), ("c", pa.int8()), ("a", pa.int8())]),
            [{"a": 1, "B": "x"}, None, {"a": 300, "B": "y"}, {"a": None, "B": None}],
            [{"b": "x", "c": None, "a": 1}, None, "bad", {"b": None, "c": None, "a": None}],
        ),
        (
            struct(a=INT64),
            pa.struct([("a", pa.int64())]),
            pa.struct([pa.field("a", pa.int64(), False)]),
            [{"a": 1}, None, {"a": None}],
            [{"a": 1}, None, "bad"],
        ),
        (
            list_of(INT64),
            pa.list_(pa.int64()),
            pa.list_(pa.int8()),
            [[1, None], None, [], [1, 300], [2]],
            [[1, None], None, [], "bad", [2]],
        ),
        (
            list_of(INT64),
            pa.list_(pa.int64()),
            pa.list_(pa.field("element", pa.int64(), False)),
            [[1], None, [1, None]],
            [[1], None, "bad"],
        ),
        (
            map_of(INT32, list_of(INT64)),
            pa.map_(pa.int32(), pa.list_(pa.int64())),
            pa.map_(pa.int8(), pa.list_(pa.int8())),
            [[(1, [1])], None, [], [(2, [300])], [(3, None)]],
            [[(1, [1])], None, [], "bad", [(3, None)]],
        ),
    ],
)
def test_values_as_columns(
    schema: Schema, there: pa.DataType, column: pa.DataType, values: list[Any], wanted: list[Any]
) -> None:
    assert fitted(values, there, schema, column) == wanted


def test_a_map_with_a_bad_key_is_bad_alone() -> None:
    values = [[(1, 1)], [(300, 1), (2, 2)], None, [], [(3, 300)], [(4, 4)]]
    wanted = [[(1, 1)], "bad", None, [], "bad", [(4, 4)]]
    there, column = pa.map_(pa.int32(), pa.int64()), pa.map_(pa.int8(), pa.int8())
    assert fitted(values, there, map_of(INT32, INT64), column) == wanted
    nested = [[("k", one)] if index != 2 else None for index, one in enumerate(values)]
    assert fitted(
        nested, pa.map_(pa.string(), there), map_of(TEXT, map_of(INT32, INT64)), pa.map_(pa.string(), column)
    ) == [None if one is None else "bad" if one == "bad" else [("k", one)] for one in wanted]


def test_nothing_in_lists_of_lists() -> None:
    for inner, of in ((pa.list_(pa.int64()), list_of(INT64)), (pa.map_(pa.int32(), pa.int64()), map_of(INT32, INT64))):
        column = pa.list_(pa.int8()) if pa.types.is_list(inner) else pa.map_(pa.int8(), pa.int8())
        assert fitted([[], None], pa.list_(inner), list_of(of), pa.list_(column)) == [[], None]


def test_numbers_that_a_float_does_not_hold() -> None:
    assert fitted([2**24, 2**24 + 1], pa.int32(), INT32, pa.float32()) == [2.0**24, "bad"]


def test_columns_of_schemas() -> None:
    schema = struct(
        i=INT8,
        d=MONEY,
        t=named(SchemaType.INT32, TIME),
        at=named(SchemaType.INT64, TIMESTAMP),
        z=named(SchemaType.INT64, "io.debezium.time.MicroTimestamp"),
        l=list_of(struct(x=TEXT)),
        m=map_of(TEXT, FLOAT64),
        nothing=struct(),
        nothings=list_of(struct()),
    )
    assert type_of(schema) == pa.struct(
        [
            ("i", pa.int8()),
            ("d", pa.decimal128(38, 2)),
            ("t", pa.string()),
            ("at", UTC),
            ("z", pa.timestamp("us")),
            ("l", pa.list_(pa.field("element", pa.struct([("x", pa.string())])))),
            ("m", pa.map_(pa.string(), pa.float64())),
        ]
    )


def test_merged_columns_keep_what_is_there() -> None:
    there = [pa.field("A", pa.int8(), False), pa.field("s", pa.struct([("x", pa.int8())]))]
    new = [
        pa.field("a", pa.int64()),
        pa.field("s", pa.struct([("X", pa.int64()), ("y", pa.string())])),
        pa.field("b", UTC),
    ]
    assert merged_fields(there, new) == [
        there[0],
        pa.field("s", pa.struct([("x", pa.int8()), ("y", pa.string())])),
        pa.field("b", UTC),
    ]
