"""The SQL of a source's queries on PostgreSQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.literals import text_literal
from headrace.connectors.jdbc.contract.source_sql import Ranges, SourceSql, rows_of, single_row
from headrace.connectors.jdbc.contract.tables import TableType
from headrace.connectors.jdbc.dialects.postgresql.open_transactions import APPLICATION, PostgresqlOpenTransactions

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.connectors.jdbc.contract.tables import Table, TableId


class PostgresqlSourceSql(SourceSql):
    """PostgreSQL."""

    session = (
        "SET TIME ZONE 'UTC'",
        f"SET application_name = '{APPLICATION}'",
        # A read waits for Kafka for as long as that takes. Not every server has all of these.
        "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings "
        "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')",
    )
    text_type = "text"
    no_time = "infinite, or beyond the year 294246"
    zoned_literal = "TIMESTAMPTZ '{}+00'"

    def days(self, value: str) -> str:
        """The days since the epoch; NULL for infinity, from which nothing can be subtracted."""
        return f"CASE WHEN isfinite({value}) THEN ({value} - DATE '1970-01-01')::bigint END"

    def micros(self, value: str) -> str:
        """The microseconds since the epoch; NULL for infinity and the last years, whose numbers exceed a bigint."""
        bounded = f"{value} > '-infinity' AND {value} < '294247-01-01'"
        return f"CASE WHEN {bounded} THEN (extract(epoch FROM {value}) * 1000000)::bigint END"

    def micros_of_day(self, value: str) -> str:
        """The exact microseconds: 24:00 is a day."""
        return f"(extract(epoch FROM {value}) * 1000000)::bigint"

    def array(self, element: DatabaseColumn, value: str) -> str:
        """An array as JSON. One of several dimensions, which unnest flattens, becomes an empty text."""
        if element.select == "{}::text":
            # By the database itself: to unnest a composite type makes columns of its fields, and rows of its nulls.
            items = f"array_to_json({value}::text[])::text"
        else:
            item = "encode(x, 'hex')" if element.kind is Kind.BYTES else self.fetched(element, "x").sql
            items = f"array_to_json(ARRAY(SELECT {item} FROM unnest({value}) AS u (x)))::text"
        return (
            f"CASE WHEN array_ndims({value}) > 1 THEN '' WHEN {value} IS NOT NULL THEN {items} END"  # NULL stays NULL
        )

    def comparable(self, column: DatabaseColumn, quoted: str) -> str:
        """Compares a date as the timestamp of its midnight."""
        found = super().comparable(column, quoted)
        return f"{found}::timestamp" if column.kind is Kind.DATE else found

    def seems_to_bind(self, query: str) -> bool:
        """True if the query has a `?`, as operators of jsonb do."""
        return "?" in _NO_CODE.sub("", query)

    def size(self, connection: Connection, table: TableId, name: str) -> tuple[int, int] | None:
        """The statistics' rows, scaled to the table's present size."""
        rows, pages, size, whole = single_row(
            connection,
            "SELECT reltuples::bigint, relpages::bigint, pg_relation_size(oid), pg_table_size(oid) "
            f"FROM pg_catalog.pg_class WHERE oid = {text_literal(name)}::regclass",
        )
        if rows < 0 or pages <= 0:
            return None
        return int(rows * size / (pages * 8192)), int(whole)

    def ranges(self, connection: Connection, table: Table, name: str) -> Ranges | None:
        """Cuts by blocks, which are of equal size and read one after the other; a table of parts by its key."""
        if table.type is not TableType.TABLE:
            return super().ranges(connection, table, name)
        (blocks,) = single_row(connection, f"SELECT pg_relation_size({text_literal(name)}::regclass) / 8192")
        return Ranges("t.ctid", 0, int(blocks) - 1, "'({},0)'::tid".format) if blocks else None

    def transactions(self) -> PostgresqlOpenTransactions:
        """The open transactions, by their locks."""
        return PostgresqlOpenTransactions()

    def same_snapshot(self, connection: Connection) -> tuple[str, ...]:
        """Exports the snapshot of `connection`'s transaction, which must stay open meanwhile."""
        rows_of(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = single_row(connection, "SELECT pg_export_snapshot()")
        return "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", f"SET TRANSACTION SNAPSHOT {text_literal(name)}"


_NO_CODE: Final = re.compile(
    r"""(?<!\w)[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(?<![\w$])\$((?:[^\W\d]\w*)?)\$.*?\$\1\$""",
    re.DOTALL,
)
"""Texts, quoted names and comments. One with a doubled quote counts as two."""
