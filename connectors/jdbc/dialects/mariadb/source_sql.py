"""The SQL of a source's queries on MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.source_sql import FetchedColumn, SourceSql
from headrace.connectors.jdbc.dialects.mariadb.parameters import ZeroDates

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.connectors.jdbc.contract.tables import TableId

_FIRST_DAY: Final = {Kind.DATE: -719_162, Kind.TIMESTAMP: -719_162 * 86_400_000_000}
"""January 1 of the year 1, in the fetched form."""


class MariadbSourceSql(SourceSql):
    """MariaDB and MySQL."""

    integer_type = "SIGNED"
    text_type = "CHAR"
    no_time = "a date of zeros, or of a month or day that is zero (of the former see zeroDateTimeBehavior)"
    zoned_literal = "TIMESTAMP '{}'"

    def __init__(self, quoted: Callable[[str], str], zero_dates: ZeroDates = ZeroDates.EXCEPTION) -> None:
        super().__init__(quoted)
        self._zero_dates = zero_dates

    def fetched(self, column: DatabaseColumn, quoted: str) -> FetchedColumn:
        """Fetches a FLOAT as a DOUBLE, since the server writes six digits of a FLOAT; dates of zeros by `ZeroDates`."""
        if column.kind is Kind.FLOAT32:
            return FetchedColumn(f"({column.reading(quoted)} + 0e0)", spark.DoubleType())
        found = super().fetched(column, quoted)
        first = _FIRST_DAY.get(column.kind)
        if first is None or self._zero_dates is ZeroDates.EXCEPTION:
            return found
        becomes = "NULL" if self._zero_dates is ZeroDates.NULL else first
        # Compared as a number: a strict server refuses a date of zeros.
        sql = f"CASE WHEN {column.reading(quoted)} + 0 = 0 THEN {becomes} ELSE {found.sql} END"
        return FetchedColumn(sql, found.type, may_be_null=self._zero_dates is ZeroDates.NULL)

    def days(self, value: str) -> str:
        """The days since the epoch; NULL for dates of zeros."""
        return f"(TO_DAYS({value}) - 719528)"

    def micros_of_day(self, value: str) -> str:
        """The microseconds of a TIME, which may be negative or more than a day."""
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', TIMESTAMP('1970-01-01', {value}))"

    def micros(self, value: str) -> str:
        """The microseconds since the epoch; NULL for dates of zeros. The session shows TIMESTAMPs in UTC."""
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})"

    def isolation(self, level: str) -> tuple[str, ...]:
        """A single statement: the JVM's driver takes no more at once."""
        return (f"SET SESSION TRANSACTION ISOLATION LEVEL {level.replace('_', ' ')}",)

    def size(self, connection: Connection, table: TableId, name: str) -> tuple[int, int] | None:
        """InnoDB's estimates."""
        catalog = "DATABASE()" if table.catalog is None else _text(table.catalog)
        row: Any = (
            connection.execution_options(no_parameters=True)
            .exec_driver_sql(
                "SELECT TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES "
                f"WHERE TABLE_SCHEMA = {catalog} AND TABLE_NAME = {_text(table.table)}"
            )
            .first()
        )
        return None if row is None or row[0] is None else (int(row[0]), int(row[1] or 0))

    def spark_url(self, url: str) -> str:
        """Uses MySQL's name: Spark does not know MariaDB's, and quotes names of unknown databases wrongly."""
        return f"{url.replace('jdbc:mariadb:', 'jdbc:mysql:', 1)}?permitMysqlScheme=true"


def _text(value: str) -> str:
    # In hex: a backslash's meaning depends on the server's settings.
    return f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)"
