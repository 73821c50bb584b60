"""The Connect schemas of a database's columns."""

from __future__ import annotations

import pytest

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.dialects.postgresql.dialect import PostgresqlDialect
from headrace.connectors.jdbc.source.types import NumericMapping, SourceColumn, TypeRules, source_columns
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

NONE, PRECISION, FIT, EAGER = NumericMapping
SQL = PostgresqlDialect().source_sql()


def made(column: DatabaseColumn, rules: TypeRules | None = None) -> SourceColumn:
    (found,) = source_columns([column], rules or TypeRules(), SQL, SQL.quoted)
    return found


def schema(column: DatabaseColumn, rules: TypeRules | None = None) -> Schema:
    return made(column, rules).schema


@pytest.mark.parametrize("kind", [Kind.NUMERIC, Kind.DECIMAL])
@pytest.mark.parametrize(
    ("precision", "scale", "by_mapping"),
    [
        (1, 0, ("Decimal", "int8", "int8", "int8")),
        (3, 0, ("Decimal", "int16", "int16", "int16")),
        (5, 0, ("Decimal", "int32", "int32", "int32")),
        (10, 0, ("Decimal", "int64", "int64", "int64")),
        (18, 0, ("Decimal", "int64", "int64", "int64")),
        (19, 0, ("Decimal", "Decimal", "Decimal", "Decimal")),
        (4, -2, ("Decimal", "Decimal", "int32", "int32")),
        (10, 2, ("Decimal", "Decimal", "double", "double")),
        (30, 2, ("Decimal", "Decimal", "Decimal", "double")),
        (None, None, ("Decimal", "Decimal", "double", "double")),
    ],
)
def test_numeric_mapping_holds_for_both(
    kind: Kind, precision: int | None, scale: int | None, by_mapping: tuple[str, ...]
) -> None:
    column = DatabaseColumn("n", "numeric", kind, precision=precision, scale=scale)
    for mapping, wanted in zip(NumericMapping, by_mapping, strict=True):
        found = schema(column, TypeRules(mapping))
        assert ("Decimal" if found.name == DECIMAL else str(found.type)) == wanted, mapping


def test_decimals_say_scale_and_precision() -> None:
    assert schema(DatabaseColumn("n", "", Kind.NUMERIC, precision=10, scale=2)).parameters == {
        "scale": "2",
        "connect.decimal.precision": "10",
    }
    assert schema(DatabaseColumn("n", "", Kind.NUMERIC)).parameters == {"scale": "18"}
    assert schema(DatabaseColumn("n", "", Kind.NUMERIC, precision=3, scale=-2)).parameters["scale"] == "0"
    assert schema(DatabaseColumn("n", "", Kind.NUMERIC, precision=60, scale=50)).type is SchemaType.STRING


@pytest.mark.parametrize(
    ("precision", "scale", "mapping", "is_text"),
    [
        (38, 10, NONE, False),
        (39, 0, NONE, True),
        (None, None, NONE, True),
        (None, None, FIT, False),
        (50, 10, FIT, True),
    ],
)
def test_columns_with_long_numbers_become_texts_where_that_is_set(
    precision: int | None, scale: int | None, mapping: NumericMapping, is_text: bool
) -> None:
    column = DatabaseColumn("n", "", Kind.NUMERIC, precision=precision, scale=scale)
    found = made(column, TypeRules(mapping, long_as_text=True))
    assert (found.schema.type is SchemaType.STRING, found.may_fail) == (is_text, not is_text)


@pytest.mark.parametrize(
    ("granularity", "wanted"),
    [
        ("connect_logical", Schema(SchemaType.INT64, True, name=TIMESTAMP, version=1)),
        ("micros_long", Schema(SchemaType.INT64, True)),
        ("nanos_long", Schema(SchemaType.INT64, True)),
        ("micros_string", Schema(SchemaType.STRING, True)),
        ("nanos_iso_datetime_string", Schema(SchemaType.STRING, True)),
    ],
)
def test_granularity(granularity: str, wanted: Schema) -> None:
    assert schema(DatabaseColumn("ts", "", Kind.TIMESTAMP), TypeRules(granularity=granularity)) == wanted


def test_the_other_kinds() -> None:
    assert schema(DatabaseColumn("d", "", Kind.DATE, nullable=False)) == Schema(SchemaType.INT32, name=DATE, version=1)
    assert schema(DatabaseColumn("t", "", Kind.TIME)) == Schema(SchemaType.INT32, True, name=TIME, version=1)
    for kind in (Kind.BOOLEAN, Kind.INT8, Kind.INT64, Kind.STRING, Kind.BYTES):
        assert schema(DatabaseColumn("x", "", kind)).type == SchemaType[kind.name]
    element = DatabaseColumn("", "int4", Kind.INT32)
    array = schema(DatabaseColumn("a", "int4[]", Kind.ARRAY, element=element))
    assert array == Schema(SchemaType.ARRAY, True, value_schema=Schema(SchemaType.INT32, optional=True))


def test_a_column_without_a_type_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    columns = [DatabaseColumn("x", "thing", Kind.UNSUPPORTED), DatabaseColumn("y", "", Kind.INT32)]
    assert [one.name for one in source_columns(columns, TypeRules(), SQL, SQL.quoted)] == ["y"]
    assert "Column x of type thing is left out" in caplog.text


def test_only_what_may_fail_is_judged() -> None:
    assert not made(DatabaseColumn("x", "", Kind.STRING)).may_fail
    assert not made(DatabaseColumn("x", "", Kind.INT64)).may_fail
    assert not made(DatabaseColumn("x", "", Kind.FLOAT32)).may_fail
    assert made(DatabaseColumn("x", "", Kind.INT16)).may_fail
    assert made(DatabaseColumn("x", "", Kind.DATE)).may_fail


def test_names_are_quoted_and_quotes_in_them_doubled() -> None:
    assert made(DatabaseColumn('a"; DROP', "text", Kind.STRING)).sql == '"a""; DROP"'
