"""The tables of a database that a source copies.

Source: Confluent's rules of `table.whitelist`, `table.include.list` and their like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from headrace.config.name_regex import name_regex
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.tables import TableId, TableType

FILTERS: Final = (
    "table.whitelist",
    "table.blacklist",
    "table.include.list",
    "table.exclude.list",
    "catalog.pattern",
    "schema.pattern",
    "table.types",
)
"""The settings of a `TableFilter`."""


@dataclass(frozen=True)
class TableFilter:
    """Chooses the tables that a source copies.

    A pattern is JDBC's: `%` any text, `_` any character, None no filter, "" only a table without that part. `listed`
    and `unlisted` are the old lists, of names; `included` and `excluded` are regular expressions for whole full names.
    """

    catalog: str | None = None
    schema: str | None = None
    types: frozenset[str] = frozenset({TableType.TABLE})
    listed: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def choose(self, tables: Iterable[tuple[TableId, TableType]], dialect: Dialect) -> list[TableId]:
        """The tables that pass, in their order."""
        return [table for table, kind in tables if self._passes(table, kind, dialect)]

    def unmet(self, chosen: Sequence[TableId], dialect: Dialect) -> dict[str, list[str]]:
        """The entries in the lists of tables to copy that match no chosen table, by setting."""
        names = {name for table in chosen for name in self._names(table, dialect)}
        full = [str(table) for table in chosen]
        found = {
            "table.whitelist": [name for name in self.listed if name not in names],
            "table.include.list": [one for one in self.included if not any(map(name_regex(one).match, full))],
        }
        return {setting: entries for setting, entries in found.items() if entries}

    def _passes(self, table: TableId, kind: TableType, dialect: Dialect) -> bool:
        types = {name.upper() for name in self.types}
        if kind not in types and not (kind is TableType.PARTITIONED_TABLE and TableType.TABLE in types):
            return False
        if not (_like(self.catalog, table.catalog) and _like(self.schema, table.schema)):
            return False
        if self.listed:
            return self._names(table, dialect) & set(self.listed) != set()
        if self.unlisted:
            return not self._names(table, dialect) & set(self.unlisted)
        full = str(table)
        if self.included and not any(name_regex(pattern).match(full) for pattern in self.included):
            return False
        return not any(name_regex(pattern).match(full) for pattern in self.excluded)

    @staticmethod
    def _names(table: TableId, dialect: Dialect) -> set[str]:
        """The names of a table in the old lists."""
        return {str(table), dialect.name_of(table), table.table}


def discover(connection: Connection, dialect: Dialect, wanted: TableFilter) -> list[TableId]:
    """The database's tables that pass the filter, sorted by name."""
    return sorted(wanted.choose(dialect.tables(connection, wanted.catalog), dialect), key=str)


def same_topic(tables: Sequence[TableId]) -> list[list[TableId]]:
    """Groups of tables that would share a topic, since a topic's name has only the bare name of its table."""
    groups: dict[str, list[TableId]] = {}
    for table in tables:
        groups.setdefault(table.table, []).append(table)
    return [group for group in groups.values() if len(group) > 1]


_WILD: Final = {"%": ".*", "_": "."}


def _like(pattern: str | None, part: str | None) -> bool:
    """Matches a pattern of JDBC; a backslash makes the next character an ordinary one."""
    if pattern is None:
        return True
    if part is None or pattern == "":
        # A pattern does not exclude a database that has no such part.
        return part is None
    regex = "".join(_WILD.get(one) or re.escape(one[-1]) for one in re.findall(r"\\.|.", pattern, re.DOTALL))
    return name_regex(f"(?s){regex}").match(part) is not None
