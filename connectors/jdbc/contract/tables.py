"""Tables: their names, types, columns and keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.connectors.jdbc.contract.columns import DatabaseColumn


class TableType(StrEnum):
    """The kind of a relation, by JDBC's names."""

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
    """A table of the database."""

    id: TableId
    type: TableType
    columns: tuple[DatabaseColumn, ...]
    key: tuple[str, ...] = ()
    """The primary key's columns, in its order."""
    unique: tuple[tuple[str, ...], ...] = ()
    """The columns of other unique constraints and indexes."""
    guarded: bool = False
    """True for a view or a table with policies: its own rules see each row, so it takes rows one by one only."""

    def column(self, name: str) -> DatabaseColumn | None:
        """The column of this name, else the only one that differs from it in case."""
        exact = next((one for one in self.columns if one.name == name), None)
        alike = [one for one in self.columns if one.name.lower() == name.lower()]
        return exact or (alike[0] if len(alike) == 1 else None)
