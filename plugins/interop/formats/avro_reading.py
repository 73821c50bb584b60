"""Values of Avro container files to Arrow arrays.

Decided: fastavro decodes, some thousand rows with one call, and Arrow's own converter makes arrays of the values,
because values in Avro have no positions: nothing can read them by column, and Spark's decoder needs the beginning of
each; loses: rate against Parquet.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import fastavro
import pyarrow as pa

from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import AvroOptions, is_union
from headrace.plugins.interop.formats.arrow_types import conform
from headrace.plugins.interop.formats.avro_container import Block, blocks, encoded_long, opened
from headrace.plugins.interop.formats.format import VALUE
from headrace.plugins.schema import DATE, DECIMAL, TIMESTAMP, Schema, SchemaType, logical

_BATCH_BYTES: Final = 1 << 20


def read_values(
    file: pa.NativeFile, schema: Schema | None, options: AvroOptions, skip: int
) -> Iterator[pa.RecordBatch]:
    """The values after the first `skip`, as `Format.read` yields them."""
    if schema is not None and _has_union(schema):
        raise DataError("The Avro file has unions of several types, which Headrace does not read from files")
    header, stream = opened(file)
    values, to, raw = decoder(header.schema), pa.field(VALUE, arrow_type_of_schema(schema)), _raw_type(schema, options)
    for parts in _gathered(blocks(header, stream, skip)):
        some = values(parts)[parts[0].skipped :]
        if schema is None:
            some = [json_of(value) for value in some]
        try:
            array = conform(pa.array(some, raw), to)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise DataError(f"The Avro file has a value that Connect cannot hold: {error}") from error
        yield pa.RecordBatch.from_arrays([array], [VALUE])


def _gathered(parts: Iterator[Block]) -> Iterator[list[Block]]:
    """The blocks in lists of about a MiB."""
    some: list[Block] = []
    for part in parts:
        some.append(part)
        if sum(len(one.data) for one in some) >= _BATCH_BYTES:
            yield some
            some = []
    if some:
        yield some


def decoder(schema: str) -> Callable[[list[Block]], list[Any]]:
    """Makes a function that decodes blocks, without logical types. Errors of the function: DataError."""
    of_all = fastavro.parse_schema({"type": "array", "items": without_logical_types(schema)})

    def values(parts: list[Block]) -> list[Any]:
        # The blocks of an array are counted runs of items, too.
        pieces = [piece for part in parts for piece in (encoded_long(part.rows), part.data)]
        try:
            made = fastavro.schemaless_reader(io.BytesIO(b"".join([*pieces, b"\x00"])), of_all, None)
        except Exception as error:  # any kind: the bytes may be anything
            raise DataError(f"The Avro file is broken: {type(error).__name__}: {error}") from error
        assert isinstance(made, list)
        return made

    return values


def without_logical_types(schema: str) -> Any:
    """The Avro schema for values as numbers and bytes; fastavro refuses some logical types that Confluent writes."""
    return json.loads(schema, object_hook=lambda node: {k: value for k, value in node.items() if k != "logicalType"})


def _has_union(schema: Schema) -> bool:
    inner = [schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields)]
    return is_union(schema) or any(_has_union(one) for one in inner if one is not None)


def _raw_type(schema: Schema | None, options: AvroOptions) -> pa.DataType:
    if schema is None:
        return pa.string()
    match schema.type:
        case SchemaType.ARRAY:
            return pa.list_(_raw_type(_known(schema.value_schema), options))
        case SchemaType.MAP:
            key = _raw_type(_known(schema.key_schema), options)
            value = _raw_type(_known(schema.value_schema), options)
            if options.is_avro_map(schema):
                return pa.map_(key, value)
            return pa.list_(pa.struct([pa.field("key", key), pa.field("value", value)]))
        case SchemaType.STRUCT:
            return pa.struct([pa.field(field.name, _raw_type(field.schema, options)) for field in schema.fields])
    kind = logical(schema)
    if kind == DECIMAL:
        return pa.binary()
    return (
        pa.timestamp("ms", "UTC")
        if kind == TIMESTAMP
        else pa.date32()
        if kind == DATE
        else arrow_type_of_schema(schema)
    )


def _known(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("The Avro file has lists or maps of values without a schema, which Headrace does not read")
    return schema


def json_of(anything: dict[str, Any] | None) -> str | None:
    """The JSON of a record `Anything`; None for null."""
    found = _plain(anything)
    return None if found is None else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _plain(anything: dict[str, Any] | None) -> Any:
    for kind, value in (anything or {}).items():
        if value is None:
            continue
        match kind:
            case "bytes":
                return base64.b64encode(value).decode()
            case "array":
                return [_plain(item) for item in value]
            case "map":
                return {_key(_plain(entry["key"])): _plain(entry["value"]) for entry in value}
            case "double" | "float" if not math.isfinite(value):
                return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        return value
    return None


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)
