"""Shows what the Iceberg sink would do with some rows: tables made or changed, and what becomes of each row.

Rows go through the sink's own code, up to files that are thrown away. The catalog is only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.lake.iceberg.catalog import Catalog
from headrace.connectors.lake.iceberg.files.files import Files, FilesSpec
from headrace.connectors.lake.iceberg.partition_terms import spec_json
from headrace.connectors.lake.iceberg.parts import TableCommit
from headrace.connectors.lake.iceberg.schema_json import new_schema, struct_of
from headrace.connectors.lake.iceberg.schemas import (
    AddColumn,
    Change,
    Changes,
    Field,
    ListOf,
    MapOf,
    Struct,
    Type,
    Widen,
)
from headrace.connectors.lake.iceberg.sink.columns import Op, SinkColumns
from headrace.connectors.lake.iceberg.sink.known_tables import KnownTables
from headrace.connectors.lake.iceberg.sink.settings import SinkOptions
from headrace.connectors.lake.iceberg.tables import Marks, PartitionSpec, TableState
from headrace.plugins.errors import RecordFailure, RecordsFailed
from headrace.plugins.extensions import Effect
from headrace.plugins.scratch import local_disk, scratch_folder

_ACTIONS: Final = {Op.APPEND: "append", Op.UPSERT: "upsert", Op.DELETE: "delete"}


@dataclass
class PreviewedCatalog:
    """Reads a catalog; tells of tables that would be made or changed."""

    of: Catalog
    effects: list[Effect] = field(default_factory=list)
    _changed: dict[str, TableState] = field(default_factory=dict)

    def load(self, table: str) -> TableState | None:
        """As `Catalog.load`, with the changes that were told."""
        return self._changed.get(table) or self.of.load(table)

    def marks(self, table: str, topic_ids: Mapping[str, str]) -> Marks:
        """Return no marks: rows that the table has already are shown, too."""
        return {}

    def create(
        self,
        table: str,
        schema: Struct,
        partition_by: Sequence[str],
        identifier: Sequence[str],
        properties: Mapping[str, str],
    ) -> TableState:
        """Tell of the table. Errors: ConfigError for a wrong partition."""
        made = new_schema(schema, identifier)
        spec_json(made, partition_by)
        columns = {one.name: _shown(one) for one in struct_of(made).fields}
        detail = {"columns": columns, "partition by": list(partition_by), "properties": dict(properties)}
        self.effects.append(Effect("create table", table, detail))
        version = int(properties.get("format-version", "2"))
        state = TableState(
            table, "", version, 0, struct_of(made), PartitionSpec(0), tuple(identifier), properties, 0, True
        )
        self._changed[table] = state
        return state

    def evolve(self, table: str, changes: Changes) -> TableState:
        """Tell of the changes."""
        state = self.load(table)
        assert state is not None, "only known tables are changed"
        schema = state.schema
        for change in changes:
            schema = applied(schema, change)
        self.effects.append(Effect("alter table", table, {"changes": [str(one) for one in changes]}))
        self._changed[table] = replace(state, schema=schema)
        return self._changed[table]

    def set_marks(self, table: str, topic_ids: Mapping[str, str], marks: Marks | None) -> None:
        """Errors: NotImplementedError, as for all that a preview never does."""
        raise NotImplementedError("a preview sets no marks")

    def commit(self, commits: Sequence[TableCommit], topic_ids: Mapping[str, str]) -> Mapping[str, bool]:
        """Errors: as `set_marks`."""
        raise NotImplementedError("a preview commits nothing")

    def close(self) -> None:
        """Close nothing: the catalog is the task's."""


@dataclass
class LakePreview:
    """The preview of one sink task."""

    catalog: Catalog
    options: SinkOptions
    columns: SinkColumns
    spec: FilesSpec
    notes: list[str] = field(default_factory=list)
    """Sentences for a reader of the effects."""

    def effects(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the effects. Errors: RecordsFailed, last, for rows that cannot be written; those of the catalog."""
        catalog, failures, first = PreviewedCatalog(self.catalog), list[RecordFailure](), 0
        tables = KnownTables(catalog, self.options, self.columns, dict, is_preview=True)
        with local_disk("rows of tables"):
            folder = scratch_folder("lake")
        files = Files(replace(self.spec, tolerates=True), tables, folder.name)
        try:
            for batch in batches:
                bad = files.add(batch)
                yield from catalog.effects
                catalog.effects.clear()
                failures += (one._replace(row=first + one.row) for one in bad)
                yield from self._rows(batch, {one.row for one in bad}, first)
                first += len(batch)
        finally:
            files.drop()
            folder.cleanup()
        self.notes.append(
            f"Rows are seen in their tables once they are committed, {self.options.interval_s:g} s after the first."
        )
        if failures:
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def _rows(self, batch: pa.RecordBatch, bad: set[int], first: int) -> Iterator[Effect]:
        for index, row in enumerate(batch.to_pylist()):
            if index in bad:
                continue
            tables = () if row["op"] is None else self.spec.routes(row["route"])
            for table in tables:
                yield Effect(_ACTIONS[Op(row["op"])], table, {"value": _value(row)}, first + index)
            if not tables:
                why = "it has no value" if row["op"] is None else "its route is that of no table"
                yield Effect("none", "", {"why": why}, first + index)


def _value(row: Mapping[str, Any]) -> Any:
    """The record's value, or its key if that is all it has."""
    if row["layout"] is not None:
        return row[f"value_{row['layout']}"]
    return row[f"key_{row['key_layout']}"]


def _shown(column: Field) -> str:
    kind = column.type if isinstance(column.type, str) else type(column.type).__name__.removesuffix("Of").lower()
    return f"{kind}{' required' if column.required else ''}"


def applied(schema: Struct, change: Change) -> Struct:
    """Return the schema after the change, without ids of new columns."""
    path = change.parent if isinstance(change, AddColumn) else change.path
    made = _applied(schema, path, change)
    assert isinstance(made, Struct)
    return made


def _applied(kind: Type, path: Sequence[str], change: Change) -> Type:
    if not path and isinstance(change, AddColumn) and isinstance(kind, Struct):
        return Struct((*kind.fields, Field(0, change.name, change.type)))
    if not path:
        return change.type if isinstance(change, Widen) else kind
    inner, is_relaxed = path[1:], len(path) == 1 and not isinstance(change, AddColumn | Widen)
    match kind:
        case Struct():
            return Struct(
                tuple(
                    replace(one, type=_applied(one.type, inner, change), required=one.required and not is_relaxed)
                    if one.name == path[0]
                    else one
                    for one in kind.fields
                )
            )
        case ListOf():
            made = _applied(kind.element, inner, change)
            return replace(kind, element=made, element_required=kind.element_required and not is_relaxed)
        case MapOf():
            made = _applied(kind.value, inner, change)
            return replace(kind, value=made, value_required=kind.value_required and not is_relaxed)
    return kind
