"""Lists the open transactions of a PostgreSQL database by their locks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.literals import text_literal
from headrace.connectors.jdbc.contract.open_transactions import ANY_TABLE, OpenTransactions
from headrace.connectors.jdbc.contract.source_sql import rows_of, single_row

APPLICATION: Final = "headrace source"
"""The name of sources' sessions: their long reads do not count as transactions that may write."""

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


class PostgresqlOpenTransactions(OpenTransactions):
    """Open transactions of PostgreSQL, named by their virtual ids."""

    shown_in = "virtualtransaction in pg_locks"

    def is_standby(self, connection: Connection) -> bool:
        """True if the server is in recovery."""
        return bool(single_row(connection, "SELECT pg_is_in_recovery()")[0])

    def writers(self, connection: Connection, tables: Collection[str]) -> dict[str, frozenset[str]]:
        """The transactions that hold a writer's lock on each table.

        Decided: by the lock that every INSERT, UPDATE and DELETE takes before it computes its row, and that its
        transaction keeps to its end, because a bound by `pg_snapshot_xmin` loses rows: a transaction that wrote
        elsewhere first has a smaller number than one that took a smaller id from the sequence, so its greater id seems
        settled. That bound also waits for every long transaction of the server, whatever it writes. Loses: a row whose
        id was taken before its INSERT, from a sequence with CACHE or in a statement of its own; `incrementing.overlap`
        finds those.
        """
        names = [name for name in tables if name != ANY_TABLE]
        found: dict[str, set[str]] = {name: set() for name in tables}
        if names:
            values = ", ".join(f"({text_literal(name)})" for name in sorted(names))
            for name, transaction in rows_of(connection, _WRITERS.replace("<names>", values)):
                found[name].add(transaction)
        if ANY_TABLE in found:
            found[ANY_TABLE].update(transaction for (transaction,) in rows_of(connection, _ANY_WRITERS))
        return {name: frozenset(transactions) for name, transactions in found.items()}

    def all(self, connection: Connection) -> dict[str, bool]:
        """Transactions with a virtual id. Those that have written have a transaction id, too."""
        return {transaction: bool(wrote) for transaction, wrote in rows_of(connection, _TRANSACTIONS)}
