"""Operations, routes and values of the Iceberg sink's rows, as its expressions make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.connectors.lake.iceberg.schemas import Struct
from headrace.connectors.lake.iceberg.sink.columns import SinkColumns
from headrace.connectors.lake.iceberg.sink.settings import sink_options
from headrace.connectors.lake.iceberg.sink.types import struct_of
from headrace.plugins import Record
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType
from headrace.plugins.testkit.frames import frame_records

pytestmark = pytest.mark.spark

INT64 = Schema(SchemaType.INT64)
APPEND, UPSERT, DELETE = 0, 1, 2
UPSERTS = {"iceberg.tables.upsert-mode-enabled": "true"}


def struct(name: str | None = None, optional: bool = False, **fields: Schema) -> Schema:
    members = tuple(Field(key, schema) for key, schema in fields.items())
    return Schema(SchemaType.STRUCT, optional, name=name, fields=members)


ROW = struct("s.t.Value", optional=True, id=INT64, a=OPTIONAL_STRING)
ENVELOPE = struct("s.t.Envelope", before=ROW, after=ROW, source=struct(table=STRING), op=STRING)


def rows(
    spark: SparkSession,
    records: Sequence[Record],
    value: Schema | None = None,
    key: Schema | None = None,
    config: Mapping[str, str] = MappingProxyType({}),
) -> list[Any]:
    """Each row as operation, value, route and error; None for one that is passed over."""
    made = SinkColumns(sink_options({"iceberg.tables": "db.t", **config}))
    given = frame_records(spark, records, key=key, value=value)
    found = given.frame.select(*made.columns(given)).toArrow().to_pylist()
    return [_row(one) for one in found]


def _row(row: dict[str, Any]) -> Any:
    if row["error"] is not None:
        return row["error"]
    if row["op"] is None:
        assert row["layout"] is None
        return None
    by_key = row["layout"] is None
    mine = f"key_{row['key_layout']}" if by_key else f"value_{row['layout']}"
    columns = [name for name in row if name.startswith(("value_", "key_")) and name != "key_layout"]
    assert [name for name in columns if row[name] is not None] == [mine]
    value = row[mine]
    if isinstance(value, str):
        value = json.loads(value)
    return row["op"], value, row["route"]


def test_values_are_appended_and_nulls_passed_over(spark: SparkSession) -> None:
    found = rows(spark, [Record({"id": 1, "a": "x"}), Record(None), Record({"id": 2, "a": None})], ROW)
    assert found == [(APPEND, {"id": 1, "a": "x"}, None), None, (APPEND, {"id": 2, "a": None}, None)]
    assert rows(spark, [Record({"id": 1}), Record(None)]) == [(APPEND, {"id": 1}, None), None]


def test_values_without_fields_are_refused(spark: SparkSession) -> None:
    found = rows(spark, [Record("text"), Record([1]), Record(7), Record(b"b")])
    assert all("neither a struct nor a JSON object" in one for one in found)


def test_upserts_and_tombstones(spark: SparkSession) -> None:
    key = struct(id=INT64)
    found = rows(
        spark, [Record({"id": 1, "a": "x"}, key={"id": 1}), Record(None, key={"id": 1})], ROW, key, config=UPSERTS
    )
    assert found == [(UPSERT, {"id": 1, "a": "x"}, None), (DELETE, {"id": 1}, None)]
    found = rows(spark, [Record({"id": 1}, key={"id": 1}), Record(None, key={"id": 1})], config=UPSERTS)
    assert found == [(UPSERT, {"id": 1}, None), (DELETE, {"id": 1}, None)]


def test_tombstones_by_plain_keys(spark: SparkSession) -> None:
    one_column = {"iceberg.table.db.t.id-columns": "id"}
    keys = [Record(None, key=7), Record(None, key="k")]
    found = rows(spark, keys, config={**UPSERTS, **one_column})
    assert found == [(DELETE, {"id": 7}, None), (DELETE, {"id": "k"}, None)]
    assert all("Its key is no struct" in one for one in rows(spark, keys, config=UPSERTS))
    (found,) = rows(spark, [Record(None)], config={**UPSERTS, **one_column})
    assert "has no key" in found


def test_debeziums_envelopes(spark: SparkSession) -> None:
    one, two, source = {"id": 1, "a": "x"}, {"id": 2, "a": None}, {"table": "t"}
    changes = [
        {"before": None, "after": one, "source": source, "op": "c"},
        {"before": None, "after": one, "source": source, "op": "r"},
        {"before": one, "after": two, "source": source, "op": "u"},
        {"before": two, "after": None, "source": source, "op": "d"},
        {"before": None, "after": None, "source": source, "op": "d"},
        {"before": None, "after": None, "source": source, "op": "m"},
        {"before": None, "after": None, "source": source, "op": "t"},
        {"before": None, "after": None, "source": source, "op": "u"},
    ]
    records = [Record(change, key={"id": 9}) for change in changes]
    for value, key in ((ENVELOPE, struct(id=INT64)), (None, None)):
        *good, truncate, lost = rows(spark, records, value, key, config=UPSERTS)
        expected = [(UPSERT, one), (UPSERT, one), (UPSERT, two), (DELETE, two), (DELETE, {"id": 9})]
        assert good == [*((*one, None) for one in expected), None]
        assert "truncate" in truncate
        assert "says nothing of its row" in lost
    # Without upserts an envelope is a row like any other, as in Apache's sink.
    assert rows(spark, records[:1], ENVELOPE) == [(APPEND, changes[0], None)]
    assert rows(spark, records[:1]) == [(APPEND, changes[0], None)]


def test_whole_numbers_of_a_schemaless_envelope_keep_their_digits(spark: SparkSession) -> None:
    made = SinkColumns(sink_options({"iceberg.tables": "db.t", **UPSERTS}))
    after = '{"d":0.5,"n":123456789012345678901234567890,"s":"é\\n"}'
    text = f'{{"before":null,"after":{after},"source":{{}},"op":"c"}}'
    given = frame_records(spark, [Record({"a": 1})])
    json_index = given.values.index(None)
    given = given.with_frame(given.frame.withColumn(f"value_{json_index}", F.lit(text)))
    (found,) = given.frame.select(*made.columns(given)).toArrow().to_pylist()
    assert found["value_0"] == after


def test_unwrapped_deletes(spark: SparkSession) -> None:
    schema = struct(id=INT64, __deleted=OPTIONAL_STRING, __op=OPTIONAL_STRING)
    values = [
        {"id": 1, "__deleted": "false", "__op": "c"},
        {"id": 1, "__deleted": "true", "__op": None},
        {"id": 1, "__deleted": None, "__op": "d"},
        {"id": 1, "__deleted": None, "__op": None},
    ]
    for of in (schema, None):
        found = rows(spark, [Record(value) for value in values], of, config=UPSERTS)
        assert [one[0] for one in found] == [UPSERT, DELETE, DELETE, UPSERT]
    marked = [Record({"id": 1, "__deleted": mark}) for mark in (False, True, None)]
    for known in (struct(id=INT64, __deleted=Schema(SchemaType.BOOLEAN, optional=True)), None):
        assert [one[0] for one in rows(spark, marked, known, config=UPSERTS)] == [UPSERT, DELETE, UPSERT]


def test_the_change_is_a_field(spark: SparkSession) -> None:
    schema = struct(id=INT64, _cdc=struct(op=OPTIONAL_STRING, optional=True))
    config = {"iceberg.tables.cdc-field": "_cdc.op"}
    values = [{"id": 1, "_cdc": {"op": op}} for op in ("I", "U", "D", "delete", "c", None)]
    for of in (schema, None):
        found = rows(spark, [Record(value) for value in values], of, config=config)
        assert [one[0] for one in found] == [UPSERT, UPSERT, DELETE, DELETE, UPSERT, UPSERT]
    (found,) = rows(spark, [Record({"id": 1, "a": None})], ROW, config=config)
    assert "no field _cdc.op" in found


def test_routes(spark: SparkSession) -> None:
    schema = struct(id=INT64, to=struct(table=OPTIONAL_STRING, optional=True))
    values = [{"id": 1, "to": {"table": "DB.Events"}}, {"id": 1, "to": {"table": None}}, {"id": 1, "to": None}]
    for of in (schema, None):
        records = [Record(value) for value in values]
        found = rows(spark, records, of, config={"iceberg.tables.route-field": "to.table"})
        assert [one[2] for one in found] == ["DB.Events", None, None]
        dynamic = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "to.table"}
        records += [Record({"id": 1, "to": {"table": text}}) for text in ("", " ", ".a", "a..b", "b.")]
        named, *lost = rows(spark, records, of, config=dynamic)
        assert len(lost) == 7
        assert named[2] == "db.events"
        assert all("to.table, which names its table" in one for one in lost)
        assert rows(spark, [Record(None, key={"id": 1})], of, config={**dynamic, **UPSERTS}) == [None]
    routed = {"iceberg.tables.route-field": "source.table", **UPSERTS}
    change = {"before": None, "after": {"id": 1, "a": "x"}, "source": {"table": "t1"}, "op": "c"}
    assert rows(spark, [Record(change)], ENVELOPE, config=routed) == [(UPSERT, {"id": 1, "a": "x"}, "t1")]


def test_columns_of_schemas() -> None:
    decimal = Schema(
        SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", version=1, parameters={"scale": "2"}
    )
    whole = struct(
        i=Schema(SchemaType.INT16),
        d=decimal,
        u=Schema(SchemaType.STRING, optional=True, name="io.debezium.data.Uuid"),
        s=struct(x=INT64, optional=True),
        none=struct(),
        m=Schema(SchemaType.MAP, key_schema=INT64, value_schema=OPTIONAL_STRING),
        a=Schema(SchemaType.ARRAY, value_schema=struct(t=Schema(SchemaType.INT64, name="io.debezium.time.Timestamp"))),
    )
    found = struct_of(whole)
    assert [(one.name, one.type, one.required) for one in found.fields[:3]] == [
        ("i", "int", True),
        ("d", "decimal(38,2)", True),
        ("u", "uuid", False),
    ]
    assert [one.name for one in found.fields] == ["i", "d", "u", "s", "m", "a"]
    assert all(not one.required for one in struct_of(whole, forces_optional=True).fields)
    assert isinstance(found.fields[3].type, Struct)
