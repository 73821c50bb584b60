"""Creates a sink's tables and adds their missing columns, or refuses records with the statement to run.

Decided: only changes that lose no value are made: a table is created, a column added that may be null or has a default,
and by `auto.evolve.widen` a type widened; loses: an operator has to do the rest.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.config import time_zones
from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.sink_options import InsertMode
from headrace.connectors.jdbc.contract.sink_rows import Cell, Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import SinkSql, Target
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.database.connection import Database, DatabaseError
from headrace.connectors.jdbc.sink.envelopes import PLACEHOLDER
from headrace.plugins.schema import Schema, SchemaType, logical

log = logging.getLogger(__name__)

_MOST_TARGETS: Final = 1000
_DOTTED: Final = (
    '. The dots of its topic part the name into schema and table: with table.name.format="${topic}", in double quotes, '
    "they are part of one name"
)


class TableError(Exception):
    """A table cannot take some records, and the sink may not change it."""


class Tables:
    """The tables of one database that are known to be ready. Later changes by others are not seen."""

    def __init__(self, database: Database, sql: SinkSql) -> None:
        self._database = database
        self._sql = sql
        self._options = sql.options
        self._known: dict[TableId, Table] = {}
        self._targets: OrderedDict[tuple[str, RowLayout, tuple[str, ...]], Target] = OrderedDict()

    def target(self, name: str, layout: RowLayout, members: tuple[str, ...] = ()) -> Target:
        """The statements for rows of this layout, after the table of this name was made ready for them.

        Errors: TableError, DatabaseAway, DatabaseError.
        """
        wanted = name, layout, members
        if wanted in self._targets:
            self._targets.move_to_end(wanted)
            return self._targets[wanted]
        written = [name for name in members if self._options.writes(name)]
        if layout.operation is Operation.WRITE and not (layout.cells or written):
            raise TableError(f"No fields found using key and value schemas for table: {name}")
        table = self._ready(name, layout, written)
        if table is None:
            return Target()
        _check_names(table, [cell.name for cell in layout.cells], written)
        self._check_key(table, layout)
        target = replace(self._sql.target(table, layout, written), exact=_has_exact_key(table, layout))
        if self._known.get(table.id, table) != table:
            self._targets.clear()  # those of this table are for the columns that it had
        self._known[table.id], self._targets[wanted] = table, target
        if len(self._targets) > _MOST_TARGETS:  # members may be combined in ever new ways
            self._targets.popitem(last=False)
        return target

    def forget(self) -> None:
        """Forgets all descriptions of tables."""
        self._known.clear()
        self._targets.clear()

    def _id(self, name: str) -> TableId:
        dialect, access = self._sql.dialect, self._database.access
        try:
            found = dialect.table_id(name)
        except ValueError as error:
            raise TableError(f"{error}{self._dotted(name)}") from error
        table = found if self._options.quotes else dialect.folded_id(found)
        if (why := dialect.unreachable(table, access)) is not None:
            raise TableError(f"{why}{self._dotted(name)}")
        return table

    def _dotted(self, name: str) -> str:
        """The remedy if the dots in a table's name come from the topic; else empty."""
        of_format = PLACEHOLDER.sub("", self._options.table_format).count(".")
        is_dotted = "${topic}" in self._options.table_format and name.count(".") > of_format and '"' not in name
        return _DOTTED if is_dotted else ""

    def _folded(self, name: str) -> str:
        """The name as the database folds it without quotes: so folded, it can be quoted all the same."""
        return name if self._options.quotes else self._sql.dialect.folded(name)

    def _ready(self, name: str, layout: RowLayout, members: Sequence[str]) -> Table | None:
        """The table with all columns; None if it is missing and there is nothing to do in it."""
        table = self._id(name)
        found = self._known.get(table)
        if found is None or any(self._lacks(found, layout, members)):
            found = self._described(table) or self._created(table, layout, self._dotted(name))
        if found is None:
            return None
        failed = ""
        for last in (False, False, True):
            lacking, narrow, unknown = self._lacks(found, layout, members)
            if unknown:
                raise TableError(
                    f"Table {table} is missing fields ({', '.join(unknown)}), and values without schema add none: add "
                    "the columns, or leave the fields out by fields.whitelist"
                )
            if not lacking and not narrow:
                return found
            if last:
                break
            failed = self._alter(found, lacking, narrow)
            found = self._described(table) or found
        raise TableError(f"Table {table} did not get its columns: {failed}")

    def _lacks(
        self, table: Table, layout: RowLayout, members: Sequence[str]
    ) -> tuple[list[Cell], list[tuple[DatabaseColumn, str]], list[str]]:
        """Cells without a column, columns of too narrow a type, and members without a column."""
        return (
            [cell for cell in layout.cells if table.column(cell.name) is None],
            self._narrow(table, layout),
            [name for name in members if table.column(name) is None],
        )

    def _described(self, table: TableId) -> Table | None:
        with self._database.connect() as connection:
            return self._sql.dialect.describe(connection, [table]).get(table)

    # -- making --------------------------------------------------------------------------------------------------------

    def _created(self, table: TableId, layout: RowLayout, remedy: str) -> Table | None:
        if layout.members:
            raise TableError(f"Table {table} is missing, and values without schema cannot say how to make it{remedy}")
        if not self._options.creates:
            statement = self._creation(table, layout) if layout.operation is Operation.WRITE else "CREATE TABLE …"
            raise TableError(
                f"Table {table} is missing and auto-creation is disabled; it would be: {statement}{remedy}"
            )
        if layout.operation is not Operation.WRITE:
            return None
        statement = self._creation(table, layout)
        failed, found = self._create(table, layout, statement), self._described(table)
        if found is None:
            unfound = f"Table {table} was made, but is not to be found by this name: {statement}"
            raise TableError(f"{failed or unfound}{remedy}")
        return found

    def _creation(self, table: TableId, layout: RowLayout) -> str:
        lines = [self._specified(cell) for cell in layout.cells]
        if layout.key:
            names = ",".join(self._sql.dialect.quoted(self._folded(cell.name)) for cell in layout.key)
            lines.append(f"PRIMARY KEY({names})")
        return f"CREATE TABLE {self._sql.dialect.name_of(table)} (\n" + ",\n".join(lines) + ")"

    def _specified(self, cell: Cell) -> str:
        schema, dialect = cell.schema, self._sql.dialect
        try:
            kind = dialect.column_type(schema, cell.key)
            if schema.default is not None:
                end = f"DEFAULT {dialect.literal(schema.default, schema, time_zones.zone(self._options.zone))}"
            else:
                end = "NULL" if schema.optional and not cell.key else "NOT NULL"
        except ValueError as error:
            raise TableError(f"{cell.name}: {error}") from error
        return f"{dialect.quoted(self._folded(cell.name))} {kind} {end}"

    # -- changing ------------------------------------------------------------------------------------------------------

    def _alter(self, table: Table, lacking: Sequence[Cell], narrow: Sequence[tuple[DatabaseColumn, str]]) -> str:
        """Changes the table; returns the errors, which may mean that another task has just done the same."""
        statements = [*self._additions(table, lacking), *self._widenings(table, narrow)]
        names = ", ".join(cell.name for cell in lacking)
        todo = "; ".join(statements)
        if table.type is TableType.VIEW:
            raise TableError(f"Table {table.id} is missing fields ({names}) and ALTER VIEW is unsupported")
        if lacking and not self._options.evolves:
            raise TableError(
                f"Table {table.id} is missing fields ({names}) and auto-evolution is disabled; run: {todo}"
            )
        for cell in lacking:
            if not cell.schema.optional and cell.schema.default is None:
                raise TableError(
                    f"Cannot ALTER TABLE {table.id} to add missing field {cell.name}, as the field is not optional and "
                    f"does not have a default value; run: {self._addition(table, [cell]).replace(' NOT NULL', ' NULL')}"
                )
        return self._change(table, lacking, narrow, statements)

    def _additions(self, table: Table, lacking: Sequence[Cell]) -> list[str]:
        if self._sql.adds_one_by_one:
            return [self._addition(table, [cell]) for cell in lacking]
        return [self._addition(table, lacking)] if lacking else []

    def _addition(self, table: Table, lacking: Sequence[Cell]) -> str:
        added = ",\n".join(f"ADD {self._specified(cell)}" for cell in lacking)
        return f"ALTER TABLE {self._sql.name(table)}\n{added}"

    def _narrow(self, table: Table, layout: RowLayout) -> list[tuple[DatabaseColumn, str]]:
        """Columns too narrow for their fields, with the type that fits, if `auto.evolve.widen` is on."""
        may_widen = self._options.evolves and self._options.widens and self._sql.widening
        if not may_widen or table.type is TableType.VIEW or layout.operation is not Operation.WRITE:
            return []
        found = []
        for cell in layout.cells:
            column = table.column(cell.name)
            if column is not None and _needs_wider(column, cell.schema):
                found.append((column, self._sql.dialect.column_type(cell.schema, cell.key)))
        return found

    def _widenings(self, table: Table, narrow: Sequence[tuple[DatabaseColumn, str]]) -> list[str]:
        return [
            self._sql.widening.format(
                table=self._sql.name(table),
                column=self._sql.dialect.quoted(column.name),
                type=kind,
                null="NULL" if column.nullable else "NOT NULL",
            )
            for column, kind in narrow
        ]

    def _create(self, table: TableId, layout: RowLayout, statement: str) -> str:
        """Creates a table of these cells by the statement; returns its error, or an empty text."""
        return self._run(statement)

    def _change(
        self,
        table: Table,
        lacking: Sequence[Cell],
        narrow: Sequence[tuple[DatabaseColumn, str]],
        statements: Sequence[str],
    ) -> str:
        """Adds and widens these columns by the statements; returns their errors, or an empty text."""
        return "; ".join(failed for statement in statements if (failed := self._run(statement)))

    def _run(self, statement: str) -> str:
        """Runs the statement; returns its error, or an empty text."""
        log.info("%s: %s", self._database.access, statement)
        try:
            with self._database.begin() as connection:
                connection.execution_options(no_parameters=True).exec_driver_sql(statement)
        except DatabaseError as error:
            log.info("%s", error)
            return f"{error}; the statement was: {statement}"
        return ""

    def _check_key(self, table: Table, layout: RowLayout) -> None:
        """Refuses an upsert without a unique key of just these columns."""
        upserts = self._options.insert_mode is InsertMode.UPSERT and layout.operation is Operation.WRITE
        if not upserts or table.type is TableType.VIEW:
            return
        names = [column.name for cell in layout.key if (column := table.column(cell.name)) is not None]
        if any(set(key) == set(names) for key in (table.key, *table.unique)):
            return
        columns = ", ".join(map(self._sql.dialect.quoted, names))
        kind = "ADD UNIQUE" if table.key else "ADD PRIMARY KEY"
        raise TableError(
            f"Table {table.id} has no unique key on just ({', '.join(names)}), by which an upsert finds its row; run: "
            f"ALTER TABLE {self._sql.name(table)} {kind} ({columns})"
        )


