"""The SQL of a sink on PostgreSQL: COPY into a stage, and from there into the table.

Measured (one core, 1,000,000 rows of three columns in random order, half of them updates): COPY into the stage 0.4 s of
the server's time, the merge by `ON CONFLICT` 6.0 s, 3.4 s if each 100,000 rows come sorted by key; `MERGE` and `UPDATE
… FROM` with `INSERT … WHERE NOT EXISTS` 4.1 to 7.6 s; a table without a key to look for takes COPY in 1.5 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.time_zones import zone
from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.debezium_types import (
    JSON,
    ZONED_TIMESTAMP,
    bit_count,
    is_bits,
    is_point,
    is_zoned_timestamp,
)
from headrace.connectors.jdbc.contract.literals import text_literal
from headrace.connectors.jdbc.contract.sink_options import InsertMode
from headrace.connectors.jdbc.contract.sink_rows import Form, Operation, RowLayout, Value, finds_rows, time_text
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, BoundColumn, SinkSql, Target
from headrace.connectors.jdbc.contract.source_sql import TEMPORAL_KINDS
from headrace.connectors.jdbc.contract.tables import Table
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_NESTED: Final = (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
_SCALARS: Final = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
    SchemaType.BOOLEAN,
)
_INSTANT: Final = Schema(SchemaType.INT64, name=TIMESTAMP)


def cell(value: Value) -> Column:
    """The value in a form whose CSV PostgreSQL reads; numbers and texts stay as they are."""
    column, schema = value.column, value.schema
    if value.text:
        return column
    if logical(schema) == TIME:
        return time_text(column, 3)
    if logical(schema) in (DATE, TIMESTAMP):
        text = column.cast("string")
        return _dated(F.year(column), text if logical(schema) == DATE else F.concat(text, F.lit("Z")))
    if is_zoned_timestamp(schema):
        far = F.when(column.rlike(r"^[+-]\d"), column.try_cast("timestamp"))
        return F.coalesce(cell(Value("", _INSTANT, far)), column)
    if schema.type is SchemaType.BYTES and logical(schema) is None:
        return F.concat(F.lit("\\x"), F.hex(column))
    if is_list(schema):
        return _array(column, schema.value_schema)
    return F.to_json(column) if schema.type in _NESTED else column


def _dated(year: Column, text: Column) -> Column:
    """The text of a date or timestamp as PostgreSQL reads it, which takes a year's sign for that of a time zone."""
    before = F.concat(F.format_string("%04d", F.lit(1) - year), F.regexp_extract(text, r"\d(-.*)", 1), F.lit(" BC"))
    return F.when(year < 1, before).when(year > 9999, F.ltrim(text, F.lit("+"))).otherwise(text)


def item(value: Value) -> Column:
    """The same form as text."""
    return cell(value).cast("string")


def is_list(schema: Schema) -> bool:
    """True for an array whose elements a column's array can have."""
    element = schema.value_schema
    return schema.type is SchemaType.ARRAY and element is not None and element.type not in _NESTED


def _array(column: Column, element: Schema | None) -> Column:
    """An array's literal: each item quoted, null as NULL."""
    assert element is not None

    def quoted(one: Column) -> Column:
        text = item(Value("", element, one))
        escaped = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
        return F.coalesce(F.concat(F.lit('"'), escaped, F.lit('"')), F.lit("NULL"))

    items = F.concat(F.lit("{"), F.array_join(F.transform(column, quoted), ","), F.lit("}"))
    return F.when(column.isNotNull(), items)


