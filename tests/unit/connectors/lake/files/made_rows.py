"""Rows, tables and tasks for the tests of a table's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connectors.lake.iceberg.files.files import FilesSpec
from headrace.connectors.lake.iceberg.files.targets import Target
from headrace.connectors.lake.iceberg.parts import LakePart, WrittenFile
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import PartitionSpec, TableState
from headrace.plugins.schema import Schema, SchemaType

STRUCT = Schema(SchemaType.STRUCT)
ORDERS = Struct((Field(1, "id", "long", required=True), Field(2, "name", "string")))
ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
TABLE = "db.orders"


def state(schema: Struct = ORDERS, **changes: Any) -> TableState:
    """A table."""
    return replace(TableState(TABLE, "uuid-1", 2, 0, schema, PartitionSpec(0)), **changes)


@dataclass
class ScriptedTargets:
    """A task that knows one table, of any name."""

    now: Target
    asked: list[tuple[str, int, pa.DataType]] = field(default_factory=list)

    def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
        self.asked.append((name, layout, columns))
        return replace(self.now, state=replace(self.now.state, name=name))


def spec(layouts: Sequence[Schema | None] = (STRUCT,), **changes: Any) -> FilesSpec:
    """Rules by which all rows go to one table, and are due at once."""
    return replace(FilesSpec(lambda _: [TABLE], 0.0, layouts=list(layouts)), **changes)


def rows(values: Sequence[Any], kind: pa.DataType = ORDER, first: int = 0, **columns: Sequence[Any]) -> pa.RecordBatch:
    """A batch of one partition, of layout 0."""
    count = len(values)
    made: dict[str, Any] = {
        "origin_topic": pa.array(["orders"] * count),
        "origin_partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "error": pa.array([None] * count, pa.string()),
        "layout": pa.array([None if one is None else 0 for one in values], pa.int32()),
        "value_0": pa.array(values, kind),
    }
    return pa.RecordBatch.from_pydict({**made, **columns})


def orders(*pairs: tuple[int | None, str | None]) -> list[Mapping[str, Any]]:
    """Orders of these ids and names."""
    return [{"id": number, "name": name} for number, name in pairs]


def files_of(part: LakePart, content: str = "data") -> list[WrittenFile]:
    """All files of a kind."""
    return [file for table in part.tables for file in table.files if file.content == content]


def read(part: LakePart, content: str = "data") -> list[dict[str, Any]]:
    """All rows of the files of a kind."""
    return [row for file in files_of(part, content) for row in pq.read_table(file.local).to_pylist()]
