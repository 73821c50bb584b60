"""What a sink would do with some rows: its statements, made as for writing and never run.

Tables are described in transactions that only read. A table that is missing, or lacks columns, is from then on what its
DDL would make of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, BoundColumn, SinkSql
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway
from headrace.connectors.jdbc.sink.chunk_parts import ChunkParts, RowKind
from headrace.connectors.jdbc.sink.evolution import TableError, Tables
from headrace.connectors.jdbc.sink.offset_table import OffsetTable
from headrace.connectors.jdbc.sink.writer import together
from headrace.plugins.contracts import RecordFailure, RecordsFailed, TopicPartition
from headrace.plugins.extensions import Effect

_ROW: Final = "preview_row"
"""The column of rows' indexes."""
ROWS: Final = ":rows"
"""Stands in a shown statement for the JSON document of all rows."""


class Ddl(NamedTuple):
    """A statement that would change tables."""

    action: str
    table: TableId
    statement: str


class PlannedTables(Tables):
    """The tables as they would be after their DDL, which is collected in place of run."""

    def __init__(self, database: Database, sql: SinkSql) -> None:
        super().__init__(database, sql)
        self.ddl: list[Ddl] = []
        self._planned: dict[TableId, Table] = {}

    def ready(self, name: str) -> Table | None:
        """The table of this name, once `target` has made statements for it; None if it is missing."""
        return self._known.get(self._id(name))

    def _described(self, table: TableId) -> Table | None:
        if table in self._planned or self._database.is_missing_file:
            return self._planned.get(table)
        return super()._described(table)

    def _create(self, table: TableId, layout: RowLayout, statement: str) -> str:
        self.ddl.append(Ddl("create table", table, statement))
        key = tuple(self._folded(cell.name) for cell in layout.key)
        self._planned[table] = Table(table, TableType.TABLE, self._columns(layout.cells), key)
        return ""

    def _change(
        self,
        table: Table,
        lacking: Sequence[Cell],
        narrow: Sequence[tuple[DatabaseColumn, str]],
        statements: Sequence[str],
    ) -> str:
        self.ddl += [Ddl("alter table", table.id, statement) for statement in statements]
        specified = [(column.name, kind) for column, kind in narrow]
        wider = {
            one.name: replace(one, nullable=column.nullable)
            for one, (column, _) in zip(self._made(specified), narrow, strict=True)
        }
        columns = (*(wider.get(one.name, one) for one in table.columns), *self._columns(lacking))
        self._planned[table.id] = replace(table, columns=columns)
        return ""

    def _columns(self, cells: Sequence[Cell]) -> tuple[DatabaseColumn, ...]:
        dialect = self._sql.dialect
        made = self._made([(self._folded(cell.name), dialect.column_type(cell.schema, cell.key)) for cell in cells])
        return tuple(
            replace(one, nullable=cell.schema.optional and not cell.key, has_default=cell.schema.default is not None)
            for one, cell in zip(made, cells, strict=True)
        )

    def _made(self, specified: Sequence[tuple[str, str]]) -> tuple[DatabaseColumn, ...]:
        return self._sql.dialect.new_columns(self._database.connect, specified)


