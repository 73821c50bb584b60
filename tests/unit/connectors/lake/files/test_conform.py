"""Values of records in the columns of a table: exactly, or not at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from headrace.connectors.lake.iceberg.files.arrow_schema import arrow_schema
from headrace.connectors.lake.iceberg.files.conform import conform
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type
from headrace.plugins.schema import Field as ConnectField
from headrace.plugins.schema import Schema, SchemaType

S, L, I32, D64, B = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.binary()
INF, NAN = float("inf"), float("nan")
REFUSED = "refused"


def one(values: list[Any], kind: pa.DataType, to: Type, name: str | None = None, required: bool = False) -> list[Any]:
    """The values in a column, `REFUSED` for those that it cannot hold."""
    structs = pa.StructArray.from_arrays([pa.array(values, kind)], ["c"])
    schema = Schema(SchemaType.STRUCT, fields=(ConnectField("c", Schema(SchemaType.INT64, name=name)),))
    made = conform(structs, arrow_schema(Struct((Field(1, "c", to, required),))), schema)
    good = iter(made.rows["c"].to_pylist())
    return [REFUSED if row in made.refused else next(good) for row in range(len(values))]


DAY = dt.date(2020, 2, 29)
AT = dt.datetime(2020, 2, 29, 10, 20, 30, 123456)
AT_UTC = AT.replace(tzinfo=dt.UTC)
DAY_START = dt.datetime(2020, 2, 29, tzinfo=dt.UTC)
NUMBERS: list[tuple[list[Any], pa.DataType, Type, list[Any]]] = [
    ([1, 2**31, None], L, "int", [1, REFUSED, None]),
    ([1, None], pa.int8(), "long", [1, None]),
    ([1.0, 1.5, NAN, INF, 1e30, 2.0**53], D64, "long", [1, REFUSED, REFUSED, REFUSED, REFUSED, 2**53]),
    ([Decimal("1.00"), Decimal("1.50")], pa.decimal128(9, 2), "int", [1, REFUSED]),
    (["1", "+1", "-1", "0x1", "1.0", "", " 1", str(2**63), None], S, "long", [1, 1, -1, *[REFUSED] * 5, None]),
    ([True], pa.bool_(), "long", [REFUSED]),
    ([2**53, 2**53 + 1], L, "double", [2.0**53, REFUSED]),
    ([2**24 + 1, 3], I32, "float", [REFUSED, 3.0]),
    ([0.5, 0.1, 1e300, INF, None], D64, "float", [0.5, REFUSED, REFUSED, INF, None]),
    ([0.5, -0.0], pa.float32(), "double", [0.5, -0.0]),
    ([Decimal("0.10"), Decimal("12345678901234567.89")], pa.decimal128(38, 2), "double", [0.1, REFUSED]),
    (["0.1", "1e3", "1e400", "Infinity", "x"], S, "double", [0.1, 1000.0, REFUSED, INF, REFUSED]),
    ([1, 10**8], L, "decimal(10,2)", [Decimal("1.00"), REFUSED]),
    ([0.1, 0.125, 1e20, NAN, INF], D64, "decimal(10,2)", [Decimal("0.10"), *[REFUSED] * 4]),
    ([0.1, 123.456, -2.5e-7], D64, "decimal(38,18)", [Decimal("0.1"), Decimal("123.456"), Decimal("-2.5e-7")]),
    ([0.1], pa.float32(), "decimal(38,18)", [Decimal("0.1")]),
    ([Decimal("1.50"), Decimal("1.55")], pa.decimal128(38, 2), "decimal(3,1)", [Decimal("1.5"), REFUSED]),
    ([Decimal("123.00")], pa.decimal128(38, 2), "decimal(3,1)", [REFUSED]),
    (
        ["1.5", "1.55", "1E+1", "", "a", "100"],
        S,
        "decimal(3,1)",
        [Decimal("1.5"), REFUSED, Decimal(10), *[REFUSED] * 3],
    ),
    (["true", "False", "1", "yes", None], S, "boolean", [True, False, REFUSED, REFUSED, None]),
    ([1], L, "boolean", [REFUSED]),
    ([1, None], L, "string", ["1", None]),
    ([True], pa.bool_(), "string", ["true"]),
    ([Decimal("1.50")], pa.decimal128(9, 2), "string", ["1.50"]),
    ([b"a"], B, "string", [REFUSED]),
    ([AT], pa.timestamp("us"), "string", [REFUSED]),
    ([[1]], pa.list_(L), "string", [REFUSED]),
    ([{"a": 1}], pa.struct([("a", L)]), "string", [REFUSED]),
    ([{"a": 1}], pa.struct([("a", L)]), "long", [REFUSED]),
    ([{"a": 1}], pa.struct([("a", L)]), MapOf(2, "string", 3, "long"), [REFUSED]),
    ([1], L, Struct((Field(2, "a", "long"),)), [REFUSED]),
]


@pytest.mark.parametrize(("values", "kind", "to", "made"), NUMBERS)
def test_numbers_and_text(values: list[Any], kind: pa.DataType, to: Type, made: list[Any]) -> None:
    assert one(values, kind, to) == made


TIMES: list[tuple[list[Any], pa.DataType, Type, list[Any]]] = [
    (["2020-02-29", "2020-02-30", "20200229", "2020-02-29T00:00:00", None], S, "date", [DAY, *[REFUSED] * 3, None]),
    ([18321, 2**40], L, "date", [DAY, REFUSED]),
    ([DAY_START, DAY_START + dt.timedelta(microseconds=1)], pa.timestamp("us", "UTC"), "date", [DAY, REFUSED]),
    ([DAY], pa.date32(), "timestamptz", [DAY_START]),
    (["10:20:30.123456", "10:20", "10:20:30Z", "25:00", "10:20:30.1234567", "x"], S, "time",
     [AT.time(), dt.time(10, 20), dt.time(10, 20, 30), *[REFUSED] * 3]),
    ([0, 86_399_999, 86_400_000, -1], L, "time", [dt.time(0), dt.time(23, 59, 59, 999_000), REFUSED, REFUSED]),
    ([5], pa.time32("ms"), "time", [dt.time(0, 0, 0, 5000)]),
    ([1_582_971_630_123, 2**62], L, "timestamptz", [AT_UTC.replace(microsecond=123_000), REFUSED]),
    ([1_582_971_630_123], L, "timestamp", [AT.replace(microsecond=123_000)]),
    ([AT], pa.timestamp("us"), "timestamptz", [AT_UTC]),
    ([AT_UTC], pa.timestamp("us", "UTC"), "timestamp", [AT]),
    (["2020-02-29T10:20:30.123456Z", "2020-02-29 12:20:30.123456+02:00", "2020-02-29T10:20:30.123456",
      "2020-02-29T10:20:30.123456000Z", "2020-02-29T10:20:30.1234567Z", "now", None], S, "timestamptz",
     [*[AT_UTC] * 4, REFUSED, REFUSED, None]),
    (["2020-02-29T10:20:30.123456", "2020-02-29T10:20:30.123456+02:00", "2020-02-29T10:20:30.123456Z", "2020-02-29"],
     S, "timestamp", [AT, AT, AT, DAY_START.replace(tzinfo=None)]),
    (["2020-02-29"], S, "timestamptz", [DAY_START]),
    ([AT], pa.timestamp("us"), "time", [REFUSED]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind", "to", "made"), TIMES)
def test_times(values: list[Any], kind: pa.DataType, to: Type, made: list[Any]) -> None:
    assert one(values, kind, to) == made


def test_debeziums_units() -> None:
    micros, nanos = 1_582_971_630_123_456, 1_582_971_630_123_456_000
    for to, made in (("timestamp", AT), ("timestamptz", AT_UTC)):
        assert one([micros], L, to, "io.debezium.time.MicroTimestamp") == [made]
        assert one([nanos, nanos + 1], L, to, "io.debezium.time.NanoTimestamp") == [made, REFUSED]
    day = micros % 86_400_000_000
    assert one([day], L, "time", "io.debezium.time.MicroTime") == [AT.time()]
    assert one([day * 1000, day * 1000 + 1], L, "time", "io.debezium.time.NanoTime") == [AT.time(), REFUSED]
    assert one([micros // 1000], L, "timestamp", "io.debezium.time.Timestamp") == [AT.replace(microsecond=123_000)]
    assert one([18321], I32, "date", "io.debezium.time.Date") == [DAY]


def test_numbers_of_times_are_in_their_own_unit_whatever_the_column() -> None:
    midnight, ms = DAY_START.replace(tzinfo=None), 18321 * 86_400_000
    assert one([18321], I32, "timestamp", "io.debezium.time.Date") == [midnight]
    assert one([18321], I32, "time", "io.debezium.time.Date") == [REFUSED]
    assert one([ms, 1000], L, "date", "io.debezium.time.Timestamp") == [DAY, REFUSED]
    assert one([ms * 1000, 1000], L, "date", "io.debezium.time.MicroTimestamp") == [DAY, REFUSED]
    assert one([36_000_000], I32, "date", "org.apache.kafka.connect.data.Time") == [REFUSED]
    for name in ("Year", "MicroDuration", "NanoDuration"):
        assert one([2020], I32, "date", f"io.debezium.time.{name}") == [REFUSED]
        assert one([2020], I32, "timestamp", f"io.debezium.time.{name}") == [REFUSED]
        assert one([2020], I32, "int", f"io.debezium.time.{name}") == [2020]


def test_bytes() -> None:
    known = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    texts = [str(known), str(known).upper(), known.hex, "", None]
    assert one(texts, S, "uuid") == [known, known, REFUSED, REFUSED, None]
    assert one([known.bytes, b"a", None], B, "uuid") == [known, REFUSED, None]
    assert one([b"ab", b"abc", None], B, "fixed[2]") == [b"ab", REFUSED, None]
    assert one([b"ab", None], pa.binary(2), "binary") == [b"ab", None]
    assert one(["YWI=", "YWJj", "YQ==", "", "YWI", "*", None], S, "binary") == [
        b"ab",
        b"abc",
        b"a",
        b"",
        *[REFUSED] * 2,
        None,
    ]
    assert one(["YWI=", "YWJj"], S, "fixed[2]") == [b"ab", REFUSED]
    assert one([1], L, "binary") == [REFUSED]


def test_a_reason_names_the_column_and_the_value() -> None:
    structs = pa.array([{"a": [{"n": "7"}, {"n": "x" * 99}]}])
    columns = arrow_schema(Struct((Field(1, "a", ListOf(2, Struct((Field(3, "n", "int"),)))),)))
    (reason,) = conform(structs, columns).refused.values()
    assert reason.startswith("The column a.element.n (int32) cannot hold 'xxxx")
    assert len(reason) < 200


def test_a_reason_names_times_that_python_has_none_for() -> None:
    late = pa.array([2**58 + 1], pa.int64()).view(pa.timestamp("us"))
    columns = arrow_schema(Struct((Field(1, "t", "date"),)))
    (reason,) = conform(pa.StructArray.from_arrays([late], ["t"]), columns).refused.values()
    assert reason.startswith("The column t (date32[day]) cannot hold 11103-08-29 ")


def test_columns_are_found_by_name_and_missing_ones_are_null() -> None:
    structs = pa.array([{"b": 1, "other": 2, "A": "x"}])
    columns = arrow_schema(Struct((Field(1, "a", "string"), Field(2, "b", "long"), Field(3, "c", "uuid"))))
    assert conform(structs, columns).rows.to_pylist() == [{"a": None, "b": 1, "c": None}]
    assert conform(structs, columns, ignore_case=True).rows.to_pylist() == [{"a": "x", "b": 1, "c": None}]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("boolean", False, False),
        ("int", 34, 34),
        ("double", 0.1, 0.1),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", 1, 1.0),
        ("decimal(9,2)", "14.20", Decimal("14.20")),
        ("string", "a", "a"),
        ("binary", "00ff", b"\0\xff"),
        ("fixed[2]", "00ff", b"\0\xff"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        ("date", "2020-02-29", DAY),
        ("time", "10:20:30.123456", AT.time()),
        ("timestamp", "2020-02-29T10:20:30.123456", AT),
        ("timestamptz", "2020-02-29T10:20:30.123456+00:00", AT_UTC),
    ],
)
def test_a_missing_column_has_its_default(kind: str, default: Any, value: Any) -> None:
    columns = arrow_schema(Struct((Field(1, "id", "long"), Field(2, "c", kind, True, write_default=default))))
    made = conform(pa.array([{"id": 1}, {"id": 2}]), columns)
    assert made.rows["c"].to_pylist() == [value, value]
    null = pa.StructArray.from_arrays([pa.nulls(1, columns.field("c").type)], ["c"])
    assert list(conform(null, columns).refused) == [0]


INNER = Struct((Field(3, "x", "int", required=True), Field(4, "y", "string")))


def nested(values: list[Any], kind: pa.DataType, to: Type) -> tuple[list[Any], dict[int, str]]:
    structs = pa.StructArray.from_arrays([pa.array(values, kind)], ["c"])
    made = conform(structs, arrow_schema(Struct((Field(1, "c", to),))))
    made.rows.validate(full=True)
    return made.rows["c"].to_pylist(), dict(made.refused)


POINT = pa.struct([("y", S), ("x", L)])


def test_required_fields_count_only_inside_of_a_value() -> None:
    values = [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 2, "y": None}]
    made, refused = nested(values, POINT, INNER)
    assert made == [{"x": 1, "y": "a"}, None, {"x": 2, "y": None}]
    assert refused == {2: "The column c.x is required, but the record has no value for it"}
    assert one([1, None], L, "long", required=True) == [1, REFUSED]


def test_lists_and_maps_of_all_shapes() -> None:
    values = [[{"x": 1, "y": "a"}, None], [], None, [{"x": 2**40, "y": "b"}], [{"x": 3, "y": None}]]
    made, refused = nested(values, pa.list_(POINT), ListOf(2, INNER))
    assert made == [[{"x": 1, "y": "a"}, None], [], None, [{"x": 3, "y": None}]]
    assert list(refused) == [3]
    made, refused = nested(values, pa.list_(POINT), ListOf(2, INNER, element_required=True))
    assert (made, sorted(refused)) == ([[], None, [{"x": 3, "y": None}]], [0, 3])
    maps = [[(1, {"x": 1, "y": "a"})], [], None, [(2**40, None)], [(4, {"x": 2**40, "y": "b"})], [(5, None)]]
    made, refused = nested(maps, pa.map_(L, POINT), MapOf(5, "int", 6, INNER))
    assert made == [[(1, {"x": 1, "y": "a"})], [], None, [(5, None)]]
    assert list(refused) == [3, 4]
    made, refused = nested([[[1], None], [[2**40]]], pa.list_(pa.list_(L)), ListOf(2, ListOf(3, "int")))
    assert (made, list(refused)) == ([[[1], None]], [1])


def test_slices_of_lists_are_read_from_their_beginning() -> None:
    values = pa.array([[2**40], [1, 2], None, [3]], pa.list_(L)).slice(1)
    structs = pa.StructArray.from_arrays([values], ["c"])
    made = conform(structs, arrow_schema(Struct((Field(1, "c", ListOf(2, "int")),))))
    assert made.rows["c"].to_pylist() == [[1, 2], None, [3]]
    assert not made.refused


def test_many_bad_rows_are_found() -> None:
    values = [str(number) if number % 3 else "x" for number in range(1000)]
    assert one(values, S, "int") == [number if number % 3 else REFUSED for number in range(1000)]
