"""Tables: their names, what is known of them, and which of a database's a source copies.

Source: Confluent's rules of `table.whitelist`, `table.include.list` and their like (reference/jdbc.md A1, A3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.connectors.jdbc.contract.columns import DatabaseColumn

if TYPE_CHECKING:
    pass


class TableType(StrEnum):
    """What a relation is, by JDBC's names."""

    TABLE = "TABLE"
    PARTITIONED_TABLE = "PARTITIONED TABLE"
    VIEW = "VIEW"
    SYSTEM_TABLE = "SYSTEM TABLE"
    GLOBAL_TEMPORARY = "GLOBAL TEMPORARY"
    LOCAL_TEMPORARY = "LOCAL TEMPORARY"
    ALIAS = "ALIAS"
    SYNONYM = "SYNONYM"


@dataclass(frozen=True, order=True)
class TableId:
    """The name of a table, unquoted; `str` is Confluent's full name, the parts joined by dots."""

    catalog: str | None
    schema: str | None
    table: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.catalog, self.schema, self.table) if part is not None)

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Table:
    """A table that is there."""

    id: TableId
    type: TableType
    columns: tuple[DatabaseColumn, ...]
    key: tuple[str, ...] = ()
    """The columns of its primary key, in the key's order."""
    unique: tuple[tuple[str, ...], ...] = ()
    """The columns of its other unique constraints and indexes."""
    guarded: bool = False
    """What goes into it passes rules of its own, so that it takes rows one by one only: a view, policies for rows."""

    def column(self, name: str) -> DatabaseColumn | None:
        """The column of this name, else the only one that differs from it in case."""
        exact = next((one for one in self.columns if one.name == name), None)
        alike = [one for one in self.columns if one.name.lower() == name.lower()]
        return exact or (alike[0] if len(alike) == 1 else None)