class PostgresqlSinkSql(SinkSql):
    """The sink's SQL for PostgreSQL.

    The stage is a temporary table that each transaction finds or makes: a pool between here and the server may give
    each one another session. Rows without a key to look for are copied into the table itself if it takes COPY.
    """

    empty = "TRUNCATE TABLE {}"
    widening = "ALTER TABLE {table} ALTER COLUMN {column} TYPE {type}"

    @property
    def form(self) -> Form:
        """A column for each value; a document for values without schema."""
        return Form(documents=False, cell=cell, item=item, keeps=frozenset({ZONED_TIMESTAMP}))

    def target(self, table: Table, layout: RowLayout, members: Sequence[str] = ()) -> Target:
        """Writes through COPY; values without schema through a JSON document."""
        if (truncated := self.truncated(table, layout)) is not None:
            return truncated
        bound = self.bound(table, layout, members)
        if layout.document is not None:
            steps = self._merge(table, layout, bound, self._unnested(layout, bound))
            return Target(steps=steps, check=self._check(table, layout, bound))
        readings = [self._reading(one) for one in bound]
        arrow = tuple(one.cell.arrow for one in bound if one.cell is not None)
        just_added = layout.operation is Operation.WRITE and self.options.insert_mode is InsertMode.INSERT
        if just_added and not table.guarded and not any(readings):
            return Target(arrow, copy=f"COPY {self.name(table)} ({self.columns(bound)}) FROM STDIN (FORMAT csv)")
        return self._staged(table, layout, bound, [reading or _AsItIs for reading in readings], arrow)

    def _staged(
        self,
        table: Table,
        layout: RowLayout,
        bound: Sequence[BoundColumn],
        readings: Sequence[_StagedAs],
        arrow: tuple[str, ...],
    ) -> Target:
        kinds = [
            f"{reading.stage.format(self.quoted(one))} AS {one.place}"
            for one, reading in zip(bound, readings, strict=True)
        ]
        select = f"SELECT {', '.join(kinds)} FROM {self.name(table)}"
        types = [one.column.type_name for one in bound]  # a session keeps the stage of a type that was widened
        stage = f"headrace_{sha256(repr((select, types)).encode()).hexdigest()[:16]}"
        values = ", ".join(
            f"{reading.value.format(one.place)} AS {one.place}" for one, reading in zip(bound, readings, strict=True)
        )
        places = ", ".join(one.place for one in bound)
        return Target(
            arrow,
            stage=f"CREATE TEMP TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS {select} WITH NO DATA",
            check=self._check(table, layout, bound, stage),
            copy=f"COPY {stage} ({places}) FROM STDIN (FORMAT csv)",
            steps=self._merge(table, layout, bound, f"SELECT {values} FROM {stage}"),
            clear=f"TRUNCATE TABLE {stage}",
            names={one.place: one.column.name for one in bound},
        )

    def _check(self, table: Table, layout: RowLayout, bound: Sequence[BoundColumn], stage: str = "") -> str:
        """The query that tells if the columns still have their types.

        It runs each time: the table may be altered while a session keeps a stage and statements of its old types, which
        would silently round numbers and cut timestamps.

        It reads the table and so locks it against ALTER until the transaction ends. Decided: not if rows are only
        added, because a user who may only INSERT could not run it; loses: an ALTER in that moment.
        """
        pairs = ((text_literal(one.column.name), text_literal(one.column.type_name)) for one in bound)
        known = ", ".join(f"({name}, {kind})" for name, kind in pairs)
        locked = (
            f" AND (SELECT true FROM {self.name(table)} LIMIT 0) IS NULL" if finds_rows(layout, self.options) else ""
        )
        there = f"to_regclass('pg_temp.{stage}') IS NOT NULL" if stage else "false"
        return (
            f"SELECT NOT EXISTS (SELECT FROM (VALUES {known}) AS k (name, kind) LEFT JOIN pg_catalog.pg_attribute a "
            f"ON a.attrelid = to_regclass({text_literal(self.name(table))}) AND a.attname = k.name "
            "AND NOT a.attisdropped WHERE format_type(a.atttypid, a.atttypmod) IS DISTINCT FROM k.kind)"
            f"{locked}, {there}"
        )

    def _merge(self, table: Table, layout: RowLayout, bound: Sequence[BoundColumn], rows: str) -> tuple[str, ...]:
        name = self.name(table)
        if layout.operation is Operation.DELETE:
            return (f"DELETE FROM {name} AS t USING ({rows}) AS s WHERE {self.matches(bound)}",)
        if self.options.insert_mode is InsertMode.UPDATE:
            sets = self.sets(bound, "s.{place}")
            return (f"UPDATE {name} AS t SET {sets} FROM ({rows}) AS s WHERE {self.matches(bound)}",) if sets else ()
        # An identity that is generated always gets the record's value.
        overriding = " OVERRIDING SYSTEM VALUE" if any(one.column.autoincrement for one in bound) else ""
        values = ", ".join(f"s.{one.place}" for one in bound)
        head = f"INSERT INTO {name} ({self.columns(bound)}){overriding} SELECT {values} FROM ({rows}) AS s"
        return (head + self.on_conflict(bound),)

    def _unnested(self, layout: RowLayout, bound: Sequence[BoundColumn]) -> str:
        """The rows of a document. Each column's type reads its values: a cast would cut texts and bits."""
        cells = {one.place: one for one in bound if one.member is None}
        members = {one.member: one for one in bound if one.member is not None}
        rows, values = [f"json_array_elements({DOCUMENT}::json) AS e (value)"], []
        parts = ("k", _as_members(layout, cells), cells), ("m", f"e.value -> {len(layout.cells)}", members)
        for alias, record, columns in parts:
            named = {self.dialect.quoted(name): one for name, one in columns.items()}
            if named:
                kinds = ", ".join(f"{name} {one.column.type_name}" for name, one in named.items())
                rows.append(f"json_to_record({record}) AS {alias} ({kinds})")
            values += [f"{alias}.{name} AS {one.place}" for name, one in named.items()]
        return f"SELECT {', '.join(values)} FROM {', '.join(rows)}"

    def _reading(self, one: BoundColumn) -> _StagedAs | None:
        """The conversion of a text that the column would read wrongly."""
        schema, column, kind = one.schema, one.column, one.column.type_name.partition("(")[0]
        if schema is None:
            return None
        if (clocked := self._by_a_clock(schema, column)) is not None:
            return clocked
        if is_bits(schema) and kind in ("bit", "bit varying"):
            return _StagedAs("NULL::bytea", _least_first(schema, column))
        if is_point(schema) and kind == "point":
            return _StagedAs("NULL::text", "point(({0}::json ->> 'x')::float8, ({0}::json ->> 'y')::float8)")
        if kind.rpartition(".")[2] == "hstore" and (schema.type is SchemaType.MAP or schema.name == JSON):
            return _StagedAs("NULL::json", f"({_HSTORE})::{column.type_name}")
        if kind in ("bit", "bit varying") and schema.type in _BITS and logical(schema) is None:
            return _StagedAs(_BITS[schema.type].stage, _bits(schema.type, column))
        if kind == "money" and schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
            return _StagedAs("NULL::double precision", "{}::numeric::money")
        if kind in ("json", "jsonb") and is_list(schema):
            element = self.dialect.column_type(schema.value_schema or schema)
            return _StagedAs(f"NULL::{element}[]", f"to_json({{}})::{kind}")
        if _is_misread(schema, column):
            return _StagedAs(f"NULL::{self.dialect.column_type(schema)}", "{}")
        return None

    def _by_a_clock(self, schema: Schema, column: DatabaseColumn) -> _StagedAs | None:
        """The conversion of instants, or of lists of them, for a column without time zone.

        None if value or column is another, or if no conversion is needed.
        """
        clock = _clock(self.options.zone)
        of_list = schema.value_schema if is_list(schema) else None
        part, taker = (schema, column) if of_list is None else (of_list, column.element)
        if not (is_zoned_timestamp(part) or (logical(part) == TIMESTAMP and clock is not None)) or taker is None:
            return None
        cast = _of_a_clock(taker)
        if cast is None:
            return None
        value = f"({'{}' if of_list is None else 'x'} AT TIME ZONE {clock or text_literal('UTC')}){cast}"
        if of_list is not None:
            return _StagedAs("NULL::timestamptz[]", _EACH.format(value))
        return _StagedAs("NULL::timestamptz", value)


