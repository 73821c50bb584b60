"""Hive's tables, by Connect's schemas."""

from __future__ import annotations

import json

import pytest

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.connectors.hdfs.hive.definition import (
    AVRO_SCHEMA,
    VERSION,
    HiveColumn,
    definition,
    evolved,
    hive_type,
    why_no_table,
)
from headrace.connectors.hdfs.hive.tables import values_of
from headrace.connectors.hdfs.hive_settings import HiveSettings
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

PARQUET, AVRO = (format_of(FormatSettings(form)) for form in (FileFormat.PARQUET, FileFormat.AVRO))
INT, TEXT = Schema(SchemaType.INT32), Schema(SchemaType.STRING, optional=True)


def struct(version: int | None = None, **fields: Schema) -> Schema:
    """A record of these fields."""
    return Schema(
        SchemaType.STRUCT, name="R", version=version, fields=tuple(Field(name, one) for name, one in fields.items())
    )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema(SchemaType.INT8), "tinyint"),
        (Schema(SchemaType.INT64), "bigint"),
        (Schema(SchemaType.FLOAT64), "double"),
        (Schema(SchemaType.BYTES), "binary"),
        (Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "3"}), "decimal(38,3)"),
        (Schema(SchemaType.INT32, name=DATE), "date"),
        (Schema(SchemaType.INT32, name=TIME), "int"),
        (Schema(SchemaType.INT64, name=TIMESTAMP), "timestamp"),
        (Schema(SchemaType.ARRAY, value_schema=TEXT), "array<string>"),
        (Schema(SchemaType.MAP, key_schema=TEXT, value_schema=INT), "map<string,int>"),
        (struct(A=INT, b=struct(c=TEXT)), "struct<a:int,b:struct<c:string>>"),
    ],
)
def test_types(schema: Schema, text: str) -> None:
    assert hive_type(schema) == text


def test_a_parquet_table_has_columns_but_those_of_its_partitions() -> None:
    made = definition(struct(3, Id=INT, Country=TEXT), PARQUET, ["country"])
    assert made.columns == (HiveColumn("id", "int"),)
    assert made.parameters == {VERSION: "3"}
    assert "Parquet" in made.storage.serde


def test_an_avro_table_has_the_schema_of_its_files() -> None:
    made = definition(struct(None, Id=INT, Country=TEXT), AVRO, ["country"])
    assert made.columns == ()
    assert made.parameters.keys() == {AVRO_SCHEMA}
    assert [one["name"] for one in json.loads(made.parameters[AVRO_SCHEMA])["fields"]] == ["Id"]


def test_columns_are_added_at_the_end_and_never_dropped() -> None:
    now = definition(struct(1, a=INT, b=TEXT), PARQUET, [])
    changed = evolved(now, definition(struct(2, c=TEXT, a=Schema(SchemaType.INT64)), PARQUET, []))
    assert changed is not None
    assert changed.columns == (("a", "bigint"), ("b", "string"), ("c", "string"))
    assert changed.parameters[VERSION] == "2"


@pytest.mark.parametrize("form", [PARQUET, AVRO])
def test_an_older_schema_changes_nothing(form: object) -> None:
    now = definition(struct(2, a=INT, b=TEXT), form, [])  # type: ignore[arg-type]
    assert evolved(now, definition(struct(1, a=INT), form, [])) is None  # type: ignore[arg-type]
    assert evolved(now, now) is None


def test_a_newer_schema_of_avro_takes_the_place() -> None:
    now, newer = (definition(struct(version, a=INT, **more), AVRO, []) for version, more in ((1, {}), (2, {"b": TEXT})))
    changed = evolved(now, newer)
    assert changed is not None
    assert changed.parameters == newer.parameters


def test_what_cannot_be_a_table() -> None:
    assert why_no_table(struct(1, a=INT)) is None
    for schema in (None, TEXT):
        assert "no structs" in str(why_no_table(schema))


@pytest.mark.parametrize(
    ("directory", "values"),
    [
        ("Year=2026/month=01", ("2026", "01")),
        ("year=a%2Fb%3D/month=x=y", ("a/b=", "x=y")),
        ("year=2026", None),
        ("month=01/year=2026", None),
        ("year=/month=1", None),
        ("2026/01", None),
    ],
)
def test_directories_as_partitions(directory: str, values: tuple[str, ...] | None) -> None:
    assert values_of(directory, ["year", "Month"]) == values


def test_a_tables_name() -> None:
    assert HiveSettings("", None, "d", "lake_${topic}").table_of("My.Topic-1") == "lake_my_topic_1"
