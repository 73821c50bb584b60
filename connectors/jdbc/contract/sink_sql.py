"""The statements that write a batch's rows into a table.

A `Target` is what the rows of one layout need for one table. Values are bound by the type of the column they go to.
They are sent as text: to PostgreSQL as CSV through COPY, to the others in one bound JSON document, which the database
unnests. If a column would read that text wrongly, an expression stands between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.sink_options import InsertMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Form, Operation, RowLayout
from headrace.connectors.jdbc.contract.tables import Table
from headrace.plugins.schema import Schema

if TYPE_CHECKING:
    from headrace.connectors.jdbc.contract.dialect import Dialect

DOCUMENT: Final = "\ufdd0"
"""Placeholder of the bound document in a statement."""


@dataclass(frozen=True)
class Target:
    """The statements for rows of one layout and one table. The document is bound in those with `DOCUMENT`."""

    arrow: tuple[str, ...] = ()
    """The copied columns of the batch, in the statement's order."""
    stage: str | None = None
    """Creates the stage if it is missing."""
    check: str | None = None
    """Tells if the columns still have the types that this was made for, and if the stage exists."""
    copy: str | None = None
    """Copies rows into the stage, or into the table itself."""
    steps: tuple[str, ...] = ()
    """The statements after the copy, for each document."""
    clear: str | None = None
    """Empties the stage for its next use within a transaction."""
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The table's columns by their names in the stage."""
    exact: bool = True
    """True if keys that differ here differ for the table; else two of them may name one row."""


class BoundColumn(NamedTuple):
    """A column of the table that gets values."""

    column: DatabaseColumn
    number: int
    cell: Cell | None = None
    member: str | None = None
    """The member of a value without schema that the column gets in place of a cell."""

    @property
    def place(self) -> str:
        """Its name in the stage or in the unnested document."""
        return f"c{self.number}"

    @property
    def key(self) -> bool:
        """True if it is part of the key."""
        return self.cell is not None and self.cell.key

    @property
    def schema(self) -> Schema | None:
        """The schema of its values; None: text that the column reads itself."""
        return None if self.cell is None or self.cell.text else self.cell.schema


class SinkSql(ABC):
    """Writes the statements for one database, by one connector's options."""

    empty: ClassVar[str] = "DELETE FROM {}"
    """Removes all rows, within a transaction."""
    adds_one_by_one: ClassVar[bool] = False
    """True if ALTER TABLE adds one column at most."""
    widening: ClassVar[str] = ""
    """Gives a `{column}` of a `{table}` another `{type}`, `{null}` or not; empty if types bound nothing."""

    def __init__(self, dialect: Dialect, options: SinkOptions) -> None:
        self.dialect = dialect
        self.options = options

    @property
    @abstractmethod
    def form(self) -> Form:
        """The form of values."""

    @abstractmethod
    def target(self, table: Table, layout: RowLayout, members: Sequence[str] = ()) -> Target:
        """The statements for rows of this layout; the table has a column for each of their values."""

    def bound(self, table: Table, layout: RowLayout, members: Sequence[str]) -> list[BoundColumn]:
        """The columns that rows have values for, without those that the database computes."""
        found: dict[str, BoundColumn] = {}
        for name, cell in [*((cell.name, cell) for cell in layout.cells), *((name, None) for name in members)]:
            column = table.column(name)
            assert column is not None, f"evolution left {name} out of {table.id}"
            if column.name not in found:
                found[column.name] = BoundColumn(column, len(found), cell, name if cell is None else None)
        return [one for one in found.values() if not one.column.generated]

    def name(self, table: Table) -> str:
        """The table in a statement."""
        return self.dialect.name_of(table.id)

    def quoted(self, one: BoundColumn) -> str:
        """The column in a statement."""
        return self.dialect.quoted(one.column.name)

    def columns(self, bound: Sequence[BoundColumn]) -> str:
        """The columns' names, joined by commas."""
        return ", ".join(map(self.quoted, bound))

    def sets(self, bound: Sequence[BoundColumn], value: str, table: str = "") -> str:
        """Assignments to all columns but the key's; `{column}` and `{place}` in `value` stand for a column's names."""
        return ", ".join(
            f"{table}{self.quoted(one)} = {value.format(column=self.quoted(one), place=one.place)}"
            for one in bound
            if not one.key
        )

    def matches(self, bound: Sequence[BoundColumn], value: str = "s.{place}") -> str:
        """The condition that the keys of `t`, the table, equal those of `s`, the new rows; `value` as in `sets`."""
        keys = [(self.quoted(one), one.place) for one in bound if one.key]
        return " AND ".join(f"t.{column} = {value.format(column=column, place=place)}" for column, place in keys)

    def on_conflict(self, bound: Sequence[BoundColumn]) -> str:
        """The ON CONFLICT clause of an INSERT, as PostgreSQL and SQLite write it."""
        if self.options.insert_mode is not InsertMode.UPSERT:
            return ""
        keys = self.columns([one for one in bound if one.key])
        sets = self.sets(bound, "EXCLUDED.{column}")
        return f" ON CONFLICT ({keys}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")

    def prepare_documents(self, connection: Connection) -> None:  # noqa: B027 - most have nothing to do
        """Prepares a session for statements with documents. Called once a connection."""

    def check_values(self, connection: Connection) -> None:  # noqa: B027 - most have nothing to do
        """Raises the driver's error if the last statement changed a value to fit. Called after each document."""

    def document_limits(self, connection: Connection) -> tuple[int, int]:
        """The size of documents, and the largest size of one with a single row. Units: bytes of `document_size`."""
        return 64 << 20, 256 << 20

    def document_size(self, connection: Connection, document: str) -> int:
        """The document's size on its way to the server. Units: bytes."""
        return len(document.encode())

    def truncated(self, table: Table, layout: RowLayout) -> Target | None:
        """The statements for rows that empty the table; None for other rows."""
        if layout.operation is not Operation.TRUNCATE:
            return None
        return Target(steps=(self.empty.format(self.name(table)),))
