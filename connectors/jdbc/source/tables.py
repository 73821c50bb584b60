"""A table, or the query, as a source's task reads it: its source, order and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property, partial
from typing import Any, Final

from pyspark.sql import types as spark

from headrace.config.time_zones import zone
from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.source.offsets import QUERY_PARTITION, partitions_of
from headrace.connectors.jdbc.source.reading import ID, MICROS, ORDERS
from headrace.connectors.jdbc.source.settings import column_mapping
from headrace.connectors.jdbc.source.types import NumericMapping, SourceColumn, TypeRules, source_columns, value_schema
from headrace.connectors.jdbc.source.windows import Mode, Order
from headrace.plugins.schema import Schema

QUERY_NAME = "query"

_FETCH_BYTES: Final = 400_000
_FETCHED: Final = (1, 10_000)
_FETCHED_OF_UNKNOWN: Final = (100, 1_000)
"""The least and most rows of a fetch of guessed size; the most is Confluent's default: texts may be longer."""


class SourceError(Exception):
    """A table cannot be read as the config wants; the task fails."""


@dataclass
class SourceTable:
    """One table, or the query, of a task."""

    name: str
    """The table's full name, for messages."""
    topic: str
    schema_name: str | None
    source: str
    """The FROM clause."""
    partition: Mapping[str, str]
    old_partition: Mapping[str, str] | None = None
    """The partition of its offset in old versions of Confluent's connector; None: it has none, or was taken over."""
    id: TableId | None = None
    quoted: str = ""
    """The table's quoted name; empty for the query."""
    alias: str = "t"
    """Its name in statements."""
    layout: TableLayout | None = None
    """Its columns at the last description."""
    facts: Table | None = None
    due: float = 0.0
    """The time of its next poll. Units: seconds of the monotonic clock."""
    failures: int = 0
    """Failed reads in a row while others were read."""
    alone: bool = False
    """True if it is read alone, after a batch that the database failed."""
    row_bytes: int = 0
    measured: bool = False
    """True if `row_bytes` comes from the database's statistics; else it is a guess."""
    loading: bool | None = None
    """True during its first load, in which rows need no order; None: unknown yet."""

    @property
    def partitions(self) -> tuple[Mapping[str, str], ...]:
        """The partitions that may have its offset."""
        return (self.partition,) if self.old_partition is None else (self.partition, self.old_partition)

    @property
    def fetch_size(self) -> int:
        """The default number of rows that the driver fetches at a time.

        Decided: about 400 KB of them, because a fetch of 10,000 wide rows cost a fifth of a core in garbage collection
        (measured); loses: more round trips to a database that is far away, for which there is `batch.max.rows`.
        """
        least, most = _FETCHED if self.measured else _FETCHED_OF_UNKNOWN
        return max(least, min(most, _FETCH_BYTES // max(1, self.row_bytes)))

    @classmethod
    def of_table(cls, table: TableId, dialect: Dialect, prefix: str, own_name: bool = False) -> SourceTable:
        """A table; its topic and its records' schema have its bare name.

        `own_name`: statements use no alias for it, for a `query.suffix` that names it.
        """
        quoted = dialect.name_of(table)
        alias, source = (quoted, quoted) if own_name else ("t", f"{quoted} t")
        now, before = partitions_of(table)
        return cls(str(table), prefix + table.table, table.table, source, now, before, table, quoted, alias)

    @classmethod
    def of_query(cls, query: str, prefix: str) -> SourceTable:
        """The result of a query."""
        # On its own line: the query may end in a comment.
        return cls(QUERY_NAME, prefix, None, f"(\n{query}\n) t", QUERY_PARTITION)


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table at one time, and the schema, order and types of its records."""

    shape: str
    table: str
    """The table's full name, for people."""
    topic: str
    columns: tuple[SourceColumn, ...]
    schema: Schema
    order: Order
    zone: tzinfo | None
    """The zone whose clock the order's timestamps show; None: UTC."""
    sql: SourceSql
    unit: int = 1
    """The least step between two of the order's timestamps. Units: microseconds."""
    micros: str = ""
    """A row's timestamp as a number, in SQL."""
    id: str = ""
    """A row's incrementing column as a 64-bit integer, in SQL."""
    key: tuple[str, ...] = ()
    """The columns that identify a row."""
    hides: bool = False
    """True if the query is secret: errors then show no values."""

    @cached_property
    def values(self) -> spark.StructType:
        """The columns that readers yield."""
        return spark.StructType([spark.StructField(f"c{n}", column.type) for n, column in enumerate(self.columns)])

    @cached_property
    def types(self) -> spark.StructType:
        """The fetched columns: values, and those of offsets."""
        keys = [(MICROS, self.micros), (ID, self.id)]
        return spark.StructType([*self.values, *(spark.StructField(n, spark.LongType()) for n, sql in keys if sql)])

    def select(self, source: str, condition: str, cut_by: str = "") -> str:
        """The SELECT of these rows; `cut_by` becomes the first column of `ORDERS` if the mode has none."""
        order = self.order.by or tuple(filter(None, (cut_by,)))
        named = [
            *((column.sql, f"c{number}") for number, column in enumerate(self.columns)),
            *((sql, name) for name, sql in ((MICROS, self.micros), (ID, self.id)) if sql),
            *zip(order, ORDERS, strict=False),
        ]
        what = ", ".join(f"{sql} AS {self.sql.quoted(name)}" for sql, name in named)
        return f"SELECT {what} FROM {source}{condition and ' WHERE ' + condition}"

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The columns of `ORDERS` that the mode orders by."""
        return ORDERS[: len(self.order.by)]


@dataclass(frozen=True)
class TableLayouts:
    """Makes table layouts by a connector's settings."""

    mode: Mode
    rules: TypeRules
    zone: tzinfo | None
    sql: SourceSql
    columns: Callable[[str], tuple[tuple[str, ...], str]]
    """Maps a table's full name to its timestamp columns and its incrementing one."""
    strict: bool = True
    """The setting `validate.non.null`."""
    hides: bool = False
    """True if the query is `query.masked`."""
    _numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any], sql: SourceSql) -> TableLayouts:
        """Builds it from parsed settings."""
        where = zone(values["db.timezone"])
        at = None if where is UTC else where
        rules = TypeRules(
            NumericMapping(values["numeric.mapping"]),
            values["numeric.long.mapping"] == "string",
            values["timestamp.granularity"],
            None if at is None else getattr(at, "key", None) or str(at),
        )
        columns, hides = partial(mode_columns, values), bool(values["query.masked"].value)
        return cls(Mode(values["mode"]), rules, at, sql, columns, values["validate.non.null"], hides)

    def make(self, table: SourceTable, facts: Table) -> TableLayout:
        """The layout of a table by its description; the last one if nothing changed.

        Errors: SourceError if the columns of the mode are missing or unsuitable.
        """
        if table.layout is not None and table.facts is not None and table.facts.columns == facts.columns:
            return table.layout
        names, counter = self.columns(table.name)
        timestamps = self._timestamps(names, facts, table) if self.mode.times else []
        incrementing = self._incrementing(counter, facts, table) if self.mode.counts else None
        number = self._numbers[table.name] = self._numbers.get(table.name, 0) + 1
        columns = source_columns(facts.columns, self.rules, self.sql, partial(self._quoted, alias=table.alias))
        zoned = any(column.zoned for column in timestamps)
        if zoned and self.zone is not None and not all(column.zoned for column in timestamps):
            raise SourceError(
                f"Timestamp columns [{', '.join(names)}] of {table.name} are with and without a time zone, and can be "
                "compared only where db.timezone is UTC. Name columns of one kind, or convert them in a query"
            )
        order, micros = self._order(timestamps, incrementing, zoned, table.name)
        return TableLayout(
            f"{table.name}/{number}",
            table.name,
            table.topic,
            columns,
            value_schema(table.schema_name, columns),
            order,
            None if zoned else self.zone,
            self.sql,
            max(map(self.sql.unit, timestamps), default=1),
            micros,
            "" if incrementing is None else self.sql.integer(self._quoted(incrementing.name)),
            facts.key or tuple(column.name for column in (*timestamps, incrementing) if column is not None),
            self.hides,
        )

    def _order(
        self, timestamps: list[DatabaseColumn], incrementing: DatabaseColumn | None, zoned: bool, name: str
    ) -> tuple[Order, str]:
        """The order, and the timestamp as a number."""
        try:
            compared = [self.sql.comparable(column, self._quoted(column.name)) for column in timestamps]
        except ValueError as error:
            raise SourceError(f"Table {name} cannot be read in mode {self.mode}: {error}") from None
        timestamp = compared[0] if len(compared) == 1 else f"COALESCE({', '.join(compared)})" if compared else ""
        counter = "" if incrementing is None else self._quoted(incrementing.name)
        order = Order(self.mode, timestamp, counter, partial(self.sql.bound, zoned=zoned))
        return order, self.sql.number(timestamp) if timestamp else ""

    def _quoted(self, name: str, alias: str = "t") -> str:
        return f"{alias}.{self.sql.quoted(name)}"

    def _timestamps(self, names: tuple[str, ...], facts: Table, table: SourceTable) -> list[DatabaseColumn]:
        found = [facts.column(name) for name in names]
        known = [column for column in found if column is not None]
        if not names or len(known) < len(names):
            raise SourceError(f"Timestamp columns: {', '.join(names) or 'none'} do not exist in table '{table.name}'")
        if self.strict and table.id is not None and all(column.nullable for column in known):
            raise SourceError(
                f"Cannot make incremental queries using timestamp columns [{', '.join(names)}] on {table.name} because "
                "all of these columns are nullable. Declare one NOT NULL, or set validate.non.null=false: rows without "
                "a timestamp are never read then."
            )
        return known

    def _incrementing(self, name: str, facts: Table, table: SourceTable) -> DatabaseColumn:
        if not name:
            found = next((column for column in facts.columns if column.autoincrement), None)
            if found is None:
                raise SourceError(
                    f"Table {table.name} has no column that the database counts by itself; name the one that grows in "
                    "incrementing.column.name"
                )
        else:
            found = facts.column(name)
            if found is None:
                raise SourceError(f"Incrementing column: {name} does not exist in table '{table.name}'")
        if self.strict and table.id is not None and found.nullable:
            raise SourceError(
                f"Cannot make incremental queries using incrementing column {found.name} on {table.name} because this "
                "column is nullable. Declare it NOT NULL, or set validate.non.null=false."
            )
        if not self.sql.may_count(found):
            raise SourceError(
                f"Invalid type for incrementing column: {found.name} of {table.name} is {found.type_name}. It must be "
                "an integer, or a NUMERIC of scale 0"
            )
        return found