def _least_first(schema: Schema, column: DatabaseColumn) -> str:
    """The bits of Debezium's bytes, least byte first, as many as the column has; any more make it refuse them."""
    size = column.type_name.partition("(")[2].rstrip(")")
    count = bit_count(schema) or 1 if column.type_name.startswith("bit varying") else int(size or 1)
    bytewise = "get_byte({0}, i)::bit(8)::text, '' ORDER BY i DESC"
    bits = f"SELECT string_agg({bytewise}) FROM generate_series(0, length({{0}}) - 1) AS b (i)"
    padded = f"SELECT lpad(w, GREATEST(length(w), {count}), '0')::bit varying"
    return f"CASE WHEN {{0}} IS NOT NULL THEN ({padded} FROM ltrim(COALESCE(({bits}), ''), '0') AS r (w)) END"


def _bits(kind: SchemaType, column: DatabaseColumn) -> str:
    """The bits of a value. If they are more than the column has, all are kept, so that it refuses them."""
    bits, count = _BITS[kind].value, int(column.type_name.partition("(")[2].rstrip(")") or 1)
    if column.type_name.startswith("bit varying"):
        return bits
    if kind is SchemaType.BYTES:
        whole = (count + 7) // 8 * 8
        return f"CASE WHEN {bits} = {bits}::bit({count})::bit({whole}) THEN {bits}::bit({count}) ELSE {bits} END"
    if kind is SchemaType.INT8 and count < 8:
        return f"CASE WHEN {{0}} BETWEEN 0 AND {2**count - 1} THEN {{0}}::int::bit({count}) ELSE {bits} END"
    return f"{{0}}::int::bit({count})"


