"""A database's column, described alike for all databases.

| kind | Connect schema (source) |
|---|---|
| BOOLEAN, INT8 … INT64, FLOAT32, FLOAT64, STRING, BYTES | the type of that name |
| NUMERIC, DECIMAL | Decimal of `scale`, or what `numeric.mapping` makes of `precision` and `scale` |
| DATE, TIME | Date, Time |
| TIMESTAMP | Timestamp, or what `timestamp.granularity` says; an instant if `zoned`, else by `db.timezone` |
| ARRAY | ARRAY of what `element` is |
| UNSUPPORTED | none: the column is left out, with a warning |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a column's values."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    NUMERIC = "numeric"
    DECIMAL = "decimal"
    STRING = "string"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    ARRAY = "array"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of a table, or of a query's result."""

    name: str
    type_name: str
    """As the database prints it, to be cast to: `numeric(10,2)`, `int(10) unsigned`, `shop.mood[]`."""
    kind: Kind
    nullable: bool = True
    """True also if unknown."""
    precision: int | None = None
    """Digits of NUMERIC and DECIMAL, None if they are not bounded; digits of the fraction of TIME and TIMESTAMP."""
    scale: int | None = None
    """Of NUMERIC and DECIMAL; None if each value has its own."""
    length: int | None = None
    """The longest text or bytes, in characters or bytes."""
    zoned: bool = False
    """TIMESTAMP: an instant, whatever the session's time zone."""
    exact: bool = False
    """STRING: texts that differ also differ for the column, in case and in blanks at their end, too."""
    unsigned: bool = False
    """A 64-bit integer may then exceed INT64."""
    autoincrement: bool = False
    has_default: bool = False
    generated: bool = False
    """Computed by the database: it cannot be written."""
    element: DatabaseColumn | None = None
    """The column of an ARRAY's elements."""
    select: str = "{}"
    """The SQL expression that reads the column as a value of its kind; `{}` stands for the quoted name."""

    def reading(self, column: str) -> str:
        """`select` with this quoted column name."""
        return self.select.replace("{}", column)