def listed(names: str, quotes: tuple[str, str]) -> list[str]:
    """Splits a task's setting `tables` at commas outside of quotes into quoted names."""
    found, inside = [""], False
    for char in names:
        if char == "," and not inside:
            found.append("")
            continue
        if char in quotes:
            inside = char == quotes[0] and not (inside and quotes[0] == quotes[1])
        found[-1] += char
    return [name.strip() for name in found if name.strip()]


def query_facts(columns: tuple[DatabaseColumn, ...]) -> Table:
    """A query's result as a table. Errors: SourceError if two columns have the same name."""
    names = Counter(column.name for column in columns)
    if double := [name for name, count in names.items() if count > 1]:
        raise SourceError(f"The query gives several columns named {', '.join(double)}: rename all but one by AS")
    return Table(TableId(None, None, QUERY_NAME), TableType.VIEW, columns)


def mode_columns(values: Mapping[str, Any], table: str) -> tuple[tuple[str, ...], str]:
    """The timestamp columns and the incrementing column that settings name for a table.

    Errors: SourceError if not exactly one entry of a mapping matches it.
    """
    timestamps, incrementing = tuple(values["timestamp.column.name"]), values["incrementing.column.name"]
    if mapping := values["timestamp.columns.mapping"]:
        timestamps = _mapped(mapping, table)
    if mapping := values["incrementing.column.mapping"]:
        incrementing = _mapped(mapping, table)[0]
    return timestamps, incrementing


def _mapped(entries: list[str], table: str) -> tuple[str, ...]:
    found = [columns for pattern, columns in map(column_mapping, entries) if pattern.match(table)]
    if len(found) == 1:
        return found[0]
    what = "matches more than one of the provided regexes" if found else "does not match any of the provided regexes"
    raise SourceError(f"Included table '{table}' {what}: {', '.join(entries)}")
