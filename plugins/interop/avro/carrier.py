"""Carriers: Avro schemas of the same binary layout with which Spark's reader and writer keep what Connect needs.

| Avro | carrier | because Spark |
|---|---|---|
| decimal of any precision | decimal of 38 digits | has no longer ones |
| time, micros, uuid and others without a logical type in Connect | the plain type | has its own types for them |
| a named type | the same under a unique name | cannot use one name for two carriers |
| a union of int and long, or of float and double | each branch in a record of one field | merges them into one |
| schemaless values, which contain themselves | the same, `DEEPEST` arrays and maps deep | has no recursive types |
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

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.parsing import branches, entry_of, kind_of
from headrace.plugins.interop.avro.tree import ANYTHING, Tree, is_union
from headrace.plugins.schema import DATE, DECIMAL, MOST_DIGITS, TIMESTAMP, Schema, logical, scale

SCHEMALESS: Final = "schemaless"
"""Placeholder for the carrier of schemaless values."""
DEEPEST: Final = 4
"""Maximum number of nested arrays and maps in a schemaless value."""
WRAPPED: Final = "of"
"""Name of the one field of the record around a branch, in a union whose branches Spark would merge."""

_MERGED: Final = ({"int", "long"}, {"float", "double"})
_BY_LOGICAL_TYPE: Final = {
    DATE: {"type": "int", "logicalType": "date"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}


Expression = Callable[[Column], Column]
"""Makes a Column from another: a value or a test."""


@dataclass(frozen=True)
class AvroEncoding:
    """Converts values of a Connect schema to values of a carrier."""

    carrier: Tree
    """Carrier schema; for `SCHEMALESS`, `value` returns Avro's bytes."""
    value: Expression | None = None
    """Makes the carrier's value; None if a cast by position is enough."""
    nulls: Expression | None = None
    """Tests for a null inside the value that is not allowed; the value itself is not null."""
    misfits: Expression | None = None
    """Tests for a value that the Avro type cannot hold."""

    def of(self, column: Column) -> Column:
        """Return the carrier's value."""
        return column if self.value is None else self.value(column)


def present(test: Expression | None) -> Expression | None:
    """Return the same test, but false for null."""
    return None if test is None else lambda column: column.isNotNull() & F.coalesce(test(column), F.lit(False))


def is_wrapped(tree: list[Any]) -> bool:
    """True if Spark would merge this union's branches into one number."""
    return {kind_of(branch) for branch in branches(tree)} in _MERGED and len(branches(tree)) == 2


def branch_schemas(tree: list[Any], schema: Schema) -> list[Schema]:
    """Return the Connect schema of each branch except null."""
    return [field.schema for field in schema.fields] if is_union(schema) else [schema]


class Carriers:
    """Makes the carriers of one Avro schema.

    `wraps`: for Spark's reader, which merges int and long; its writer does not.
    """

    def __init__(self, wraps: bool = False) -> None:
        self._wraps = wraps
        self._numbers = count()

    def name(self) -> str:
        """Return a new unique name."""
        return f"t{next(self._numbers)}"

    def of(self, tree: Tree, schema: Schema | None) -> Tree:
        """Return the carrier of values with this Avro and Connect schema.

        Errors: DataError if Spark cannot hold such values.
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
        """Return a record schema of these fields."""
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
        """Return the carrier of schemaless values with up to `depth` nested arrays and maps."""
        fields: list[tuple[str, Tree]] = [
            (field["name"], field["type"]) for field in ANYTHING["fields"] if field["name"] not in ("array", "map")
        ]
        if depth == 0:
            # No value has a symbol of this empty enum, so deeper values cannot be read.
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
    """Return the Spark type of a carrier's values, as Spark's writer expects it."""
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
