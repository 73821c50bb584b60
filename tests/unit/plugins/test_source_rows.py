"""Rows of a reader are compared with what its task declares."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from headrace.plugins.contracts import Plan, SourceTask
from headrace.plugins.extensions import RowsOfSeveralTypes
from headrace.plugins.source_rows import DeclaredRows

OFFSETS = pa.array([{"n": 1}])


class Task:
    row_type = pa.schema([("value", pa.string())])
    offset_type = pa.struct([("n", pa.int64())])


class Several(Task, RowsOfSeveralTypes):
    def row_type_of(self, shape: str) -> pa.Schema:
        return pa.schema([(shape, pa.int64())])

    def records_of(self, frame: Any, shape: str) -> Any: ...


def declared(task: Any = None, shape: str = "") -> DeclaredRows:
    made: DeclaredRows = pickle.loads(pickle.dumps(DeclaredRows(task or Task(), shape)))
    return made


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_rows_as_declared_pass(type_: pa.DataType) -> None:
    rows = pa.record_batch({"value": pa.array(["a"], type_), "source_offset": OFFSETS})
    shape = declared()
    assert shape.checked(rows) is rows
    assert shape.checked(rows) is rows


@pytest.mark.parametrize(
    "rows",
    [
        {"value": pa.array(["a"])},
        {"source_offset": OFFSETS, "value": pa.array(["a"])},
        {"line": pa.array(["a"]), "source_offset": OFFSETS},
        {"value": pa.array([1]), "source_offset": OFFSETS},
        {"value": pa.array(["a"]), "source_offset": pa.array([1])},
    ],
)
def test_other_rows_are_refused(rows: dict[str, pa.Array]) -> None:
    with pytest.raises(
        TypeError, match=r"The reader of Task yields the columns \(.*value string, source_offset struct"
    ):
        declared().checked(pa.record_batch(rows))


def test_the_shape_is_named_where_there_are_several() -> None:
    rows = pa.record_batch({"b": pa.array([1]), "source_offset": OFFSETS})
    assert declared(Several(), "b").checked(rows) is rows
    with pytest.raises(TypeError, match=r"its row_type_of\('a'\) and offset_type declare \(a int64"):
        declared(Several(), "a").checked(rows)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_reach_spark_in_its_units(unit: str) -> None:
    class Timed(Task):
        row_type = pa.schema([("value", pa.timestamp(unit, "UTC"))])

    moment = datetime(2026, 1, 2, tzinfo=UTC)
    rows = pa.record_batch({"value": pa.array([moment], pa.timestamp(unit, "UTC")), "source_offset": OFFSETS})
    got = DeclaredRows(Timed(), "").checked(rows)  # type: ignore[arg-type]
    assert (got["value"].type, got["value"][0].as_py()) == (pa.timestamp("us", "UTC"), moment)


def test_a_source_that_cannot_read_is_told() -> None:
    class Unread(SourceTask):
        def start(self, config: Any, context: Any) -> None: ...

        def plan(self, after: Any, limit: Any) -> None: ...

    with pytest.raises(NotImplementedError, match="Unread has neither a method reader nor a static method read"):
        Unread().reader(Plan((), 0, 0))
