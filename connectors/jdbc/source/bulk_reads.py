"""Cuts bulk reads of large tables into pieces, which are read in parallel.

PostgreSQL's blocks hold other rows a moment later: an UPDATE moves its row. So all pieces see their tables as one
transaction sees them; its snapshot is exported, and it stays open while they read. In other databases pieces are cut by
a key, which rows keep; each piece then sees the rows of its own moment.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.source_sql import Ranges
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.source.tables import SourceTable


class BulkReads:
    """The transaction that all bulk reads of a task share."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = ExitStack()
        self._connection: Connection | None = None
        self._begun: tuple[str, ...] | None = None

    def cut(self, table: SourceTable) -> tuple[Ranges | None, tuple[str, ...]]:
        """The ranges that cut the table, and the statements that begin each piece's transaction.

        Errors: DatabaseAway, DatabaseError.
        """
        if table.facts is None or table.id is None:
            return None, ()
        sql = self._database.source_sql()
        with self._database.translated_errors():
            if self._connection is None:
                self._connection = self._open.enter_context(self._database.held())
            with self._database.interruptible(self._connection):
                if self._begun is None:
                    self._begun = sql.same_snapshot(self._connection)
                return sql.ranges(self._connection, table.facts, table.quoted), self._begun

    def close(self) -> None:
        """Ends the transaction, after all reads."""
        self._connection = self._begun = None
        with suppress(DatabaseAway, DatabaseError):  # the transaction has no changes
            self._open.close()