@dataclass
class SinkPreview:
    """The preview of one sink task; its database only reads."""

    database: Database
    options: SinkOptions
    layouts: dict[int, RowLayout]
    notes: list[str] = field(default_factory=list)
    """What a reader has to know beside the effects."""

    def __post_init__(self) -> None:
        self._sql = self.database.dialect.sink_sql(self.options)
        self._tables = PlannedTables(self.database, self._sql)
        self._parts = ChunkParts(self.layouts, self.options, self._tables)

    def effects(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the DDL, and then what becomes of each row.

        Errors: RecordsFailed, last, for rows that cannot be written; DatabaseAway, DatabaseError.
        """
        rows = together(batches)
        yield from self._begun(rows)
        if rows is None:
            return
        rows = rows.append_column(_ROW, pa.array(range(len(rows)), pa.int64()))
        failures = [RecordFailure(row, why) for row, why in enumerate(rows["refused"].to_pylist()) if why is not None]
        rows, more = self._takable(rows.filter(rows["refused"].is_null()))
        yield from (Effect(one.action, str(one.table), {"sql": one.statement}) for one in self._tables.ddl)
        left = set(rows[_ROW].to_pylist())
        for kind, part in self._parts.ordered(rows):
            left -= set(part[_ROW].to_pylist())
            yield from self._written(kind, part)
        yield from self._left_out(rows, left)
        if failures := sorted([*failures, *more]):
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def _begun(self, rows: pa.RecordBatch | None) -> Iterator[Effect]:
        """What a task does before its first row."""
        self.notes.append(
            "Constraints, triggers, rights and conversions of the database are met only when rows are written."
        )
        if self.database.is_missing_file:
            file = self.database.access.url.database or ""
            if not os.path.isdir(os.path.dirname(file) or "."):
                raise DatabaseAway(f"{self.database.access}, connecting: there is no such directory")
            yield Effect("create database", file)
        if (name := self.options.offsets_table) is None:
            return
        offsets = OffsetTable(self.database, self.database.dialect.table_id(name), self.options.connector)
        self.notes.append(f"Each transaction also stores its records' offsets in {name}.")
        if self.database.is_missing_file or not offsets.exists():
            yield Effect("create table", name, {"sql": offsets.creation})
        elif rows is not None:
            firsts = _firsts(rows)
            for partition, offset in offsets.stored(firsts).items():
                if firsts[partition] <= offset:
                    self.notes.append(
                        f"{name} has {partition.topic}-{partition.partition} written up to offset {offset}: the "
                        "connector does not write these records again."
                    )

    def _takable(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RecordFailure]]:
        """The rows whose tables take them, or would after DDL; and the failures of the others."""
        failures: list[RecordFailure] = []
        good: list[int] = []
        places = list(zip(*(rows[name].to_pylist() for name in ("table", "layout", "shape")), strict=True))
        # In the order of `ChunkParts.prepare`, because DDL depends on it.
        for place in sorted(dict.fromkeys(places), key=lambda one: (one[0] or "", places.index(one))):
            mine = [row for row, one in enumerate(places) if one == place]
            try:
                self._parts.prepare(rows.slice(mine[0], 1))
            except TableError as error:
                failures += [RecordFailure(rows[_ROW][row].as_py(), str(error)) for row in mine]
            else:
                good += mine
        return rows.take(pa.array(sorted(good), pa.int64())), failures

    def _written(self, kind: RowKind, part: pa.RecordBatch) -> Iterator[Effect]:
        table, layout = self._tables.ready(kind.table), kind.layout
        places = part[_ROW].to_pylist()
        is_write = layout.operation is Operation.WRITE
        action = self.options.insert_mode.value if is_write else layout.operation.value
        target = kind.target
        statements = [one for one in (target.stage, target.copy, *target.steps) if one is not None]
        if table is None or not statements:
            why = "there is no such table" if table is None else "it has no columns but those of its key"
            yield from (Effect("none", kind.table, {"why": why}, row) for row in places)
            return
        members = [one for one in kind.members if self.options.writes(one)]
        bound = self._sql.bound(table, layout, members)
        if not is_write:
            bound = [one for one in bound if one.key]
        sql = [one.replace(DOCUMENT, ROWS) for one in statements]
        for row, values in zip(places, _values(layout, bound, part), strict=True):
            yield Effect(action, str(table.id), {"sql": sql, "parameters": values}, row)

    def _left_out(self, rows: pa.RecordBatch, left: set[int]) -> Iterator[Effect]:
        """What becomes of rows that nothing is written for."""
        for row, layout, table in zip(*(rows[name].to_pylist() for name in (_ROW, "layout", "table")), strict=True):
            if row in left:
                is_known = layout in self.layouts
                why = "a later record overwrites or deletes its row" if is_known else "by the settings it has no effect"
                yield Effect("none", table or "", {"why": why}, row)


def _values(layout: RowLayout, bound: Sequence[BoundColumn], part: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the values of each row as they are sent, by the table's columns."""
    if layout.document is None:
        cells = [(one.column.name, part[one.cell.arrow].to_pylist()) for one in bound if one.cell is not None]
        for row in range(len(part)):
            yield {name: values[row] for name, values in cells}
        return
    for document in map(json.loads, part[layout.document].to_pylist()):
        yield {
            one.column.name: document[-1].get(one.member)
            if one.cell is None
            else document[layout.cells.index(one.cell)]
            for one in bound
        }


def _firsts(rows: pa.RecordBatch) -> dict[TopicPartition, int]:
    """The least offset of each partition among these rows."""
    origin = rows.select(["origin_topic", "origin_partition", "origin_offset"])
    found = pa.Table.from_batches([origin]).group_by(["origin_topic", "origin_partition"])
    return {
        TopicPartition(one["origin_topic"], one["origin_partition"]): one["origin_offset_min"]
        for one in found.aggregate([("origin_offset", "min")]).to_pylist()
    }
