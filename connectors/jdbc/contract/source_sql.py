"""The SQL of a source's queries: fetching values and comparing timestamps, which differ between databases.

Values pass through the JVM's driver in few, plain types, so that neither driver nor Spark interprets them and no time
zone intervenes: numbers and texts as they are, decimals as text, and dates and times as whole numbers.

| kind | fetched as |
|---|---|
| DATE | days since the epoch |
| TIME | microseconds since midnight |
| TIMESTAMP | microseconds since the epoch; of its wall clock read as UTC if it is not `zoned` |
| NUMERIC, DECIMAL, unsigned INT64 | text |
| ARRAY | a JSON array of its elements so fetched (bytes in hex); an empty text if it has several dimensions |

A date or time that is no such number (infinity, a date of zeros) is fetched as -2**63.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.connectors.jdbc.contract.open_transactions import OpenTransactions
    from headrace.connectors.jdbc.contract.tables import Table, TableId

TEMPORAL_KINDS: Final = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP)

_TYPES: Final = {
    Kind.BOOLEAN: spark.BooleanType(),
    Kind.FLOAT32: spark.DoubleType(),
    Kind.FLOAT64: spark.DoubleType(),
    Kind.NUMERIC: spark.StringType(),
    Kind.DECIMAL: spark.StringType(),
    Kind.STRING: spark.StringType(),
    Kind.BYTES: spark.BinaryType(),
    Kind.ARRAY: spark.StringType(),
}
"""All others are fetched as 64-bit integers."""
_WHOLE: Final = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)


class FetchedColumn(NamedTuple):
    """The expression that fetches a column, and its type in Spark."""

    sql: str
    type: spark.DataType
    may_be_null: bool = False
    """True if the fetched value may be null although the column's is not."""