def _is_misread(schema: Schema, column: DatabaseColumn) -> bool:
    """True if the column would misread the text of such values, such as a number's as a date.

    Staged by the schema's type instead, they are converted or refused by the column.
    """
    if logical(schema) is None and schema.type not in _SCALARS:
        return False
    if column.kind is Kind.BYTES or column.type_name.startswith(("bit", "interval")):
        return True
    return column.kind in TEMPORAL_KINDS and logical(schema) in (None, DECIMAL)


def _as_members(layout: RowLayout, cells: Mapping[str, BoundColumn]) -> str:
    """The cells of a document's row as an object. The text in a cell for a JSON column is itself JSON."""
    members = []
    for place, one in cells.items():
        assert one.cell is not None
        number = layout.cells.index(one.cell)
        is_json = one.column.type_name in ("json", "jsonb")
        members.append(f"'{place}', " + (f"(e.value ->> {number})::json" if is_json else f"e.value -> {number}"))
    return f"json_build_object({', '.join(members)})"


def _clock(identifier: str) -> str | None:
    """The time zone as AT TIME ZONE takes it; None: UTC.

    Only names of the tz database and intervals are used: in a name `+02:00` is west, as POSIX has it, and some short
    ids are other zones than Java's.
    """
    found = zone(identifier)
    if isinstance(found, ZoneInfo):
        return text_literal(found.key)
    offset = found.utcoffset(None)
    return f"INTERVAL '{offset.total_seconds():.0f} seconds'" if offset else None


def _of_a_clock(column: DatabaseColumn) -> str | None:
    """The cast of a clock's date and time for a column without time zone; None for other columns."""
    if column.kind is Kind.TIMESTAMP:
        return None if column.zoned else ""
    is_part = column.kind is Kind.DATE or (column.kind is Kind.TIME and "with time zone" not in column.type_name)
    return f"::{column.type_name}" if is_part else None


class _StagedAs(NamedTuple):
    """The stage's column for some values, and the expression that the table gets."""

    stage: str
    value: str


_EACH: Final = (
    "CASE WHEN {{0}} IS NOT NULL THEN ARRAY(SELECT {} FROM unnest({{0}}) WITH ORDINALITY AS u (x, n) ORDER BY n) END"
)
"""Converts each item of a list."""
_HSTORE: Final = (
    "CASE WHEN {0} IS NOT NULL THEN COALESCE((SELECT string_agg("
    r"""'"' || replace(replace(k, E'\\', E'\\\\'), '"', E'\\"') || '"=>' || """
    r"""COALESCE('"' || replace(replace(v, E'\\', E'\\\\'), '"', E'\\"') || '"', 'NULL'), ',')"""
    " FROM json_each_text({0}) AS h (k, v)), '') END"
)
"""The members of a JSON object in hstore's text form."""
_AsItIs: Final = _StagedAs("{}", "{}")
_BITS: Final = {
    SchemaType.BOOLEAN: _StagedAs("NULL::boolean", "{0}::int::bit(1)"),
    SchemaType.INT8: _StagedAs("NULL::smallint", "{0}::int::bit(8)"),
    SchemaType.BYTES: _StagedAs("NULL::bytea", "('x' || encode({0}, 'hex'))::bit varying"),
}
