"""The columns that Delta tables are written from, as the sink's expressions make them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.connectors.lake.delta.columns import SinkColumns
from headrace.connectors.lake.delta.fits import RowFits
from headrace.connectors.lake.delta.settings import delta_options
from headrace.connectors.lake.delta.shapes import TableShape
from headrace.connectors.lake.delta.types import columns_of
from headrace.plugins import Record
from headrace.plugins.records import Records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType
from headrace.plugins.testkit import SinkOnSparkContract
from headrace.plugins.testkit.frames import frame_records
from tests.unit.connectors.lake.delta_rig import DeltaRig

pytestmark = pytest.mark.spark

INT64 = Schema(SchemaType.INT64)


def struct(name: str | None = None, optional: bool = False, **fields: Schema) -> Schema:
    members = tuple(Field(key, schema) for key, schema in fields.items())
    return Schema(SchemaType.STRUCT, optional, name=name, fields=members)


ROW = struct("s.t.Value", optional=True, id=INT64, a=OPTIONAL_STRING)
ENVELOPE = struct("s.t.Envelope", before=ROW, after=ROW, source=struct(table=STRING), op=STRING)


def rows(
    spark: SparkSession, records: Sequence[Record], value: Any = None, key: Any = None, ids: str = "id"
) -> list[Any]:
    """Each row as (value, is_delete); its error, or None for one that is passed over. `ids` empty: appended."""
    config = {"table.path": "/t", **({"write.mode": "upsert", "id.columns": ids} if ids else {})}
    columns = SinkColumns(delta_options(config))
    given = frame_records(spark, records, key=key, value=value)
    found = given.frame.select(*columns.columns(given)).toArrow().to_pylist()
    return [_row(one) for one in found]


def _row(row: dict[str, Any]) -> Any:
    if row["error"] is not None or row["layout"] is None:
        return row["error"]
    values = {name: value for name, value in row.items() if name.startswith("value_") and value is not None}
    assert list(values) == [f"value_{row['layout']}"]
    return *values.values(), row["is_delete"]


def test_values_are_appended_and_nulls_passed_over(spark: SparkSession) -> None:
    found = rows(spark, [Record({"id": 1, "a": "x"}), Record(None), Record({"id": 2, "a": None})], ROW, ids="")
    assert found == [({"id": 1, "a": "x"}, False), None, ({"id": 2, "a": None}, False)]


def test_values_without_columns_are_refused(spark: SparkSession) -> None:
    found = rows(spark, [Record({"id": 1}), Record("text")], ids="")
    assert "has no schema" in found[0]
    assert "is no struct" in found[1]


def test_tombstones_delete_by_their_keys(spark: SparkSession) -> None:
    records = [Record({"id": 1, "a": "x"}, key={"id": 1}), Record(None, key={"id": 1})]
    assert rows(spark, records, ROW, struct(id=INT64)) == [({"id": 1, "a": "x"}, False), ({"id": 1}, True)]
    assert rows(spark, [Record(None, key=7)], ROW, int) == [({"id": 7}, True)]
    assert rows(spark, [Record(None, key="k")], ROW, str, ids="a") == [({"a": "k"}, True)]
    (refused,) = rows(spark, [Record(None, key=7)], ROW, int, ids="a,id")
    assert "id.columns has to name one column" in refused
    assert "has no key" in rows(spark, [Record(None)], ROW)[0]
    assert "has no schema" in rows(spark, [Record(None, key={"id": 1})], ROW)[0]


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
    *good, truncate, lost = rows(spark, records, ENVELOPE, struct(id=INT64))
    assert good == [(one, False), (one, False), (two, False), (two, True), ({"id": 9}, True), None]
    assert "truncate" in truncate
    assert "says nothing of its row" in lost
    assert rows(spark, records[:1], ENVELOPE, ids="") == [(changes[0], False)]


def test_unwrapped_deletes(spark: SparkSession) -> None:
    schema = struct(id=INT64, __deleted=OPTIONAL_STRING, __op=OPTIONAL_STRING)
    values = [
        {"id": 1, "__deleted": "false", "__op": "u"},
        {"id": 2, "__deleted": "true", "__op": None},
        {"id": 3, "__deleted": None, "__op": "d"},
        {"id": 4, "__deleted": None, "__op": None},
    ]
    found = rows(spark, [Record(value) for value in values], schema)
    assert [is_delete for _, is_delete in found] == [False, True, True, False]
    marked = [Record({"id": 1, "__deleted": mark}) for mark in (False, True, None)]
    found = rows(spark, marked, struct(id=INT64, __deleted=Schema(SchemaType.BOOLEAN, optional=True)))
    assert [is_delete for _, is_delete in found] == [False, True, False]


class TestDeltaSinkOnSpark(SinkOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> DeltaRig:
        return DeltaRig(tmp_path)

    @pytest.fixture
    def records(self, spark: SparkSession, rig: DeltaRig) -> Records:
        value = struct(n=INT64, line=OPTIONAL_STRING)
        return frame_records(spark, [Record({"n": n, "line": text}) for n, text in enumerate(rig.hostile)], value=value)


def test_types_that_spark_has_fit_the_columns_made_of_their_schemas(spark: SparkSession) -> None:
    """Arrow's types of Spark's values are those that a table's columns are fitted from."""
    everything = struct(
        i=Schema(SchemaType.INT8),
        f=Schema(SchemaType.FLOAT32),
        y=Schema(SchemaType.BOOLEAN),
        b=Schema(SchemaType.BYTES),
        l=Schema(SchemaType.ARRAY, value_schema=struct(x=OPTIONAL_STRING)),
        m=Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT64),
    )
    value = {"i": 1, "f": 0.5, "y": True, "b": b"\xff", "l": [{"x": "q"}, {"x": None}], "m": {"k": 3}}
    columns = SinkColumns(delta_options({"table.path": "/t"}))
    given = frame_records(spark, [Record(value)], value=everything)
    (batch,) = given.frame.select(*columns.columns(given)).toArrow().combine_chunks().to_batches()
    shape = TableShape("/t", columns_of(everything), ())
    (fit,) = RowFits(delta_options({"table.path": "/t"}), columns.layouts, lambda *_: shape).of(batch, {})
    assert fit.rows.to_pylist() == [value | {"m": [("k", 3)]}]
