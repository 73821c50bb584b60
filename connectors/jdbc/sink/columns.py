"""Maps records to the columns of tables: the expressions of a writer's rows, and their layouts.

The kind of a row (a write of these columns, a delete by that key …) depends on its two schemas and on the connector's
settings, never on the table. Each such combination is a `RowLayout`; a row's column `layout` has its number.

| column | |
|---|---|
| `table` | the name of its table, by the settings; null only for skipped rows |
| `origin_topic`, `origin_partition`, `origin_offset` | the record it counts for |
| `layout` | its layout's number, `PASSED` for a skipped row |
| `refused` | the reason why it cannot be written, null if it can |
| `shape` | the sorted names of its members, if its value has no schema |
| others | the values, named by the layouts |

Decided: a row that cannot be written is no error of the expressions but has a text in `refused`, because only the sink
knows its rules and only the worker the way to the dead letters; loses: one more column, mostly null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.jdbc.contract.debezium_types import SOURCE_NAME
from headrace.connectors.jdbc.contract.sink_options import KAFKA_KEY, InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import (
    PASSED,
    SEPARATOR,
    Cell,
    Form,
    Operation,
    RowLayout,
    Value,
    finds_rows,
)
from headrace.connectors.jdbc.sink.envelopes import table_name
from headrace.connectors.jdbc.sink.record_sides import Fields, NoRow, RecordSides, SideCase
from headrace.plugins.records import Records
from headrace.plugins.schema import STRING, Schema, SchemaType

_ORIGIN: Final = ("origin_topic", "origin_partition", "origin_offset")


@dataclass
class SinkColumns:
    """Makes the projections of a sink task, and remembers their layouts."""

    options: SinkOptions
    form: Form
    layouts: dict[int, RowLayout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sides = RecordSides(self.options, self.form.keeps)

    def columns(self, records: Records) -> list[Column]:
        """The columns of a writer's rows."""
        rows = _Projection(self, table_name(self.options, records))
        by_key = self.options.key_mode is KeyMode.RECORD_KEY
        keys = list(self._sides.keys(records)) if by_key else [SideCase(F.lit(True), "")]
        for value in self._sides.values(records):
            for key in keys:
                rows.add(key, value)
            if isinstance(value.what, Fields) and value.what.members is not None:
                names = F.array_sort(F.json_object_keys(value.what.members))
                rows.shape.add(value.holds, F.array_join(names, SEPARATOR))
        return rows.columns()

    def number(self, layout: RowLayout) -> int:
        """Registers the layout; returns its number."""
        for number, known in self.layouts.items():
            if known == layout:
                return number
        self.layouts[len(self.layouts)] = layout
        return len(self.layouts) - 1

    def together(self, key: Fields | NoRow | str, value: SideCase) -> _LayoutValues | str | int:
        """The layout of such rows with its values; else the reason why they cannot be written, or PASSED."""
        options, what = self.options, value.what
        if isinstance(what, str):
            return what
        if what is NoRow.MESSAGE or (what is NoRow.TRUNCATE and not options.truncates):
            return PASSED
        if what is NoRow.TRUNCATE:
            return _LayoutValues(RowLayout(Operation.TRUNCATE), [])
        if what is NoRow.TOMBSTONE and not options.deletes:
            return PASSED if options.passes_deletes else self._sides.requires_value(*value.kind)
        if isinstance(key, str) and options.key_mode is KeyMode.RECORD_KEY:
            return key
        if what is NoRow.TOMBSTONE:
            assert isinstance(key, Fields)
            return self._made(Operation.DELETE, key.cells(key=True), None, key.prefix)
        assert isinstance(what, Fields)
        return self._write(key if isinstance(key, Fields) else None, what, value.kind[0] == "String")

    def _write(self, key: Fields | None, value: Fields, is_text: bool) -> _LayoutValues | str:
        key_names = {cell.name for cell, _ in [*(key.cells(key=True) if key else ()), *_kafka_cells(self.options)]}
        if is_text and self.options.string_column in key_names:
            return (
                f"Column {self.options.string_column} of table '{{table}}' would have both the key and the text of the "
                "value: set string.output.value.column.name to another column"
            )
        cells = self._cells(key, value)
        if isinstance(cells, str):
            return cells
        if not cells and value.members is None:
            return "No fields found using key and value schemas for table: {table}"
        has_key = any(cell.key for cell, _ in cells)
        if self.options.insert_mode is not InsertMode.INSERT and not has_key:
            return (
                f"Write to table '{{table}}' in {self.options.insert_mode.name} mode requires key field names to be "
                "known, check the primary key configuration"
            )
        prefix = f"{key.prefix if key else ''}{value.prefix}"
        return self._made(Operation.WRITE, cells, value.members, prefix)

    def _cells(self, key: Fields | None, value: Fields) -> list[tuple[Cell, Value]] | str:
        """The cells: Kafka's, in place of fields of these names, then the value's, then the rest of the key."""
        options = self.options
        kafka = _kafka_cells(options)
        own = [pair for pair in value.cells(key=False) if pair[0].name not in {cell.name for cell, _ in kafka}]
        if value.members is not None:
            keys = value.cells(key=True) if options.key_mode is KeyMode.RECORD_VALUE else key.cells(True) if key else []
            return [*kafka, *keys]
        if options.key_mode is KeyMode.RECORD_VALUE:
            names = options.key_fields or tuple(cell.name for cell, _ in own)
            lacking = [name for name in names if name not in {cell.name for cell, _ in own}]
            if lacking:
                return self._sides.lacks("value", lacking[0])
            keys = [pair for pair in value.cells(key=True) if pair[0].name in names]
        else:
            keys = key.cells(key=True) if key is not None else []
        by_name = {cell.name: (cell, found) for cell, found in keys}
        placed = [by_name.pop(cell.name, (cell, found)) for cell, found in own]
        kept = [pair for pair in placed if pair[0].key or options.writes(pair[0].name)]
        return [*kafka, *kept, *(by_name[name] for name in sorted(by_name))]

    def _made(
        self, operation: Operation, cells: list[tuple[Cell, Value]], members: Column | None, prefix: str
    ) -> _LayoutValues:
        document = f"row_{prefix}" if self.form.documents or members is not None else None
        named = tuple(self._named(cell) for cell, _ in cells)
        layout = RowLayout(operation, named, document, members is not None)
        return _LayoutValues(layout, [value for _, value in cells], members)

    def _named(self, cell: Cell) -> Cell:
        """The cell under its column's name."""
        name = cell.schema.parameters.get(SOURCE_NAME) if self.options.source_names else None
        return replace(cell, name=name) if name else cell