class Ranges(NamedTuple):
    """The expression that cuts rows into pieces; its values are in `[low, high]`."""

    sql: str
    low: int
    high: int
    bound: Callable[[int], str] = str
    """Writes a value as the constant that the expression is compared with."""

    def cut(self, pieces: int, sql: str) -> tuple[str, ...]:
        """The pieces' conditions, with `sql` for the expression. The outer two are open, so that no row is left out."""
        span = self.high - self.low + 1
        count = max(1, min(pieces, span))
        inner = [self.bound(self.low + span * number // count) for number in range(1, count)]
        return tuple(
            " AND ".join(f"{sql} {sign} {at}" for sign, at in ((">=", low), ("<", high)) if at is not None)
            for low, high in zip([None, *inner], [*inner, None], strict=True)
        )


class SourceSql:
    """Writes a source's SQL as most databases take it; a dialect overrides the differences."""

    def __init__(self, quoted: Callable[[str], str]) -> None:
        self.quoted = quoted
        """Puts a name in the dialect's quotes."""

    one_writer: ClassVar[bool] = False
    """True if writing transactions run one after the other, so that none commits late."""
    session: ClassVar[tuple[str, ...]] = ()
    """Statements that prepare a connection, if its driver does not."""
    keeps_scale: ClassVar[bool] = True
    """True if no number in a column is longer than the column declares."""
    no_time: ClassVar[str] = "no date or time that can be counted"
    """Describes a date or time that is fetched as -2**63."""
    integer_type: ClassVar[str] = "BIGINT"
    text_type: ClassVar[str] = "VARCHAR(65535)"
    timestamp_literal: ClassVar[str] = "TIMESTAMP '{}'"
    zoned_literal: ClassVar[str] = "TIMESTAMP '{}+00:00'"

    # Values

    def fetched(self, column: DatabaseColumn, quoted: str) -> FetchedColumn:
        """The expression that fetches a column; `quoted` is its name in the statement."""
        value, kind = column.reading(quoted), column.kind
        if kind in TEMPORAL_KINDS:
            return FetchedColumn(
                f"COALESCE({self.temporal_number(column, value)}, {_no_number(quoted)})", spark.LongType()
            )
        if kind is Kind.ARRAY and column.element is not None:
            return FetchedColumn(self.array(column.element, value), spark.StringType())
        if kind in (Kind.NUMERIC, Kind.DECIMAL) or (kind is Kind.INT64 and column.unsigned):
            return FetchedColumn(self.text(value), spark.StringType())
        return FetchedColumn(value, _TYPES.get(kind, spark.LongType()))

    def temporal_number(self, column: DatabaseColumn, value: str) -> str:
        """The number that a DATE, TIME or TIMESTAMP is fetched as; NULL if it has none."""
        if column.kind is Kind.DATE:
            return self.days(value)
        return self.micros_of_day(value) if column.kind is Kind.TIME else self.micros(value)

    def days(self, value: str) -> str:
        """The days of a date since the epoch."""
        return f"CAST(CAST({value} AS DATE) - DATE '1970-01-01' AS {self.integer_type})"

    def micros_of_day(self, value: str) -> str:
        """The microseconds of a time of day."""
        return f"CAST(EXTRACT(EPOCH FROM {value}) * 1000000 AS {self.integer_type})"

    def micros(self, value: str) -> str:
        """The microseconds of a timestamp."""
        return f"CAST(EXTRACT(EPOCH FROM {value}) * 1000000 AS {self.integer_type})"

    def text(self, value: str) -> str:
        """A number's digits."""
        return f"CAST({value} AS {self.text_type})"

    def integer(self, value: str) -> str:
        """A number as 64-bit integer."""
        return f"CAST({value} AS {self.integer_type})"

    def array(self, element: DatabaseColumn, value: str) -> str:
        """An array as JSON."""
        raise NotImplementedError(f"{type(self).__name__} has no arrays")

    # Windows

    def comparable(self, column: DatabaseColumn, quoted: str) -> str:
        """A timestamp column as it is compared with `bound`, such that an index can be used.

        Errors: ValueError for a column of another type.
        """
        if column.kind not in (Kind.TIMESTAMP, Kind.DATE):
            raise ValueError(f"column {column.name} has type {column.type_name}, which is no timestamp")
        return column.reading(quoted)

    def unit(self, column: DatabaseColumn) -> int:
        """The least step between two values of a timestamp column. Units: microseconds."""
        if column.kind is Kind.DATE:
            return 86_400_000_000
        return int(10 ** (6 - (6 if column.precision is None else column.precision)))

    def number(self, comparable: str) -> str:
        """The result of `comparable` in microseconds."""
        return self.micros(comparable)

    def may_count(self, column: DatabaseColumn) -> bool:
        """True if the values of an incrementing column may all be whole numbers."""
        return column.kind in _WHOLE or (
            column.kind in (Kind.NUMERIC, Kind.DECIMAL) and column.scale is not None and column.scale <= 0
        )

    def bound(self, micros: int, zoned: bool) -> str:
        """A constant to compare `comparable` columns with, from the units of fetched values."""
        shown = datetime(1970, 1, 1) + timedelta(microseconds=micros)
        text = f"{shown.isoformat(' ', 'microseconds')}"
        return (self.zoned_literal if zoned else self.timestamp_literal).format(text)

    def limited(self, select: str, rows: int) -> str:
        """The first rows of a SELECT."""
        return f"{select} LIMIT {rows}"

    def isolation(self, level: str) -> tuple[str, ...]:
        """Statements that set the isolation level of a session's transactions, also of one that has just begun."""
        named = level.replace("_", " ")
        whole = f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {named}"
        return whole, f"SET TRANSACTION ISOLATION LEVEL {named}"

    # Queries and tables as a whole

    def seems_to_bind(self, query: str) -> bool:
        """True if a driver that prepares the query would take one of its operators for a parameter."""
        return False

    def size(self, connection: Connection, table: TableId, name: str) -> tuple[int, int] | None:
        """The database's estimate of a table's rows and bytes; None if it has none. `name`: the table's quoted name."""
        return None

    def ranges(self, connection: Connection, table: Table, name: str) -> Ranges | None:
        """The ranges that cut the table into pieces, by a key of one whole number; None without such a key."""
        key = table.column(table.key[0]) if len(table.key) == 1 else None
        if key is None or key.kind not in _WHOLE:
            return None
        return self.spanned(connection, f"{name} t", f"t.{self.quoted(key.name)}")

    def spanned(self, connection: Connection, source: str, value: str) -> Ranges | None:
        """The range of a whole number over `source`, which follows FROM; None if it has no rows."""
        low, high = single_row(connection, f"SELECT MIN({value}), MAX({value}) FROM {source}")
        return None if low is None else Ranges(value, int(low), int(high))

    def transactions(self) -> OpenTransactions | None:
        """The list of open transactions that windows wait for; None if the database gives none."""
        return None

    def same_snapshot(self, connection: Connection) -> tuple[str, ...]:
        """Statements that give other transactions this connection's snapshot; empty if that is impossible."""
        return ()

    def spark_url(self, url: str) -> str:
        """The JVM driver's URL in the form by which Spark finds its own dialect."""
        return url


def rows_of(connection: Connection, query: str) -> Any:
    """The rows of a query. Nothing in its text is a placeholder."""
    return connection.execution_options(no_parameters=True).exec_driver_sql(query)


def single_row(connection: Connection, query: str) -> Any:
    """The only row of a query. Nothing in its text is a placeholder."""
    return rows_of(connection, query).one()


def _no_number(quoted: str) -> str:
    # Not the number itself: to the parser the minus is an operator, and 2**63 no 64-bit integer.
    return f"CASE WHEN {quoted} IS NOT NULL THEN -9223372036854775807 - 1 END"
