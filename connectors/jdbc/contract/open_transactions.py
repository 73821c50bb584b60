"""The contract of databases that list their open transactions, so that a source can wait for late commits.

`SourceSql.transactions` returns an `OpenTransactions` if the database lists them. If it returns None, the source cannot
wait and logs a warning.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from sqlalchemy import Connection

ANY_TABLE: Final = ""
"""Stands for all tables of the database, if the tables behind a view or a query are unknown."""


class OpenTransactions(ABC):
    """Lists the transactions that are open in a connection's database. Stateless.

    A transaction is named by any text that is its own until it ends. The source's own long reads are left out.
    """

    shown_in: ClassVar[str]
    """Says where an operator finds transactions by these names: `virtualtransaction in pg_locks`."""

    @abstractmethod
    def is_standby(self, connection: Connection) -> bool:
        """True if the server follows another one, at which transactions write: transactions open here only read."""

    @abstractmethod
    def writers(self, connection: Connection, tables: Collection[str]) -> Mapping[str, frozenset[str]]:
        """The transactions that have written to each of these tables (quoted names, or `ANY_TABLE`)."""

    @abstractmethod
    def all(self, connection: Connection) -> Mapping[str, bool]:
        """Every open transaction of this database but the connection's own; true for those that have written."""
