"""Debezium's change events: what becomes of the rows before and after a change."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from pyspark.sql import Column

_TRUNCATE: Final = (
    "A truncate of its table cannot be written; let Debezium leave such changes out (skipped.operations=t)"
)
_NO_ROW: Final = "This change says nothing of its row after the change"


class Fates(Protocol):
    """The rows of a batch by what becomes of them, as conditions."""

    def refuse(self, holds: Column, why: str) -> None:
        """Add rows that cannot be written."""

    def pass_over(self, holds: Column) -> None:
        """Add rows that change nothing."""


class Changed(NamedTuple):
    """The changes that change a table, as conditions."""

    writes: Column
    """Changes that write the row after them."""
    deletes: Column
    """Changes that delete the row before them; if there is none, the record's key names it."""


def changes(rows: Fates, here: Column, operation: Column, after: Column) -> Changed:
    """Return the changes among the rows `here` that change a table; refuse or pass over the others.

    `operation`: not null; `after`: the row after the change.
    """
    is_row = here & ~operation.isin("d", "m", "t")
    rows.refuse(here & (operation == "t"), _TRUNCATE)
    rows.refuse(is_row & after.isNull(), _NO_ROW)
    rows.pass_over(here & (operation == "m"))
    return Changed(is_row & after.isNotNull(), here & (operation == "d"))
