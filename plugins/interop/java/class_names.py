"""Java classes of Connect's values, for error messages."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.schema import DECIMAL, Schema, SchemaType, logical

_CLASSES: Final = {
    SchemaType.INT8: "java.lang.Byte",
    SchemaType.INT16: "java.lang.Short",
    SchemaType.INT32: "java.lang.Integer",
    SchemaType.INT64: "java.lang.Long",
    SchemaType.FLOAT32: "java.lang.Float",
    SchemaType.FLOAT64: "java.lang.Double",
    SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.STRING: "java.lang.String",
    SchemaType.BYTES: "[B",
    SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
    SchemaType.STRUCT: "org.apache.kafka.connect.data.Struct",
}
_BY_JSON: Final = {
    '^"': "java.lang.String",
    "^[tf]": "java.lang.Boolean",
    r"^\[": "java.util.ArrayList",
    r"^\{": "java.util.HashMap",
    r"^-?[0-9]+$": "java.lang.Long",
}


def class_of(schema: Schema) -> str:
    """Return the class name of values of this schema."""
    kind = logical(schema)
    if kind is not None:
        return "java.math.BigDecimal" if kind == DECIMAL else "java.util.Date"
    return _CLASSES[schema.type]


def class_of_json(text: Column) -> Column:
    """Return the class name of a schemaless value, from its JSON text; `null` for null."""
    name = F.lit("java.lang.Double")
    for pattern, of_it in reversed(_BY_JSON.items()):
        name = F.when(text.rlike(pattern), F.lit(of_it)).otherwise(name)
    return F.when(text.isNull(), F.lit("null")).otherwise(name)
