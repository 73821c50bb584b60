"""Connect schemas, and the Spark type that carries each.

A Spark type alone loses what Connect knows of a value (optional, default, logical name, version, doc, parameters), so
a `Schema` travels beside every frame (`headrace.plugins.records`).

Source: Connect's data API (`org.apache.kafka.connect.data`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pyspark.sql import types as spark


class SchemaType(StrEnum):
    """Connect's schema types; the member's value is the text that JsonConverter writes for it."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True)
class Field:
    """One member of a struct schema."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Schema:
    """A Connect schema; equal when every part is equal."""

    type: SchemaType
    optional: bool = False
    default: object = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    def __hash__(self) -> int:
        return hash((self.type, self.optional, self.name, self.version, self.fields))


STRING = Schema(SchemaType.STRING)
OPTIONAL_STRING = Schema(SchemaType.STRING, optional=True)
OPTIONAL_BYTES = Schema(SchemaType.BYTES, optional=True)

_PRIMITIVES: dict[SchemaType, spark.DataType] = {
    SchemaType.INT8: spark.ByteType(),
    SchemaType.INT16: spark.ShortType(),
    SchemaType.INT32: spark.IntegerType(),
    SchemaType.INT64: spark.LongType(),
    SchemaType.FLOAT32: spark.FloatType(),
    SchemaType.FLOAT64: spark.DoubleType(),
    SchemaType.BOOLEAN: spark.BooleanType(),
    SchemaType.STRING: spark.StringType(),
    SchemaType.BYTES: spark.BinaryType(),
}


def spark_type(schema: Schema | None) -> spark.DataType:
    """The Spark type of a value with this schema; a schemaless value is carried as its JSON text."""
    if schema is None:
        return spark.StringType()
    if schema.type is SchemaType.ARRAY:
        return spark.ArrayType(spark_type(schema.value_schema))
    if schema.type is SchemaType.MAP:
        return spark.MapType(spark_type(schema.key_schema), spark_type(schema.value_schema))
    if schema.type is SchemaType.STRUCT:
        return spark.StructType([spark.StructField(f.name, spark_type(f.schema)) for f in schema.fields])
    return _PRIMITIVES[schema.type]
