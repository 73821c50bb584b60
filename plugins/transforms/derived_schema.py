"""Derives Connect schemas from Spark types, for SQL results and for columns that a user declared in Spark's DDL.

| Spark | Connect |
|---|---|
| tinyint, smallint, int, bigint, float, double, boolean, string, binary | INT8 … BYTES |
| char, varchar, void | STRING |
| decimal(p, s) | Decimal of scale s |
| date; timestamp, timestamp_ntz | Date; Timestamp |
| variant | STRING: texts unchanged, others as JSON |
| array, map, struct | ARRAY, MAP, STRUCT |

Nullable types become optional; a comment becomes the schema's doc. Intervals have no Connect schema. A time of day gets
none either: cast to a number it is in seconds, but Connect's Time is in milliseconds.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from headrace.plugins.schema import DATE, DECIMAL, TIMESTAMP, Field, Schema, SchemaType, spark_type

_PRIMITIVES: Final[dict[type[spark.DataType], SchemaType]] = {
    spark.ByteType: SchemaType.INT8,
    spark.ShortType: SchemaType.INT16,
    spark.IntegerType: SchemaType.INT32,
    spark.LongType: SchemaType.INT64,
    spark.FloatType: SchemaType.FLOAT32,
    spark.DoubleType: SchemaType.FLOAT64,
    spark.BooleanType: SchemaType.BOOLEAN,
    spark.StringType: SchemaType.STRING,
    spark.CharType: SchemaType.STRING,
    spark.VarcharType: SchemaType.STRING,
    spark.NullType: SchemaType.STRING,
    spark.VariantType: SchemaType.STRING,
    spark.BinaryType: SchemaType.BYTES,
}


def derived_schema(kind: spark.DataType, optional: bool, doc: str | None = None) -> Schema:
    """Return the schema of this Spark type, whose values still need a cast to `headrace.plugins.schema.spark_type`.

    Errors: ValueError if Connect has none, or Spark could not carry it.
    """
    if isinstance(kind, spark.DecimalType):
        parameters = {"scale": str(kind.scale)}
        return Schema(SchemaType.BYTES, optional, name=DECIMAL, version=1, doc=doc, parameters=parameters)
    if isinstance(kind, spark.DateType):
        return Schema(SchemaType.INT32, optional, name=DATE, version=1, doc=doc)
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return Schema(SchemaType.INT64, optional, name=TIMESTAMP, version=1, doc=doc)
    if isinstance(kind, spark.ArrayType):
        inner = derived_schema(kind.elementType, kind.containsNull)
        return Schema(SchemaType.ARRAY, optional, doc=doc, value_schema=inner)
    if isinstance(kind, spark.MapType):
        keys, values = derived_schema(kind.keyType, False), derived_schema(kind.valueType, kind.valueContainsNull)
        return Schema(SchemaType.MAP, optional, doc=doc, key_schema=keys, value_schema=values)
    if isinstance(kind, spark.StructType):
        return Schema(SchemaType.STRUCT, optional, doc=doc, fields=tuple(map(derived_field, kind.fields)))
    found = next((type_ for of, type_ in _PRIMITIVES.items() if isinstance(kind, of)), None)
    if found is None:
        raise ValueError(f"no Connect schema is made of {kind.simpleString()}: cast it, to a string or a number")
    return Schema(found, optional, doc=doc)


def derived_field(field: spark.StructField) -> Field:
    """Return the field of a struct's member or a column. Errors: as `derived_schema`, with the name."""
    try:
        schema = derived_schema(field.dataType, field.nullable, (field.metadata or {}).get("comment"))
    except ValueError as error:
        raise ValueError(f"{field.name}: {error}") from None
    return Field(field.name, schema)


def strict_type(schema: Schema) -> spark.DataType:
    """Return the Spark type that carries this schema, with members that are not optional declared not null."""
    carrier = spark_type(schema)
    if schema.value_schema is not None and isinstance(carrier, spark.ArrayType):
        return spark.ArrayType(strict_type(schema.value_schema), schema.value_schema.optional)
    if schema.key_schema is not None and schema.value_schema is not None and isinstance(carrier, spark.MapType):
        keys, values = strict_type(schema.key_schema), strict_type(schema.value_schema)
        return spark.MapType(keys, values, schema.value_schema.optional)
    if isinstance(carrier, spark.StructType):
        members = [spark.StructField(f.name, strict_type(f.schema), f.schema.optional) for f in schema.fields]
        return spark.StructType(members)
    return carrier
