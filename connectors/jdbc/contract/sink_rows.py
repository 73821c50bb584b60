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
"""The layout number of a row that is passed over."""
SEPARATOR: Final = "\x1f"
"""Between the names in `shape`."""
FRACTION: Final = "headrace.fraction.digits"
"""The parameter of a Time's or Timestamp's schema with the number of digits of a second's fraction; without it: 3."""
_HOUR_SECONDS: Final = 3600
_MOST_HOURS: Final = 1_000_000
"""No database has so long a time."""


class Value(NamedTuple):
    """One value of each row."""

    name: str
    schema: Schema
    """The schema that a new column for it would be created for."""
    column: Column
    text: bool = False
    """Whether the column is text that a database reads as a value of the schema."""
    wrong: Column | None = None
    """True where the value does not fit the schema; None: it always fits."""


class Operation(StrEnum):
    """The effect of a row on its table."""

    WRITE = "write"
    DELETE = "delete"
    TRUNCATE = "truncate"


@dataclass(frozen=True)
class Cell:
    """One column of the table that rows of a layout have a value for."""

    name: str
    """The field's; the table's column may differ from it in case."""
    schema: Schema
    """The schema that a new column for it would be created for."""
    key: bool
    arrow: str
    """The column of the batch that has the value; in a document cells stand in their order."""
    text: bool = False
    """Whether it has text that the database reads, whatever the schema."""


@dataclass(frozen=True)
class RowLayout:
    """The shape of rows: their operation, and where their values are."""

    operation: Operation
    cells: tuple[Cell, ...] = ()
    document: str | None = None
    """The column of the batch with a JSON array of the cells; None: each cell has a column of its own."""
    members: bool = False
    """Whether the document's last item is a JSON object whose members are further cells; `shape` names them."""

    @property
    def key(self) -> tuple[Cell, ...]:
        """The cells of the key."""
        return tuple(cell for cell in self.cells if cell.key)


def finds_rows(layout: RowLayout, options: SinkOptions) -> bool:
    """Whether rows of this layout change the rows that have their key; else they are only added."""
    return bool(layout.key) and (layout.operation is Operation.DELETE or options.insert_mode is not InsertMode.INSERT)


def keeps_last(layout: RowLayout, options: SinkOptions) -> bool:
    """Whether of a batch's rows of one key only the last is written."""
    return finds_rows(layout, options) or (options.reduces and bool(layout.key))


class Form(NamedTuple):
    """How a database takes values."""

    documents: bool
    """All cells of a row in a JSON document; else in a column each."""
    cell: Callable[[Value], Column]
    """A value as a column of the batch has it."""
    item: Callable[[Value], Column]
    """A value as text in a document."""
    keeps: frozenset[str] = frozenset()
    """Names of Debezium's types whose values it takes as they are."""


def time_text(count: Column, digits: int) -> Column:
    """A count of a second's parts, of which it has so many digits, as databases read it; null where none has so long a
    time.

    The end of a day is 24:00, which a clock shows as its beginning; MariaDB's TIME is a duration, which may be negative
    or more than a day.
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
