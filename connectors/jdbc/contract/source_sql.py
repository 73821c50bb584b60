"""The SQL that a source asks in, as far as databases differ: how values travel, how moments are compared.

Values travel through the JVM's driver as few, plain types, so that neither driver nor Spark interprets them and no
time zone is between: numbers and texts as they are, decimals as text, and moments as whole numbers.

| kind | travels as |
|---|---|
| DATE | days since the epoch |
| TIME | microseconds since midnight |
| TIMESTAMP | microseconds since the epoch, of its wall clock as if that were UTC where it is not `zoned` |
| NUMERIC, DECIMAL, unsigned INT64 | text |
| ARRAY | a JSON array of what its elements travel as (bytes in hex); an empty text where it has several dimensions |

A moment that is no number of these (infinity, a date of zeros) travels as `NO_MOMENT`.
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

NO_MOMENT: Final = -(2**63)
MOMENTS: Final = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP)

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
"""All others travel as 64-bit integers."""
_WHOLE: Final = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)


class FetchedColumn(NamedTuple):
    """How a column's values come out of the database."""

    sql: str
    type: spark.DataType


class Ranges(NamedTuple):
    """What cuts rows into pieces: an expression, whose values are in `[low, high]`."""

    sql: str
    low: int
    high: int
    bound: Callable[[int], str] = str
    """A number of these as the constant that the expression is compared with."""

    def cut(self, pieces: int, sql: str) -> tuple[str, ...]:
        """Conditions for `sql`, which stands for the expression, in its order; the outer ones are open, so that
        nothing falls out."""
        span = self.high - self.low + 1
        count = max(1, min(pieces, span))
        inner = [self.bound(self.low + span * number // count) for number in range(1, count)]
        return tuple(
            " AND ".join(f"{sql} {sign} {at}" for sign, at in ((">=", low), ("<", high)) if at is not None)
            for low, high in zip([None, *inner], [*inner, None], strict=True)
        )


class SourceSql:
    """What most databases take."""

    def __init__(self, quoted: Callable[[str], str]) -> None:
        self.quoted = quoted
        """The dialect's way to write a name."""

    one_writer: ClassVar[bool] = False
    """Whether transactions that write come one after the other, so that none commits late."""
    session: ClassVar[tuple[str, ...]] = ()
    """Statements that make each connection as this class expects it, where its driver does not."""
    integer_type: ClassVar[str] = "BIGINT"
    text_type: ClassVar[str] = "VARCHAR(65535)"
    moment_literal: ClassVar[str] = "TIMESTAMP '{}'"
    zoned_literal: ClassVar[str] = "TIMESTAMP '{}+00:00'"

    # Values

    def fetched(self, column: DatabaseColumn, quoted: str) -> FetchedColumn:
        """What to select for a column; `quoted` is its name in the statement."""
        value, kind = column.reading(quoted), column.kind
        if kind in MOMENTS:
            return FetchedColumn(f"COALESCE({self.moment(column, value)}, {_no_moment(quoted)})", spark.LongType())
        if kind is Kind.ARRAY and column.element is not None:
            return FetchedColumn(self.array(column.element, value), spark.StringType())
        if kind in (Kind.NUMERIC, Kind.DECIMAL) or (kind is Kind.INT64 and column.unsigned):
            return FetchedColumn(self.text(value), spark.StringType())
        return FetchedColumn(value, _TYPES.get(kind, spark.LongType()))

    def moment(self, column: DatabaseColumn, value: str) -> str:
        """The number that a DATE, TIME or TIMESTAMP travels as; NULL for what is none."""
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
        """A timestamp column as it is compared with `bound`, by an index where there is one.

        Errors: ValueError for a column that is none.
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
        """What `comparable` gave as a number of microseconds."""
        return self.micros(comparable)

    def may_count(self, column: DatabaseColumn) -> bool:
        """Whether the values of an incrementing column may all be whole numbers."""
        return column.kind in _WHOLE or (
            column.kind in (Kind.NUMERIC, Kind.DECIMAL) and column.scale is not None and column.scale <= 0
        )

    def bound(self, micros: int, zoned: bool) -> str:
        """A constant that `comparable` columns are compared with, of the units in which these travel."""
        shown = datetime(1970, 1, 1) + timedelta(microseconds=micros)
        text = f"{shown.isoformat(' ', 'microseconds')}"
        return (self.zoned_literal if zoned else self.moment_literal).format(text)

    def limited(self, select: str, rows: int) -> str:
        """The first rows of a SELECT."""
        return f"{select} LIMIT {rows}"

    def isolation(self, level: str) -> tuple[str, ...]:
        """Statements after which a session's transactions have this isolation level, also one that has just begun."""
        named = level.replace("_", " ")
        whole = f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {named}"
        return whole, f"SET TRANSACTION ISOLATION LEVEL {named}"

    # Queries and tables as a whole

    def seems_to_bind(self, query: str) -> bool:
        """Whether a driver that prepares the query takes one of its operators for a parameter."""
        return False

    def size(self, connection: Connection, table: TableId, name: str) -> tuple[int, int] | None:
        """About how many rows and bytes a table has, as far as the database remembers; None: it does not.

        `name`: the table's quoted name.
        """
        return None

    def ranges(self, connection: Connection, table: Table, name: str) -> Ranges | None:
        """What cuts the table into pieces: its key, where that is one whole number; None: nothing does."""
        key = table.column(table.key[0]) if len(table.key) == 1 else None
        if key is None or key.kind not in _WHOLE:
            return None
        return self.spanned(connection, f"{name} t", f"t.{self.quoted(key.name)}")

    def spanned(self, connection: Connection, source: str, value: str) -> Ranges | None:
        """The range of a whole number over what follows FROM; None where there are no rows."""
        low, high = single_row(connection, f"SELECT MIN({value}), MAX({value}) FROM {source}")
        return None if low is None else Ranges(value, int(low), int(high))

    def transactions(self) -> OpenTransactions | None:
        """Tells of open transactions, so that windows wait for rows that are committed late; None: it cannot."""
        return None

    def same_snapshot(self, connection: Connection) -> tuple[str, ...]:
        """Statements after which other transactions see what this connection's sees; none: they cannot."""
        return ()

    def spark_url(self, url: str) -> str:
        """The JVM driver's URL by which Spark finds its own dialect."""
        return url


def rows_of(connection: Connection, query: str) -> Any:
    """The rows of a query's answer; nothing in its text is a placeholder."""
    return connection.execution_options(no_parameters=True).exec_driver_sql(query)


def single_row(connection: Connection, query: str) -> Any:
    """The only row of a query's answer; nothing in its text is a placeholder."""
    return rows_of(connection, query).one()


def _no_moment(quoted: str) -> str:
    # Not the number itself: to the parser the minus is an operator, and 2**63 no 64-bit integer.
    return f"CASE WHEN {quoted} IS NOT NULL THEN -9223372036854775807 - 1 END"
