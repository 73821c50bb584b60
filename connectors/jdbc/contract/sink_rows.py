"""The kinds of a sink's rows: a write of these columns, a delete by that key, and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.sink_options import InsertMode, SinkOptions
from headrace.plugins.schema import Schema

PASSED: Final = -1
"""The layout number of a skipped row."""
SEPARATOR: Final = "\x1f"
"""Separates the names in `shape`."""
FRACTION: Final = "headrace.fraction.digits"
"""The schema parameter with a Time's or Timestamp's digits of a second's fraction; without it: 3."""
_HOUR_SECONDS: Final = 3600
_MOST_HOURS: Final = 1_000_000
"""No database takes longer times."""


class Value(NamedTuple):
    """One value of each row."""

    name: str
    schema: Schema
    """The schema for a new column of these values."""
    column: Column
    text: bool = False
    """True if the column is text that a database reads as a value of the schema."""
    wrong: Column | None = None
    """True if the value does not fit the schema; None: it always fits."""


class Operation(StrEnum):
    """The effect of a row on its table."""

    WRITE = "write"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True)
class Cell:
    """A column of the table that a layout's rows have a value for."""

    name: str
    """The field's name; the table's column may differ from it in case."""
    schema: Schema
    """The schema for a new column of these values."""
    key: bool
    arrow: str
    """The batch's column with the value. In a document cells stand in their order."""
    text: bool = False
    """True if the value is text that the database reads, whatever the schema."""


@dataclass(frozen=True)
class RowLayout:
    """The shape of rows: their operation, and the places of their values."""

    operation: Operation
    cells: tuple[Cell, ...] = ()
    document: str | None = None
    """The batch's column with a JSON array of the cells; None: each cell has its own column."""
    members: bool = False
    """True if the document's last item is a JSON object with further cells as members; `shape` names them."""

    @property
    def key(self) -> tuple[Cell, ...]:
        """The cells of the key."""
        return tuple(cell for cell in self.cells if cell.key)


def finds_rows(layout: RowLayout, options: SinkOptions) -> bool:
    """True if such rows change the rows that have their key; else they are only added."""
    return bool(layout.key) and (layout.operation is Operation.DELETE or options.insert_mode is not InsertMode.INSERT)


def keeps_last(layout: RowLayout, options: SinkOptions) -> bool:
    """True if only the last of a batch's rows of one key is written."""
    return finds_rows(layout, options) or (options.reduces and bool(layout.key))


class Form(NamedTuple):
    """A database's form of values."""

    documents: bool
    """True if all cells of a row are in one JSON document; else each has a column."""
    cell: Callable[[Value], Column]
    """A value in a column of the batch."""
    item: Callable[[Value], Column]
    """A value as text in a document."""
    keeps: frozenset[str] = frozenset()
    """Names of Debezium's types that it takes unchanged."""


def time_text(count: Column, digits: int) -> Column:
    """A database's text of a time, from a count of second's parts with so many `digits`; null if it is too long.

    The end of a day is 24:00, which a clock shows as its beginning. MariaDB's TIME is a duration: it may be negative or
    more than a day.
    """
    parts = count.cast("bigint")
    hour, most = _HOUR_SECONDS * 10**digits, _MOST_HOURS * _HOUR_SECONDS * 10**digits
    whole = F.abs(parts)
    hours = F.call_function("div", whole, F.lit(hour)).cast("string")
    micros = F.pmod(whole, F.lit(hour)) * F.lit(10 ** (6 - digits))
    rest = F.date_format(F.timestamp_micros(micros), f":mm:ss.{'S' * digits}")
    padded = F.when(F.length(hours) < 2, F.concat(F.lit("0"), hours)).otherwise(hours)
    text = F.concat(F.when(parts < 0, F.lit("-")).otherwise(F.lit("")), padded, rest)
    return F.when(parts.between(-most, most), text)
