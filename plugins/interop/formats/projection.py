"""Values of one Connect schema as those of another that they fit (`compatibility.can_project`).

Fields that the other schema lacks are dropped. Its additional fields get their default or null. Numbers grow. A null
becomes the default of its schema, if there is one. Arrays are changed as a whole; Avro's values one by one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import AvroOptions, is_union
from headrace.plugins.interop.formats.appending import binary_parts
from headrace.plugins.interop.formats.arrow_types import conform, with_values
from headrace.plugins.interop.formats.avro_container import Block
from headrace.plugins.interop.formats.avro_reading import decoder, without_logical_types
from headrace.plugins.interop.formats.avro_schema import file_schema
from headrace.plugins.interop.formats.format import VALUE
from headrace.plugins.interop.formats.parquet_types import parquet_type
from headrace.plugins.interop.java.numbers import unscaled_bytes
from headrace.plugins.schema import DECIMAL, Schema, SchemaType, logical, scale

Projection = Callable[[Any], Any]
_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)


def project_array(array: pa.Array, of: Schema, to: Schema) -> pa.Array:
    """An array of `arrow_type_of_schema(of)` as one of `arrow_type_of_schema(to)`."""
    kind = arrow_type_of_schema(to)
    match to.type:
        case SchemaType.STRUCT if not is_union(to):
            columns = [_column(array, of, field.name, field.schema) for field in to.fields]
            mask = array.is_null() if array.null_count else None
            made = pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
        case SchemaType.ARRAY:
            made = with_values(array, kind, _inner(array.values, of.value_schema, to.value_schema))
        case SchemaType.MAP:
            entries = array.values
            parts = [_inner(entries.field(0), of.key_schema, to.key_schema)]
            parts.append(_inner(entries.field(1), of.value_schema, to.value_schema))
            made = with_values(array, kind, pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field]))
        case _:
            made = pc.cast(array, kind, safe=False)  # as Java does: the nearest float
    return made if to.default is None or not made.null_count else _filled(made, to)


def _column(array: pa.Array, of: Schema, name: str, to: Schema) -> pa.Array:
    for number, field in enumerate(of.fields):
        if field.name == name:
            return project_array(array.field(number), field.schema, to)
    return _constant(to, len(array))


def _inner(array: pa.Array, of: Schema | None, to: Schema | None) -> pa.Array:
    return array if of is None or to is None else project_array(array, of, to)


def _constant(schema: Schema, rows: int) -> pa.Array:
    """The default in each row; nulls without one."""
    if schema.default is None:
        return pa.nulls(rows, arrow_type_of_schema(schema))
    return default_array(schema).take(pa.array(np.zeros(rows, np.int64)))


def default_array(schema: Schema) -> pa.Array:
    """The default of a schema, as an array of one row of `arrow_type_of_schema(schema)`."""
    return conform(pa.array([schema.default], parquet_type(schema)), pa.field(VALUE, arrow_type_of_schema(schema)))


def _filled(array: pa.Array, schema: Schema) -> pa.Array:
    """The array with the default in place of nulls."""
    rows = np.arange(len(array), dtype=np.int64)
    rows[array.is_null().to_numpy(zero_copy_only=False)] = len(array)
    return pa.concat_arrays([array, default_array(schema)]).take(pa.array(rows))


def project_avro(payload: pa.Array, of: Schema, to: Schema, options: AvroOptions) -> pa.Array:
    """Avro's bytes of values of schema `of` as those of schema `to`; null stays null. Errors: DataError."""
    data, positions = binary_parts(payload)
    rows = len(positions) - 1
    body = bytes(memoryview(data)[positions[0] : positions[-1]])
    values = decoder(file_schema(of, options).text)([Block(rows, body, 0)]) if rows else []
    written, projection = (
        fastavro.parse_schema(without_logical_types(file_schema(to, options).text)),
        _of(of, to, options),
    )
    made, ends = io.BytesIO(), []
    for value in values:
        try:
            fastavro.schemaless_writer(made, written, projection(value))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise DataError(f"A value does not fit the schema of its file: {error}") from error
        ends.append(made.tell())
    offsets = np.zeros(len(payload) + 1, np.int32)
    offsets[1:][payload.is_valid().to_numpy(zero_copy_only=False)] = ends
    np.maximum.accumulate(offsets, out=offsets)
    bare = pa.Array.from_buffers(
        pa.binary(), len(payload), [None, pa.py_buffer(offsets), pa.py_buffer(made.getvalue())]
    )
    return pc.if_else(payload.is_valid(), bare, None)


def _of(of: Schema, to: Schema, options: AvroOptions) -> Projection:
    """Makes a projection of values in fastavro's types without logical types."""
    default = _raw(to, to.default, options)
    convert = _converted(of, to, options)

    def projected(value: Any) -> Any:
        return default if value is None else value if convert is None else convert(value)

    return projected


def _converted(of: Schema, to: Schema, options: AvroOptions) -> Projection | None:
    match to.type:
        case SchemaType.STRUCT if not is_union(to):
            return _struct(of, to, options)
        case SchemaType.ARRAY if of.value_schema is not None and to.value_schema is not None:
            item = _of(of.value_schema, to.value_schema, options)
            return lambda value: [item(one) for one in value]
        case SchemaType.MAP:
            return _map(of, to, options)
    return float if to.type in _FLOATS and of.type not in _FLOATS else None


def _struct(of: Schema, to: Schema, options: AvroOptions) -> Projection:
    members: list[tuple[str, Projection | None, Any]] = []
    for field in to.fields:
        found = of.field(field.name)
        default = _raw(field.schema, field.schema.default, options)
        members.append((field.name, None if found is None else _of(found.schema, field.schema, options), default))
    return lambda value: {name: d if of is None else of(value[name]) for name, of, d in members}


def _map(of: Schema, to: Schema, options: AvroOptions) -> Projection | None:
    if of.key_schema is None or of.value_schema is None or to.key_schema is None or to.value_schema is None:
        return None
    key, member = _of(of.key_schema, to.key_schema, options), _of(of.value_schema, to.value_schema, options)
    if options.is_avro_map(of):
        return lambda value: {name: member(one) for name, one in value.items()}
    return lambda value: [{"key": key(one["key"]), "value": member(one["value"])} for one in value]


def _raw(schema: Schema | None, value: Any, options: AvroOptions) -> Any:
    """A value of `Schema.default` in fastavro's types without logical types."""
    if value is None or schema is None:
        return value
    match schema.type:
        case SchemaType.ARRAY:
            return [_raw(schema.value_schema, item, options) for item in value]
        case SchemaType.MAP:
            pairs = [
                (_raw(schema.key_schema, k, options), _raw(schema.value_schema, v, options)) for k, v in value.items()
            ]
            return dict(pairs) if options.is_avro_map(schema) else [{"key": k, "value": v} for k, v in pairs]
        case SchemaType.STRUCT:
            return {f.name: _raw(f.schema, value.get(f.name, f.schema.default), options) for f in schema.fields}
    return unscaled_bytes(value, scale(schema)) if logical(schema) == DECIMAL else value
