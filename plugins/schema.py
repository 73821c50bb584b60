"""Connect schemas and the Spark types that carry them.

A Spark type loses part of a Connect schema (optional, default, logical name, version, doc, parameters), so a `Schema`
accompanies every frame (`headrace.plugins.records`).

| Connect | Spark | `Schema.default` in Python |
|---|---|---|
| INT8, INT16, INT32, INT64 | tinyint, smallint, int, bigint | int |
| FLOAT32, FLOAT64 | float, double | float |
| BOOLEAN, STRING, BYTES | boolean, string, binary | bool, str, bytes |
| ARRAY, MAP, STRUCT | array, map, struct | list, dict, dict by field name |
| Decimal of scale 0 to 38 | decimal(38, scale) | decimal.Decimal |
| Date | date | int, days |
| Time | int, ms of the day | int |
| Timestamp | timestamp | int, ms |
| schemaless | string, its JSON text | - |

Spark cannot hold decimals of another scale, nor maps whose keys contain maps; `uncarried` finds such schemas. Nor can
it hold decimals of more than 38 digits, timestamps outside an int64 of microseconds, or null map keys; such a value is
an error of its record. Map entries keep the order in which they were read; Java's do not.

Source: Connect's data API (`org.apache.kafka.connect.data`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark


class SchemaType(StrEnum):
    """Connect's schema types; values are the texts of JsonConverter."""

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
    """A Connect schema; equal if every part is equal."""

    type: SchemaType
    optional: bool = False
    default: object = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    def __hash__(self) -> int:
        return hash((self.type, self.optional, self.name, self.version, self.fields))

    def field(self, name: str) -> Field | None:
        """Return the member of this name, None if there is none."""
        return next((one for one in self.fields if one.name == name), None)


DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
"""Names of the logical types; as in Connect the name alone makes a schema logical."""

STRING = Schema(SchemaType.STRING)
OPTIONAL_STRING = Schema(SchemaType.STRING, optional=True)
OPTIONAL_BYTES = Schema(SchemaType.BYTES, optional=True)

MOST_DIGITS: Final = 38
"""Maximum precision of a Spark decimal."""

INTEGER_BITS: Final = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
NUMBERS: Final = (*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64)
"""Number types, in order: Avro and Connect's projection can promote each to a later one."""
TIMESTAMP_END: Final = 2**63 // 1000 - 1
"""Maximum timestamp in milliseconds that Spark's int64 of microseconds holds."""

_PRIMITIVES: Final[Mapping[SchemaType, spark.DataType]] = {
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
_LOGICAL: Final = {
    DECIMAL: SchemaType.BYTES,
    DATE: SchemaType.INT32,
    TIME: SchemaType.INT32,
    TIMESTAMP: SchemaType.INT64,
}


def logical(schema: Schema) -> str | None:
    """Return `DECIMAL`, `DATE`, `TIME` or `TIMESTAMP` if the schema is of that logical type, else None."""
    name = schema.name
    return name if name is not None and _LOGICAL.get(name) is schema.type else None


def scale(schema: Schema) -> int:
    """Return the scale of a Decimal schema. Errors: ValueError if it has none."""
    text = schema.parameters.get("scale")
    try:
        return int(text or "")
    except ValueError:
        raise ValueError(f"Invalid Decimal schema: its parameter scale is {text!r}, not an integer") from None


def spark_type(schema: Schema | None) -> spark.DataType:
    """Return the Spark type of values of this schema; a schemaless value is a string, its JSON text.

    Errors: ValueError if Spark cannot hold such values (see `uncarried`).
    """
    if schema is None:
        return spark.StringType()
    kind = logical(schema)
    if kind == DECIMAL:
        return spark.DecimalType(MOST_DIGITS, _carried_scale(schema))
    if kind == DATE:
        return spark.DateType()
    if kind == TIMESTAMP:
        return spark.TimestampType()
    if schema.type is SchemaType.ARRAY:
        return spark.ArrayType(spark_type(schema.value_schema))
    if schema.type is SchemaType.MAP:
        if _contains_map(schema.key_schema):
            raise ValueError("Spark cannot hold a map whose keys contain maps")
        return spark.MapType(spark_type(schema.key_schema), spark_type(schema.value_schema))
    if schema.type is SchemaType.STRUCT:
        return spark.StructType([spark.StructField(f.name, spark_type(f.schema)) for f in schema.fields])
    return _PRIMITIVES[schema.type]


def uncarried(schema: Schema | None) -> str | None:
    """Return why Spark cannot hold values of this schema; None if it can."""
    try:
        spark_type(schema)
    except ValueError as error:
        return f"{error}."
    except RecursionError:
        return "The schema is nested too deeply."
    return None


def literal(value: Any, schema: Schema | None) -> Column:
    """Return a constant column of the schema's Spark type; `value` is as in `Schema.default`, None for null."""
    return _literal(value, schema).cast(spark_type(schema))


def _literal(value: Any, schema: Schema | None) -> Column:
    if isinstance(value, str):
        return F.lit(sendable(value))
    if value is None or schema is None:
        return F.lit(value)
    kind = logical(schema)
    if kind == DATE:
        return F.date_from_unix_date(F.lit(value))
    if kind == TIMESTAMP:
        return F.timestamp_millis(F.lit(value))
    match schema.type:
        case SchemaType.ARRAY:
            return F.array(*(literal(item, schema.value_schema) for item in value))
        case SchemaType.MAP:
            pairs = [(literal(k, schema.key_schema), literal(v, schema.value_schema)) for k, v in value.items()]
            return F.create_map(*(column for pair in pairs for column in pair))
        case SchemaType.STRUCT:
            return F.struct(*(literal(value.get(f.name), f.schema).alias(f.name) for f in schema.fields))
    return F.lit(value)


def sendable(text: str) -> str:
    """Replace each lone surrogate by `?`, as Java does in UTF-8; py4j sends no lone surrogate to the JVM."""
    return text.encode("utf-8", "replace").decode()


def _carried_scale(schema: Schema) -> int:
    found = scale(schema)
    if not 0 <= found <= MOST_DIGITS:
        raise ValueError(f"Spark cannot hold decimals of scale {found}, only of 0 to {MOST_DIGITS}")
    return found


def _contains_map(schema: Schema | None) -> bool:
    if schema is None:
        return False
    inner = (schema.key_schema, schema.value_schema, *(f.schema for f in schema.fields))
    return schema.type is SchemaType.MAP or any(_contains_map(one) for one in inner if one is not None)
