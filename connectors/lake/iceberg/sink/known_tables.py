"""The tables of a sink task: loaded, made and evolved before their rows are written.

Decided: a missing table fails the task unless tables are made, because its records would be lost while offsets go on;
loses: Apache's sink passes such records over if they name their tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog import Catalog
from headrace.connectors.lake.iceberg.files.arrow_schema import paths
from headrace.connectors.lake.iceberg.files.targets import BY_KEY, Known, NoTable, Table, Target
from headrace.connectors.lake.iceberg.schemas import AddColumn, Changes, Struct
from headrace.connectors.lake.iceberg.sink.columns import SinkColumns
from headrace.connectors.lake.iceberg.sink.evolution import Evolution, added
from headrace.connectors.lake.iceberg.sink.settings import CDC_FIELD, ID_COLUMNS, OF_TABLE, UPSERTS, SinkOptions
from headrace.connectors.lake.iceberg.sink.types import struct_of, struct_of_arrow
from headrace.connectors.lake.iceberg.tables import Marks, TableState
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)


class KnownTables:
    """Implements `files.targets.Targets`: the tables, and the connector's marks in them."""

    def __init__(
        self,
        catalog: Catalog,
        options: SinkOptions,
        columns: SinkColumns,
        topic_ids: Callable[[], Mapping[str, str]],
        is_preview: bool = False,
    ) -> None:
        self._catalog = catalog
        self._options = options
        self._columns = columns
        self._topic_ids = topic_ids
        self._level = logging.DEBUG if is_preview else logging.INFO
        self._evolution = Evolution(options.ignores_case)
        self._states: dict[str, TableState] = {}
        self._marks: dict[str, Marks] = {}
        self._targets: dict[str, Target] = {}
        self._met = set[tuple[str, int]]()
        self._told = set[tuple[str, tuple[str, ...]]]()

    @property
    def known(self) -> Known:
        """The tables that are ready, for a job."""
        return Known({name: Table(target) for name, target in self._targets.items()}, frozenset(self._met))

    def forget(self) -> None:
        """Forget all: tables and marks are read again."""
        self._states.clear()
        self._marks.clear()
        self._targets.clear()
        self._met.clear()

    def is_missing(self, table: str) -> bool:
        """Return True if the table is not there. Errors: those of the catalog."""
        return self._loaded(table) is None

    def marks(self, table: str) -> Marks:
        """Return the connector's marks in the table; none if it is missing. Errors: those of the catalog."""
        if table not in self._marks:
            is_there = self._loaded(table) is not None
            self._marks[table] = self._catalog.marks(table, self._topic_ids()) if is_there else {}
        return self._marks[table]

    def committed(self, table: str, positions: Mapping[TopicPartition, int]) -> None:
        """Note the marks after a commit; the table is read again before the next rows, as others may change it."""
        self._marks[table] = {**self.marks(table), **positions}
        self._states.pop(table, None)
        if (known := self._targets.get(table)) is not None:
            self._targets[table] = replace(known, marks=self._marks[table])

    def target(self, name: str, layout: int, columns: pa.StructType) -> Target:
        """Return the table, made ready for values of this layout.

        Errors: NoTable, LakeError, ConfigError, RetriableError.
        """
        record = self._record(layout, columns)
        state = self._loaded(name) or self._created(name, layout, columns)
        keys = self._keys(state) if self._options.upserts else ()
        if layout != BY_KEY:
            state = self._evolved(state, record, keys, self._columns.layouts[layout] is None)
        state = replace(state, properties={**state.properties, **self._options.write_properties})
        target = self._targets[name] = Target(state, self.marks(name), keys)
        self._met.add((name, layout))
        return target

    def _record(self, layout: int, columns: pa.StructType, forces_optional: bool = False) -> Struct:
        """The columns for these values: by their schema, or by their JSON if that was read."""
        schema = None if layout == BY_KEY else self._columns.layouts[layout]
        if schema is not None:
            return struct_of(schema, forces_optional)
        return struct_of_arrow(columns) if pa.types.is_struct(columns) else Struct(())

    def _loaded(self, name: str) -> TableState | None:
        if name not in self._states and (found := self._catalog.load(name)) is not None:
            self._states[name] = found
        return self._states.get(name)

    def _created(self, name: str, layout: int, columns: pa.StructType) -> TableState:
        options, record = self._options, self._record(layout, columns, self._options.forces_optional)
        if not options.creates:
            raise LakeError(
                f"Table {name} is missing in the catalog; create it, or set iceberg.tables.auto-create-enabled=true"
            )
        if layout == BY_KEY or not record.fields:
            raise NoTable(f"Table {name} is missing, and this record has no fields that say how to make it")
        names = options.id_columns(name)
        if options.upserts and not names:
            raise self._keyless(name)
        keys = [one.name if (one := self._evolution.column(record, key)) is not None else key for key in names]
        there = {".".join(one.name for one in path) for path in paths(record)}
        if lost := [key for key in keys if key not in there]:
            raise NoTable(f"Table {name} is missing, and this record has no field {lost[0]}, a part of the table's key")
        made = self._catalog.create(name, record, options.partition_by(name), keys, options.create_properties)
        log.log(self._level, "Table %s is made, with %d columns", name, len(made.schema.fields))
        self._states[name] = made
        return made

    def _changes(self, state: TableState, record: Struct, keys: tuple[str, ...], is_json: bool) -> Changes:
        """The changes of the table. JSON tells of new fields only: all its numbers are long, and all may be null."""
        changes = replace(self._evolution, keys={*keys, *state.identifier}).changes(state.schema, record)
        return [one for one in changes if isinstance(one, AddColumn)] if is_json else changes

    def _evolved(self, state: TableState, record: Struct, keys: tuple[str, ...], is_json: bool) -> TableState:
        changes = self._changes(state, record, keys, is_json)
        if changes and self._options.evolves:
            try:
                made = self._states[state.name] = self._catalog.evolve(state.name, changes)
            except LakeError:
                newest = self._catalog.load(state.name)
                if newest is None or newest.schema_id == state.schema_id:
                    raise
                self._states[state.name] = newest  # another task has made such columns, of other types
                return self._evolved(newest, record, keys, is_json)
            log.log(self._level, "Table %s is changed: %s", state.name, "; ".join(map(str, changes)))
            return made
        if unknown := added(changes):
            self._tell(state.name, unknown)
        return state

    def _tell(self, table: str, unknown: tuple[str, ...]) -> None:
        if (table, unknown) not in self._told:
            self._told.add((table, unknown))
            log.warning(
                "Table %s has no columns for the fields %s, which are left out; iceberg.tables.evolve-schema-enabled="
                "true adds them",
                table,
                ", ".join(unknown),
            )

    def _keys(self, state: TableState) -> tuple[str, ...]:
        """The paths of the columns of the table's key."""
        names = self._options.id_columns(state.name) or state.identifier
        if not names:
            raise self._keyless(state.name)
        return tuple(
            one.name if (one := self._evolution.column(state.schema, name)) is not None else name for name in names
        )

    def _keyless(self, table: str) -> LakeError:
        setting = UPSERTS if self._options.values[UPSERTS] else CDC_FIELD
        return LakeError(
            f"Table {table} has no identifier fields, by which {setting} finds rows; set "
            f"{OF_TABLE}{table}.{ID_COLUMNS} to the columns of its key"
        )
