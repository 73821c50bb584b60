"""The task of the Iceberg source: each plan reads some files of each of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.schemas import Struct
from headrace.connectors.lake.iceberg.source.columns import connect_schema, key_paths
from headrace.connectors.lake.iceberg.source.following import Chosen, Following
from headrace.connectors.lake.iceberg.source.positions import OFFSET_TYPE, partition_of, position_of
from headrace.connectors.lake.iceberg.source.reader import VALUE, Piece, TableRows, TablesReader
from headrace.connectors.lake.iceberg.source.scans import Scans
from headrace.connectors.lake.iceberg.source.settings import source_options
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PreviewedSource, RowsOfSeveralTypes
from headrace.plugins.interop.catalyst.spark_internals import complete_context
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.scratch import scratch_folder

_EXPANDED: Final = 4
"""Bytes of rows in memory for each byte of a file, as an estimate."""


@dataclass(frozen=True)
class _Shape:
    """The rows of a table at one time."""

    table: str
    struct: Struct
    schema: Schema
    keys: tuple[tuple[str, ...], ...]
    """Paths of the key columns."""


class IcebergSourceTask(SourceTask, RowsOfSeveralTypes, PreviewedSource):
    """Reads the files that are appended to tables, through local copies."""

    place = Place.WORKER_HOST
    offset_type = OFFSET_TYPE

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to plan. Errors: ConfigError."""
        self._options = source_options(config)
        settings = CatalogSettings.of(config, context.worker)
        self._catalog = JvmCatalog(
            settings,
            context.connector,
            context.task,
            lambda table: self._options.branch,
            interrupted_by=context.interrupted_by,
        )
        self._folder = scratch_folder("iceberg")
        self._scans = Scans(self._catalog, settings, Path(self._folder.name))
        self._tables = [Following(self._scans, table, self._options) for table in self._options.tables]
        self._shapes: list[_Shape] = []
        self._chosen: list[tuple[Following, Chosen]] = []

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`: tables are only read."""
        self.start(config, context)

    def topics(self) -> Sequence[str]:
        """The topics of the tables."""
        return list(dict.fromkeys(map(self._options.topic_of, self._options.tables)))

    def partitions(self) -> Sequence[SourcePartition]:
        """The tables."""
        return [partition_of(table) for table in self._options.tables]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plan the next files of each table; None before Spark runs, too. Errors: LakeError, RetriableError."""
        if complete_context() is None:
            return None
        count = len(self._tables)
        self._limit = Limit(max(1, limit.rows // count), max(1, limit.bytes // count))
        self._chosen = []
        for table, offset in zip(self._tables, after, strict=True):
            position = None if offset is None else position_of(offset)
            found = table.next(position, self._limit.rows, max(1, self._limit.bytes // _EXPANDED))
            if found is not None:
                self._chosen.append((table, found))
        if not self._chosen:
            return None
        splits = tuple(self._split(table, chosen) for table, chosen in self._chosen)
        sizes = [_EXPANDED * sum(file.size for file in chosen.files) for _, chosen in self._chosen]
        rows = sum(min(chosen.rows, self._limit.rows) for _, chosen in self._chosen)
        return Plan(splits, rows, sum(min(size, self._limit.bytes) for size in sizes))

    def _split(self, table: Following, chosen: Chosen) -> Split:
        shape = self._shape_of(table)
        if shape not in self._shapes:
            self._shapes.append(shape)
        number = str(self._shapes.index(shape))
        begin = chosen.begin.stored()
        return Split(partition_of(table.table), begin, None, number, offset_if_empty=chosen.end.stored())

    def _shape_of(self, table: Following) -> _Shape:
        state = table.state
        keys = key_paths(table.table, state.schema, self._options.key_columns or state.identifier)
        return _Shape(table.table, state.schema, connect_schema(table.table, state.schema), keys)

    def reader(self, plan: Plan) -> ArrowReader:
        """Copy the planned files and return a reader of the copies. Errors: LakeError, RetriableError."""
        shapes = [self._shapes[int(split.shape)] for split in plan.splits]
        return TablesReader(tuple(self._rows(*one, shape) for one, shape in zip(self._chosen, shapes, strict=True)))

    def _rows(self, table: Following, chosen: Chosen, shape: _Shape) -> TableRows:
        self._scans.keep(table.table, chosen.begin.snapshot, chosen.files)
        pieces: list[Piece] = []
        after = chosen.end
        for number in reversed(range(len(chosen.files))):
            file = chosen.files[number]
            begin = chosen.begin if number == 0 else replace(chosen.begin, file=chosen.begin.file + number, row=0)
            local = self._scans.copy(table.table, begin.snapshot, begin.whole, file)
            if local is not None and pq.read_metadata(local).num_rows > begin.row:
                pieces.insert(0, Piece(local, file.path, begin, after))
                after = begin
        own = table.table, shape.struct, shape.schema, table.defaults
        return TableRows(*own, tuple(pieces), *self._limit)

    def row_type_of(self, shape: str) -> pa.Schema:
        """A struct."""
        return pa.schema([(VALUE, arrow_type_of_schema(self._shapes[int(shape)].schema))])

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Each row is a value, its key columns are the key."""
        found = self._shapes[int(shape)]
        value, topic = F.col(VALUE), F.lit(self._options.topic_of(found.table))
        if not found.keys:
            return source_records(frame, topic, value, found.schema)
        parts = [(path[-1], *_at(value, found.schema, path)) for path in found.keys]
        key = F.struct(*(column.alias(name) for name, column, _ in parts))
        fields = tuple(Field(name, schema) for name, _, schema in parts)
        key_schema = Schema(SchemaType.STRUCT, name=f"{found.table}.Key", fields=fields)
        return source_records(frame, topic, value, found.schema, key=key, key_schema=key_schema)

    def stop(self) -> None:
        """Close the catalog, delete the copies."""
        if hasattr(self, "_scans"):
            self._scans.close()
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _at(value: Column, schema: Schema, path: Sequence[str]) -> tuple[Column, Schema]:
    """Return the column at a path, and its schema."""
    for name in path:
        field = schema.field(name)
        assert field is not None
        value, schema = value.getField(name), field.schema
    return value, schema
