"""The SQL of a sink on SQLite: one bound JSON document for many rows, which `json_each` unnests.

Measured (300,000 rows of three columns, half of them updates): 684,000 rows/s, sqlite3's `executemany` 474,000.

Its columns take anything, so every item is cast to the type of its schema: an integer stays one in an untyped column.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.columns import Kind
from headrace.connectors.jdbc.contract.documents import item_path, item_text
from headrace.connectors.jdbc.contract.sink_options import InsertMode
from headrace.connectors.jdbc.contract.sink_rows import Form, Operation, RowLayout, Value, time_text
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, BoundColumn, SinkSql, Target
from headrace.connectors.jdbc.contract.tables import Table
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, SchemaType, logical

_UNHEX: Final = "headrace_unhex"
"""A function that is registered on each connection: SQLite has its own only from 3.41 on."""
_DAY_MS: Final = 86_400_000
_INTEGERS: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.BOOLEAN)
_FLOATS: Final = (SchemaType.FLOAT32, SchemaType.FLOAT64)


class SqliteSinkSql(SinkSql):
    """SQLite from 3.37 on."""

    adds_one_by_one = True

    @property
    def form(self) -> Form:
        """JSON documents."""
        return Form(documents=True, cell=lambda value: value.column, item=self._item)

    def target(self, table: Table, layout: RowLayout, members: Sequence[str] = ()) -> Target:
        """Always one statement."""
        if (truncated := self.truncated(table, layout)) is not None:
            return truncated
        bound, name = self.bound(table, layout, members), self.name(table)
        values = ", ".join(f"{self._value(layout, one)} AS {one.place}" for one in bound)
        rows = f"SELECT {values} FROM json_each({DOCUMENT}) AS e"
        if layout.operation is Operation.DELETE:
            keys = [one for one in bound if one.key]
            return Target(steps=(f"DELETE FROM {name} WHERE ({self.columns(keys)}) IN ({rows})",))
        if self.options.insert_mode is InsertMode.UPDATE:
            sets = self.sets(bound, "s.{place}")
            step = f"UPDATE {name} AS t SET {sets} FROM ({rows}) AS s WHERE {self.matches(bound)}"
            return Target(steps=(step,) if sets else ())
        # Without a WHERE the parser would take ON for a join's.
        return Target(steps=(f"INSERT INTO {name} ({self.columns(bound)}) {rows} WHERE true{self.on_conflict(bound)}",))

    def prepare_documents(self, connection: Connection) -> None:
        """Registers the function that reads bytes in hex."""
        driver: Any = connection.connection.driver_connection
        driver.create_function(_UNHEX, 1, _unhex, deterministic=True)

    def _value(self, layout: RowLayout, one: BoundColumn) -> str:
        """An item as a value of its schema's type."""
        number = len(layout.cells) if one.cell is None else layout.cells.index(one.cell)
        where = item_path(number, one.member).replace("'", "''")
        found = f"json_extract(e.value, '{where}')"
        schema = one.schema
        if schema is None:
            return found
        kind = logical(schema)
        is_text = one.column.kind is Kind.STRING
        if kind == TIME or (kind == TIMESTAMP and self.options.zone != "UTC"):
            bar = f"instr({found}, '|')"
            found = f"substr({found}, {bar} + 1)" if is_text else f"substr({found}, 1, {bar} - 1)"
        if kind == TIME and is_text:
            return found
        if kind in (DATE, TIMESTAMP) and is_text:
            return _TEXTS[kind].format(f"{found} / 1000.0, 'unixepoch'")
        if kind is not None:
            return found if kind == DECIMAL else f"CAST({found} AS NUMERIC)"
        if schema.type in _INTEGERS:
            return f"CAST({found} AS INTEGER)"
        if schema.type in _FLOATS:
            infinite = "WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999 WHEN 'NaN' THEN NULL"
            return f"CASE {found} {infinite} ELSE CAST({found} AS REAL) END"
        return f"{_UNHEX}({found})" if schema.type is SchemaType.BYTES else found

    def _item(self, value: Value) -> Column:
        """The text of a value; dates and times are milliseconds, as Confluent's connector stores them.

        A time comes twice, separated by a bar: as a number, and as what is shown of it, for texts; so does a timestamp
        where `db.timezone` is not UTC, by its clock.
        """
        column, kind = value.column, logical(value.schema)
        if value.text:
            return column
        if kind == DATE:
            return (F.unix_date(column).cast("bigint") * F.lit(_DAY_MS)).cast("string")
        if kind == TIME:
            return F.concat(column.cast("string"), F.lit("|"), time_text(column, 3))
        if kind == TIMESTAMP:
            if self.options.zone == "UTC":
                return _millis(column)
            return F.concat(_millis(column), F.lit("|"), _millis(F.from_utc_timestamp(column, self.options.zone)))
        return item_text(column, value)


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _millis(column: Column) -> Column:
    return (F.unix_micros(column).cast("decimal(20,0)") * F.lit(Decimal("0.001"))).cast("string")


_TEXTS: Final = {
    DATE: "date({})",
    TIMESTAMP: "strftime('%Y-%m-%d %H:%M:%f', {})",
}
