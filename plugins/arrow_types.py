"""Spark's types as Arrow's, and back.

Seen in pyspark 4.2.1 and 4.3.0.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

from headrace.plugins.schema import Schema, spark_type


def arrow_schema_of(of: StructType) -> pa.Schema:
    """Return the Arrow schema of rows of this type, as in the driver's JVM."""
    return to_arrow_schema(of, timezone="UTC")


def arrow_type_of(of: DataType) -> pa.DataType:
    """Return the Arrow type of a column of this type, as in the driver's JVM."""
    return to_arrow_type(of, timezone="UTC")


def arrow_type_of_schema(schema: Schema | None) -> pa.DataType:
    """Return the Arrow type of values of this schema as Spark takes and gives them."""
    return arrow_type_of(spark_type(schema))


def struct_of(schema: pa.Schema) -> StructType:
    """Return the Spark type of rows with this Arrow schema. Errors: PySparkTypeError."""
    return from_arrow_schema(schema)
