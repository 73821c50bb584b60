"""Carriers: Avro schemas of the same binary layout, in which Spark's reader and writer keep what Connect needs.

| Avro | carrier | because Spark |
|---|---|---|
| decimal of any precision | decimal of 38 digits | knows no longer ones |
| time, micros, uuid: what Connect has no logical type for | the plain type | has types of its own for them |
| a named type | the same under a name used once | cannot take one name for two carriers |
| a union of int and long, or of float and double | each branch in a record of one field | makes one number of it |
| schemaless values, which contain themselves | the same, `DEEPEST` arrays and maps deep | has no type without end |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from math import log10
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.converters.avro.parsing import branches, entry_of, kind_of
from headrace.converters.avro.tree import ANYTHING, Tree, is_union
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import DATE, DECIMAL, MOST_DIGITS, TIMESTAMP, Schema, logical, scale

SCHEMALESS: Final = "schemaless"
"""Stands for the carrier of schemaless values."""
DEEPEST: Final = 4
"""So many arrays and maps may lie in each other in a schemaless value."""
WRAPPED: Final = "of"
"""The field of a record that keeps a union's branch apart."""

_MERGED: Final = ({"int", "long"}, {"float", "double"})
_BY_LOGICAL_TYPE: Final = {
    DATE: {"type": "int", "logicalType": "date"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}


Expression = Callable[[Column], Column]


@dataclass(frozen=True)
class AvroEncoding:
    """How values of a Connect schema become those of a carrier."""

    carrier: Tree
    """`SCHEMALESS`: `value` gives Avro's bytes."""
    value: Expression | None = None
    """None: they are so already, but for a cast by position."""
    nulls: Expression | None = None
    """Where a null stands that may not; never asked for a null itself."""
    misfits: Expression | None = None
    """Where a value stands that the type does not hold."""

    def of(self, column: Column) -> Column:
        """The carrier's values."""
        return column if self.value is None else self.value(column)


def present(test: Expression | None) -> Expression | None:
    """The test for values that are not null, and true of no null."""
    return None if test is None else lambda column: column.isNotNull() & F.coalesce(test(column), F.lit(False))


def is_wrapped(tree: list[Any]) -> bool:
    """Whether Spark would make one number of this union's branches."""
    return {kind_of(branch) for branch in branches(tree)} in _MERGED and len(branches(tree)) == 2


def branch_schemas(tree: list[Any], schema: Schema) -> list[Schema]:
    """The Connect schema of each branch but null."""
    return [field.schema for field in schema.fields] if is_union(schema) else [schema]


class Carriers:
    """Makes the carriers of one Avro schema.

    `wraps`: for Spark's reader; its writer knows int from long.
    """

    def __init__(self, wraps: bool = False) -> None:
        self._wraps = wraps
        self._numbers = count()

    def name(self) -> str:
        """A name not given before."""
        return f"t{next(self._numbers)}"

    def of(self, tree: Tree, schema: Schema | None) -> Tree:
        """The carrier of values of this Avro and this Connect schema.

        Errors: DataError where there is none.
        """
        if schema is None:
            return self.anything(DEEPEST)
        if isinstance(tree, list):
            return self._union(tree, schema)
        kind = kind_of(tree)
        if isinstance(tree, dict) and (made := self._complex(kind, tree, schema)) is not None:
            return made
        name = logical(schema)
        return _BY_LOGICAL_TYPE.get(name, kind) if name is not None and name != DECIMAL else kind

    def _complex(self, kind: str, tree: Mapping[str, Any], schema: Schema) -> Tree | None:
        match kind:
            case "array":
                return {"type": "array", "items": self._items(tree, schema)}
            case "map":
                return {"type": "map", "values": self.of(tree["values"], schema.value_schema)}
            case "record":
                types = [
                    self.of(field["type"], of.schema) for field, of in zip(tree["fields"], schema.fields, strict=True)
                ]
                return self.record([(field["name"], type_) for field, type_ in zip(tree["fields"], types, strict=True)])
            case "enum":
                return {"type": "enum", "name": self.name(), "symbols": tree["symbols"]}
            case "bytes" if logical(schema) == DECIMAL:
                return {"type": "bytes", "logicalType": "decimal", "precision": MOST_DIGITS, "scale": scale(schema)}
            case "fixed":
                fixed = {"type": "fixed", "name": self.name(), "size": tree["size"]}
                return fixed | (_fixed_decimal(tree["size"], scale(schema)) if logical(schema) == DECIMAL else {})
        return None

    def record(self, fields: list[tuple[str, Tree]]) -> dict[str, Any]:
        """A record of these fields."""
        return {"type": "record", "name": self.name(), "fields": [{"name": n, "type": type_} for n, type_ in fields]}

    def _items(self, tree: Mapping[str, Any], schema: Schema) -> Tree:
        entry = entry_of(tree)
        if entry is None:
            return self.of(tree["items"], schema.value_schema)
        schemas = {"key": schema.key_schema, "value": schema.value_schema}
        return self.record([(f["name"], self.of(f["type"], schemas[f["name"]])) for f in entry["fields"]])

    def _union(self, tree: list[Any], schema: Schema) -> Tree:
        schemas = iter(branch_schemas(tree, schema))
        made: list[Tree] = []
        for branch in tree:
            carrier = "null" if kind_of(branch) == "null" else self.of(branch, next(schemas))
            wrap = self._wraps and is_wrapped(tree) and carrier != "null"
            made.append(self.record([(WRAPPED, carrier)]) if wrap else carrier)
        return made

    def anything(self, depth: int) -> Tree:
        """Of schemaless values with that many arrays and maps in each other."""
        fields: list[tuple[str, Tree]] = [
            (field["name"], field["type"]) for field in ANYTHING["fields"] if field["name"] not in ("array", "map")
        ]
        if depth == 0:
            # No value has a symbol of this enum: what lies deeper cannot be read.
            fields += [
                (name, ["null", {"type": "enum", "name": self.name(), "symbols": []}]) for name in ("array", "map")
            ]
        else:
            entry = self.record([("key", self.anything(0)), ("value", self.anything(depth - 1))])
            fields.append(("array", ["null", {"type": "array", "items": self.anything(depth - 1)}]))
            fields.append(("map", ["null", {"type": "array", "items": entry}]))
        return self.record(fields)


def _fixed_decimal(size: int, scale_: int) -> dict[str, Any]:
    precision = min(MOST_DIGITS, int(log10(2) * (8 * size - 1)))
    if scale_ > precision:
        raise DataError(f"Spark cannot hold decimals of scale {scale_} in {size} bytes")
    return {"logicalType": "decimal", "precision": precision, "scale": scale_}


def carrier_type(carrier: Tree) -> spark.DataType:
    """The Spark type of a carrier's values, as Spark's writer wants it."""
    if isinstance(carrier, list):
        others = branches(carrier)
        if len(others) == 1:
            return carrier_type(others[0])
        return spark.StructType([spark.StructField(f"member{n}", carrier_type(one)) for n, one in enumerate(others)])
    if isinstance(carrier, dict):
        match carrier["type"]:
            case "array":
                return spark.ArrayType(carrier_type(carrier["items"]))
            case "map":
                return spark.MapType(spark.StringType(), carrier_type(carrier["values"]))
            case "record":
                fields = carrier["fields"]
                return spark.StructType([spark.StructField(f["name"], carrier_type(f["type"])) for f in fields])
        if carrier.get("logicalType") == "decimal":
            return spark.DecimalType(carrier["precision"], carrier["scale"])
    return _SPARK_TYPES[str(carrier.get("logicalType", carrier["type"])) if isinstance(carrier, dict) else carrier]


_SPARK_TYPES: Final[Mapping[str, spark.DataType]] = {
    "null": spark.NullType(),
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "bytes": spark.BinaryType(),
    "fixed": spark.BinaryType(),
    "string": spark.StringType(),
    "enum": spark.StringType(),
    "date": spark.DateType(),
    "timestamp-millis": spark.TimestampType(),
}
