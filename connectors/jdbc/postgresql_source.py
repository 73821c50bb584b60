"""The SQL that a source asks PostgreSQL in."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from headrace.connectors.jdbc.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.source_sql import Ranges, SourceSql, asked
from headrace.connectors.jdbc.tables import TableType

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.connectors.jdbc.tables import Table, TableId


APPLICATION: Final = "headrace source"
"""What sources call themselves, so that their long reads are not taken for transactions that may write."""


class PostgresqlSource(SourceSql):
    """PostgreSQL."""

    session = (
        "SET TIME ZONE 'UTC'",
        f"SET application_name = '{APPLICATION}'",
        # A read waits for Kafka for as long as that takes. Not every server has all of these.
        "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings "
        "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')",
    )
    text_type = "text"
    zoned_literal = "TIMESTAMPTZ '{}+00'"

    def days(self, value: str) -> str:
        """NULL for infinity, from which nothing can be subtracted."""
        return f"CASE WHEN isfinite({value}) THEN ({value} - DATE '1970-01-01')::bigint END"

    def micros(self, value: str) -> str:
        """NULL for infinity, and for the last years that there are, whose microseconds are beyond a bigint."""
        bounded = f"{value} > '-infinity' AND {value} < '294247-01-01'"
        return f"CASE WHEN {bounded} THEN (extract(epoch FROM {value}) * 1000000)::bigint END"

    def micros_of_day(self, value: str) -> str:
        """Exact: 24:00 is a day."""
        return f"(extract(epoch FROM {value}) * 1000000)::bigint"

    def array(self, element: DatabaseColumn, value: str) -> str:
        """What arrays of several dimensions have in a row cannot be told apart any more: they are an empty text."""
        if element.select == "{}::text":
            # By the database itself: to unnest a composite type makes columns of its fields, and rows of its nulls.
            items = f"array_to_json({value}::text[])::text"
        else:
            item = "encode(x, 'hex')" if element.kind is Kind.BYTES else self.travelling(element, "x").sql
            items = f"array_to_json(ARRAY(SELECT {item} FROM unnest({value}) AS u (x)))::text"
        return (
            f"CASE WHEN array_ndims({value}) > 1 THEN '' WHEN {value} IS NOT NULL THEN {items} END"  # NULL stays NULL
        )

    def comparable(self, column: DatabaseColumn, quoted: str) -> str:
        """A date is the timestamp of its midnight."""
        found = super().comparable(column, quoted)
        return f"{found}::timestamp" if column.kind is Kind.DATE else found

    def seems_to_bind(self, query: str) -> bool:
        """Operators of jsonb and others are written with a `?`."""
        return "?" in _NO_CODE.sub("", query)

    def size(self, connection: Connection, table: TableId, name: str) -> tuple[int, int] | None:
        """By the statistics, scaled to the table's size of now."""
        rows, pages, size, whole = asked(
            connection,
            "SELECT reltuples::bigint, relpages::bigint, pg_relation_size(oid), pg_table_size(oid) "
            f"FROM pg_catalog.pg_class WHERE oid = '{_in_text(name)}'::regclass",
        )
        if rows < 0 or pages <= 0:
            return None
        return int(rows * size / (pages * 8192)), int(whole)

    def ranges(self, connection: Connection, table: Table, name: str) -> Ranges | None:
        """By blocks, which are of equal size and read one after the other; a table of parts by its key."""
        if table.type is not TableType.TABLE:
            return super().ranges(connection, table, name)
        (blocks,) = asked(connection, f"SELECT pg_relation_size('{_in_text(name)}'::regclass) / 8192")
        return Ranges("t.ctid", 0, int(blocks) - 1, "'({},0)'::tid".format) if blocks else None

    def same_snapshot(self, connection: Connection) -> tuple[str, ...]:
        """Of `connection`'s transaction, which must stay open for so long."""
        _rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        (name,) = asked(connection, "SELECT pg_export_snapshot()")
        return "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", f"SET TRANSACTION SNAPSHOT '{_in_text(name)}'"


_NO_CODE: Final = re.compile(
    r"""(?<!\w)[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|(?<![\w$])\$((?:[^\W\d]\w*)?)\$.*?\$\1\$""",
    re.DOTALL,
)
"""Texts, quoted names and comments; one with a doubled quote counts as two."""

ANY_TABLE: Final = ""
"""Stands for all tables of the database, where nobody knows which ones a view or a query reads."""


def open_writers(connection: Connection, tables: Collection[str]) -> dict[str, frozenset[str]]:
    """The transactions that write to these tables (quoted names, or `ANY_TABLE`) and have not ended.

    Decided: by the lock that every INSERT, UPDATE and DELETE takes before it computes its row, and that its transaction
    keeps to its end. A bound by `pg_snapshot_xmin` loses rows: a transaction that wrote elsewhere first has a smaller
    number than one that took a smaller id from the sequence, so its greater id seems settled; and it waits for every
    long transaction of the server, whatever that writes. Loses: what took its id before its INSERT, from a sequence
    with CACHE or in a statement of its own, is not waited for; that is what `incrementing.overlap` is for.
    """
    names = [name for name in tables if name != ANY_TABLE]
    found: dict[str, set[str]] = {name: set() for name in tables}
    if names:
        values = ", ".join(f"('{_in_text(name)}')" for name in sorted(names))
        for name, transaction in _rows(connection, _WRITERS.replace("<names>", values)):
            found[name].add(transaction)
    if ANY_TABLE in found:
        found[ANY_TABLE].update(transaction for (transaction,) in _rows(connection, _ANY_WRITERS))
    return {name: frozenset(transactions) for name, transactions in found.items()}


def is_standby(connection: Connection) -> bool:
    """Whether the server follows another one, at which transactions write."""
    return bool(asked(connection, "SELECT pg_is_in_recovery()")[0])


def open_transactions(connection: Connection) -> dict[str, bool]:
    """All transactions in this database that have not ended, but one's own; whether each has written anything."""
    return {transaction: bool(wrote) for transaction, wrote in _rows(connection, _TRANSACTIONS)}


_LOCKED: Final = """
l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
"""
_WRITERS: Final = f"""
WITH RECURSIVE r AS (
  SELECT v.name, to_regclass(v.name)::oid AS id FROM (VALUES <names>) AS v (name)
  UNION SELECT r.name, i.inhrelid FROM r JOIN pg_catalog.pg_inherits i ON i.inhparent = r.id
)
SELECT DISTINCT r.name, l.virtualtransaction FROM r JOIN pg_catalog.pg_locks l ON l.relation = r.id
WHERE {_LOCKED}
"""
_ANY_WRITERS: Final = f"""
SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks l WHERE l.relation >= 16384 AND {_LOCKED}
"""
_TRANSACTIONS: Final = f"""
SELECT l.virtualtransaction, bool_or(l.locktype = 'transactionid')
FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.locktype IN ('virtualxid', 'transactionid') AND l.mode = 'ExclusiveLock'
  AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.datname IS NULL OR a.datname = current_database())
  AND a.application_name IS DISTINCT FROM '{APPLICATION}'
GROUP BY l.virtualtransaction
"""


def _rows(connection: Connection, query: str) -> Any:
    return connection.execution_options(no_parameters=True).exec_driver_sql(query)


def _in_text(name: str) -> str:
    return name.replace("'", "''")