def _check_names(table: Table, names: Sequence[str], members: Sequence[str]) -> None:
    """Refuses two fields of one column, since only one could be written; a key is a member's own value."""
    taken: dict[str, str] = {}
    for number, name in enumerate((*names, *members)):
        column = table.column(name)
        if column is None:
            continue
        other = taken.get(column.name)
        taken[column.name] = name
        if other is not None and (other != name or number < len(names)):
            raise TableError(
                f"Fields {other} and {name} are both column {column.name} of table {table.id}: add a column for one of "
                "them, or leave it out by fields.whitelist"
            )


def _has_exact_key(table: Table, layout: RowLayout) -> bool:
    """True if keys that differ here differ for the table."""
    keys = [(cell, table.column(cell.name)) for cell in layout.key]
    return all(cell.schema.type is not SchemaType.STRING or (one is not None and one.exact) for cell, one in keys)


_WHOLE: Final = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)
_WHOLE_SCHEMAS: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)


def _needs_wider(column: DatabaseColumn, schema: Schema) -> bool:
    """True if the field's type holds more than the column's, and all of that."""
    if logical(schema) is not None or column.autoincrement or column.has_default:
        return False
    if column.kind in _WHOLE and schema.type in _WHOLE_SCHEMAS:
        return _WHOLE.index(column.kind) < _WHOLE_SCHEMAS.index(schema.type)
    return column.kind is Kind.FLOAT32 and schema.type is SchemaType.FLOAT64
