"""Keys and headers in files beside those of values, in the form of Confluent's S3 connector.

| format | a row of keys | a row of headers |
|---|---|---|
| Avro | the bare key | an array of records of `key` and `value` |
| JSON | the bare key | `{"headers": […]}` |
| Parquet | a record with the field `key` | a record with the field `headers` |
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.hdfs.format_settings import FileFormat
from headrace.plugins.schema import Field, Schema, SchemaType

KEYS: Final = "keys"
HEADERS: Final = "headers"
_TEXT: Final = Schema(SchemaType.STRING)
_HEADER: Final = Schema(
    SchemaType.STRUCT,
    name="RecordHeader",
    fields=(Field("key", _TEXT), Field("value", Schema(SchemaType.STRING, optional=True))),
)
_LIST: Final = Schema(SchemaType.ARRAY, value_schema=_HEADER)
_LISTED: Final = Schema(SchemaType.STRUCT, name="RecordHeaders", fields=(Field("headers", _LIST),))
_TEXTS: Final = "array<struct<key: string, value: string>>"
_BYTES: Final = "array<struct<key: string, value: binary>>"


def stored_key(kind: FileFormat, key: Column, schema: Schema | None) -> tuple[Column, Schema | None]:
    """Return a key in the form of its file, and its schema there."""
    if kind is not FileFormat.PARQUET or schema is None:
        return key, schema
    return F.struct(key.alias("key")), key_schema(kind, schema)


def key_schema(kind: FileFormat, schema: Schema | None) -> Schema | None:
    """Return the schema of keys in their file."""
    if kind is not FileFormat.PARQUET or schema is None:
        return schema
    return Schema(SchemaType.STRUCT, name="RecordKey", fields=(Field("key", schema),))


def stored_headers(kind: FileFormat, headers: Column) -> Column:
    """Return a record's headers (`plugins.records.HEADERS`), whose values are texts, in the form of their file."""
    texts = F.transform(headers, lambda one: F.struct(one["key"], one["value"].cast("string").alias("value")))
    made = F.coalesce(texts, F.array().cast(_TEXTS))
    return made if kind is FileFormat.AVRO else F.struct(made.alias("headers"))


def headers_schema(kind: FileFormat) -> Schema:
    """Return the schema of headers in their file."""
    return _LIST if kind is FileFormat.AVRO else _LISTED


def read_key(kind: FileFormat, stored: Column, schema: Schema | None) -> dict[str, Any]:
    """Return the key of a row and its schema, as arguments of `source_records`."""
    if kind is FileFormat.PARQUET and schema is not None and (field := schema.field("key")) is not None:
        return {"key": stored["key"], "key_schema": field.schema}
    return {"key": stored, "key_schema": schema}


def read_headers(kind: FileFormat, stored: Column) -> Column:
    """Return the headers of a row (`plugins.records.HEADERS`); null for a line of JSON that has none."""
    if kind is FileFormat.JSON:
        stored = F.from_json(stored, f"headers {_TEXTS}")
    return (stored if kind is FileFormat.AVRO else stored["headers"]).cast(_BYTES)
