"""The SQL of a source's queries on SQLite.

Its columns hold values of any type, whatever they declare, and its drivers turn texts that are no numbers into 0. So
numbers are fetched as texts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.source_sql import TEMPORAL_KINDS, FetchedColumn, Ranges, SourceSql

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.connectors.jdbc.contract.tables import Table


class SqliteSourceSql(SourceSql):
    """SQLite."""

    one_writer = True
    keeps_scale = False
    no_time = "neither a text as SQLite's functions write it nor a number"
    integer_type = "INTEGER"
    text_type = "TEXT"

    def fetched(self, column: DatabaseColumn, quoted: str) -> FetchedColumn:
        """Fetches numbers as texts, floating-point ones with as many digits as they need."""
        if column.kind is Kind.TIMESTAMP:
            # The dialect's own expression has milliseconds only.
            column = replace(column, select=self.micros("{}"))
        if column.kind in TEMPORAL_KINDS or column.kind in (Kind.STRING, Kind.BYTES):
            return super().fetched(column, quoted)
        digits = 15 if column.kind in (Kind.NUMERIC, Kind.DECIMAL) else 17
        value = column.reading(quoted)
        real = f"CASE typeof({value}) WHEN 'real' THEN printf('%!.{digits}g', {value}) ELSE CAST({value} AS TEXT) END"
        return FetchedColumn(real, spark.StringType())

    def temporal_number(self, column: DatabaseColumn, value: str) -> str:
        """Takes the numbers into which the dialect has turned dates and times; those of a TIME are in milliseconds."""
        return f"{value} * 1000" if column.kind is Kind.TIME else value

    def micros(self, value: str) -> str:
        """The microseconds of texts as SQLite's functions write them, and of numbers, which are milliseconds."""
        return _MICROS.replace("{}", value)

    def comparable(self, column: DatabaseColumn, quoted: str) -> str:
        """Compares as a number, whatever the column holds: texts and numbers cannot be compared. No index serves it."""
        return self.micros(quoted)

    def unit(self, column: DatabaseColumn) -> int:
        """A second at least: CURRENT_TIMESTAMP has no fraction, and no column declares one."""
        return max(1_000_000, super().unit(column))

    def may_count(self, column: DatabaseColumn) -> bool:
        """Always true: columns of queries do not tell their types."""
        return True

    def number(self, comparable: str) -> str:
        """Returns it unchanged: it is a number."""
        return comparable

    def bound(self, micros: int, zoned: bool) -> str:
        """The number itself."""
        return str(micros)

    def isolation(self, level: str) -> tuple[str, ...]:
        """Switches `read_uncommitted` on or off; without it SQLite's transactions are serializable."""
        return (f"PRAGMA read_uncommitted = {'ON' if level == 'READ_UNCOMMITTED' else 'OFF'}",)

    def ranges(self, connection: Connection, table: Table, name: str) -> Ranges | None:
        """Cuts by the row's number, if rows have one."""
        try:
            return self.spanned(connection, f"{name} t", "t.rowid")
        except Exception:  # a view, a table WITHOUT ROWID
            return super().ranges(connection, table, name)


_FRACTION: Final = "substr({}, instr({}, '.') + 1)"
_DIGITS: Final = f"substr({_FRACTION}, 1, length({_FRACTION}) - length(ltrim({_FRACTION}, '0123456789')))"
_SECONDS: Final = (
    f"CAST(strftime('%s', substr({{}}, 1, instr({{}}, '.') - 1) || ltrim({_FRACTION}, '0123456789')) AS INTEGER)"
)
_TEXT: Final = (
    f"CASE WHEN instr({{}}, '.') > 0 THEN {_SECONDS} * 1000000 + CAST(substr({_DIGITS} || '000000', 1, 6) AS INTEGER) "
    "ELSE CAST(strftime('%s', {}) AS INTEGER) * 1000000 END"
)
_NUMBER: Final = "CASE typeof({}) WHEN 'blob' THEN NULL ELSE CAST(round({} * 1000) AS INTEGER) END"
_MICROS: Final = f"(CASE typeof({{}}) WHEN 'text' THEN {_TEXT} ELSE {_NUMBER} END)"
