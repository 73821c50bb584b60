"""A user's function over the rows of a frame, as it is called where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from headrace.plugins.transforms import python_batches
from headrace.plugins.transforms.python_batches import GROUP, Batches, RowGroup

TOPIC = {"_topic": "topic"}


def called(
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
    values: pa.Array,
    fields: tuple[str, ...],
    metadata: Mapping[str, str | None] = TOPIC,
) -> list[dict[str, Any]]:
    """Return what the function gives for struct values, all rows being of one group."""
    monkeypatch.setattr(python_batches, "loaded", lambda reference: function)
    group = RowGroup(0, 0, None, False, fields, True, metadata, spark.StructType())
    given = pa.record_batch({"topic": ["t"] * len(values), "value_0": values, GROUP: pa.array([0] * len(values))})
    own = [pa.field(name, pa.string()) for name in metadata]
    row = pa.struct([*values.type, *own])
    answer = pa.field(group.column, pa.struct([pa.field("keep", pa.bool_()), pa.field("row", row)]))
    batches = Batches("m:f", {}, (group,), pa.schema([*given.schema, answer]))
    made: list[dict[str, Any]] = batches(given)[group.column].to_pylist()
    return made


def test_a_function_that_wants_to_exit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaving(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="m:f wants to end the process: SystemExit: 3"):
        called(monkeypatch, leaving, pa.array([{"a": 1}]), ("a",))


def test_fields_may_have_any_name_and_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[bool]]:
        return batch, [True, False]

    def rows(values: list[dict[str, Any]], kind: pa.StructType, fields: tuple[str, ...]) -> list[dict[str, Any]]:
        return [one["row"] for one in called(monkeypatch, same, pa.array(values, kind), fields)]

    named = pa.struct([("keep", pa.int32()), ("_keep", pa.int32()), ("row", pa.int32())])
    values = [{"keep": 1, "_keep": 2, "row": 3}, {"keep": 4, "_keep": 5, "row": 6}]
    assert rows(values, named, ("keep", "_keep", "row")) == [one | {"_topic": "t"} for one in values]
    assert rows([{}, {}], pa.struct([]), ()) == [{"_topic": "t"}] * 2
    alone = called(monkeypatch, same, pa.array([{}, {}], pa.struct([])), (), {})
    assert alone == [{"keep": True, "row": {}}, {"keep": False, "row": {}}]
