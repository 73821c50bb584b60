"""Cells, arrays of texts, to arrays of a schema's type; one cell that does not fit refuses all.

Numbers are strict, and so are booleans: `true` and `false` in any case. Decimals are never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.spool.date_patterns import DatePattern
from headrace.connectors.spool.errors import Unreadable
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.interop.formats.projection import default_array
from headrace.plugins.schema import DATE, DECIMAL, INTEGER_BITS, TIME, TIMESTAMP, Schema, SchemaType, logical

_INTEGER: Final = r"^[+-]?[0-9]+$"
_DAY_MS: Final = 86_400_000
_SHOWN: Final = 60


@dataclass(frozen=True)
class Cells:
    """The reading of cells."""

    patterns: tuple[str, ...]
    zone: str

    def texts(self, schema: Schema, is_nested: bool) -> pa.DataType:
        """Return the type of cells for values of this schema. Errors: ValueError if there are none."""
        if logical(schema) is None:
            if schema.type is SchemaType.STRUCT and is_nested:
                return pa.struct([(field.name, self.texts(field.schema, True)) for field in schema.fields])
            if schema.type is SchemaType.ARRAY and is_nested and schema.value_schema is not None:
                return pa.list_(self.texts(schema.value_schema, True))
            if schema.type in (SchemaType.BYTES, SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT):
                raise ValueError(f"values of type {schema.type.name} are not read from such files")
        return pa.string()

    def typed(self, cells: Any, schema: Schema, name: str) -> Any:
        """Return the values of these cells. Errors: Unreadable for a cell that does not fit, named by its field."""
        made = self._nested(cells, schema, name)
        if not schema.optional and made.null_count:
            if schema.default is None:
                raise Unreadable(f"the field {name} has no value, but its schema is not optional")
            made = pc.fill_null(made, default_array(schema)[0])
        return made

    def _nested(self, cells: Any, schema: Schema, name: str) -> Any:
        if pa.types.is_struct(cells.type):
            present = cells.is_valid()
            children = []
            for number, field in enumerate(schema.fields):
                child = cells.field(number)
                # A field of a null struct lacks nothing.
                wanted = child if present.false_count == 0 else child.filter(present)
                typed = self.typed(wanted, field.schema, f"{name}.{field.name}")
                children.append(typed if present.false_count == 0 else _spread(typed, present))
            fields = list(arrow_type_of_schema(schema))
            return pa.StructArray.from_arrays(children, fields=fields, mask=cells.is_null())
        if pa.types.is_list(cells.type):
            assert schema.value_schema is not None
            items = self.typed(cells.flatten(), schema.value_schema, f"{name}[]")
            lengths = pc.fill_null(pc.list_value_length(cells), 0)
            ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
            kind = arrow_type_of_schema(schema)
            return pa.ListArray.from_arrays(ends.cast(pa.int32()), items, type=kind, mask=cells.is_null())
        try:
            return self._scalars(cells, schema)
        except (pa.ArrowException, Unreadable, ValueError, OverflowError) as error:
            shown = next((one for one in cells.to_pylist() if one is not None), "")[:_SHOWN]
            hint = " (csv.null.field.indicator says which cells are null)" if shown == "" else ""
            raise Unreadable(f"the field {name} is no {_named(schema)}: {shown!r}{hint}") from error

    def _scalars(self, cells: Any, schema: Schema) -> Any:
        kind = logical(schema)
        if kind == DECIMAL:
            return pc.cast(cells, arrow_type_of_schema(schema))
        if kind in (DATE, TIME, TIMESTAMP):
            return self._times(cells, kind).cast(arrow_type_of_schema(schema))
        if schema.type in INTEGER_BITS:
            if not pc.all(pc.match_substring_regex(cells, _INTEGER), min_count=0).as_py():
                raise Unreadable
            return pc.cast(pc.utf8_ltrim(cells, "+"), arrow_type_of_schema(schema))
        if schema.type is SchemaType.BOOLEAN:
            lower = pc.utf8_lower(cells)
            is_true = pc.equal(lower, "true")
            if not pc.all(pc.or_(is_true, pc.equal(lower, "false")), min_count=0).as_py():
                raise Unreadable
            return is_true
        return pc.cast(cells, arrow_type_of_schema(schema))

    def _times(self, cells: Any, kind: str) -> Any:
        """Return days, milliseconds of the day, or instants, by the first pattern that each cell matches."""
        made = pa.nulls(len(cells), pa.int64())
        for pattern in self.patterns:
            local, zone_ms = DatePattern.of(pattern).parsed(cells)
            made = pc.coalesce(made, self._of_kind(local, zone_ms, kind))
            if made.null_count == cells.null_count:
                break
        if made.null_count > cells.null_count:
            raise Unreadable
        if kind == TIMESTAMP:
            return made.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        return made.cast(pa.int32()) if kind == TIME else made.cast(pa.int32()).cast(pa.date32())

    def _of_kind(self, local: pa.Array, zone_ms: pa.Array | None, kind: str) -> Any:
        days = pc.floor(pc.divide(pc.cast(local, pa.float64()), float(_DAY_MS))).cast(pa.int64())
        if kind == DATE:
            return days
        if kind == TIME:
            return pc.subtract(local, pc.multiply(days, _DAY_MS))
        if zone_ms is not None:
            return pc.subtract(local, zone_ms)
        wall = local.cast(pa.timestamp("ms"))
        return pc.assume_timezone(wall, self.zone, ambiguous="earliest", nonexistent="latest").cast(pa.int64())


def _spread(values: Any, present: Any) -> Any:
    """The values at the places that are present, null at the others."""
    places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return values.take(pc.if_else(present, places, None))


def _named(schema: Schema) -> str:
    kind = logical(schema)
    return schema.type.name if kind is None else kind.rpartition(".")[2]