class _LayoutValues(NamedTuple):
    layout: RowLayout
    values: list[Value]
    members: Column | None = None


class _Projection:
    def __init__(self, sink: SinkColumns, table: Column) -> None:
        self._sink = sink
        self._table = table
        self._layout, self._refused, self.shape = _Chain("int"), _Chain("string"), _Chain("string")
        self._cells: dict[str, Column] = {}
        self._documents: dict[str, _Chain] = {}

    def add(self, key: SideCase, value: SideCase) -> None:
        """Adds the rows for which both cases hold."""
        holds = value.holds & key.holds
        if value.what is NoRow.TOMBSTONE and "${source." in self._sink.options.table_format:
            # A tombstone deletes nothing here: its delete event has done it.
            self._layout.add(holds & self._table.isNull(), F.lit(PASSED))
            holds = holds & self._table.isNotNull()
        made = self._sink.together(key.what, value)
        if isinstance(made, str):
            self._refused.add(holds, self._told(made))
        elif isinstance(made, int):
            self._layout.add(holds, F.lit(made))
        else:
            self._layout.add(holds, F.lit(self._sink.number(made.layout)))
            for cell, one in zip(made.layout.cells, made.values, strict=True):
                if one.wrong is not None:
                    self._refused.add(holds & one.wrong, F.lit(f"Field {one.name} holds no {_short(one.schema)}"))
                if cell.key and one.schema.optional and finds_rows(made.layout, self._sink.options):
                    text = f"Field {one.name} of the key is null, and no row of table '{{table}}' is found by that"
                    self._refused.add(holds & one.column.isNull(), self._told(text))
            self._add_cells(holds, made)

    def _add_cells(self, holds: Column, made: _LayoutValues) -> None:
        form, layout = self._sink.form, made.layout
        for cell, value in zip(layout.cells, made.values, strict=True):
            if cell.arrow in _ORIGIN:
                continue
            if layout.document is None:
                self._cells[cell.arrow] = form.cell(value)
            elif cell.key:
                self._cells[cell.arrow] = value.column
        if layout.document is not None:
            self._documents.setdefault(layout.document, _Chain("string")).add(holds, _document(form, made))

    def columns(self) -> list[Column]:
        named = {
            "table": self._table,
            **{name: F.col(name.replace("origin", "")) for name in _ORIGIN},
            "layout": self._layout.column(),
            "refused": self._refused.column(),
            "shape": self.shape.column(),
            **self._cells,
            **{name: chain.column() for name, chain in self._documents.items()},
        }
        return [column.alias(name) for name, column in named.items()]

    def _told(self, text: str) -> Column:
        place = F.concat(
            F.lit("(topic='"), F.col("_topic"), F.lit("',partition="), F.col("_partition").cast("string"),
            F.lit(",offset="), F.col("_offset").cast("string"), F.lit(",timestamp="),
            F.coalesce(F.col("timestamp").cast("string"), F.lit("null")), F.lit(")"),
        )  # fmt: skip
        pieces = {"{table}": self._table, "{record}": place}
        return F.concat(*(pieces.get(piece, F.lit(piece)) for piece in re.split(r"(\{table\}|\{record\})", text)))


class _Chain:
    """A conditional column: each row gets the column of the first condition that holds."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._column: Column | None = None

    def add(self, holds: Column, then: Column) -> None:
        self._column = F.when(holds, then) if self._column is None else self._column.when(holds, then)

    def column(self) -> Column:
        """The column; null if no condition holds."""
        return F.lit(None).cast(self._kind) if self._column is None else self._column


def _document(form: Form, made: _LayoutValues) -> Column:
    """A JSON array of the cells, each text or null, with the members after them."""
    cells = F.to_json(F.array(*(form.item(value) for value in made.values))) if made.values else None
    if made.members is None:
        assert cells is not None
        return cells
    if cells is None:
        return F.concat(F.lit("["), made.members, F.lit("]"))
    return F.concat(F.substring(cells, F.lit(1), F.length(cells) - F.lit(1)), F.lit(","), made.members, F.lit("]"))


def _kafka_cells(options: SinkOptions) -> list[tuple[Cell, Value]]:
    """The key of `pk.mode=kafka`.

    Decided: the original topic of a record that transforms sent to another topic, because only with it partition and
    offset name one record; loses: Confluent's column has the other one.
    """
    if options.key_mode is not KeyMode.KAFKA:
        return []
    kinds = (STRING, Schema(SchemaType.INT32), Schema(SchemaType.INT64))
    names = options.key_fields or KAFKA_KEY
    return [
        (Cell(name, schema, True, arrow), Value(name, schema, F.col(arrow.replace("origin", ""))))
        for name, schema, arrow in zip(names, kinds, _ORIGIN, strict=True)
    ]


def _short(schema: Schema) -> str:
    return (schema.name or schema.type.name).rpartition(".")[2]
