"""Connect's values to Avro's binary encoding, by Spark's own encoder; Column expressions.

Spark's encoder raises for a null that the schema does not allow, for a symbol that an enum lacks, and for bytes of
another length than a fixed type's. `AvroEncoding.nulls` and `AvroEncoding.misfits` test for these first.

Values can be written in another schema than their own (`use.latest.version`): fields are matched by name, numbers are
widened, missing fields get their defaults, and additional ones are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.anything import anything_of, is_unfit
from headrace.plugins.interop.avro.carrier import SCHEMALESS, AvroEncoding, Carriers, Expression, carrier_type, present
from headrace.plugins.interop.avro.parsing import entry_of, is_anything, kind_of
from headrace.plugins.interop.avro.shapes import any_of
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import AvroOptions, Tree, is_union
from headrace.plugins.interop.avro.unions import Unions, mismatch
from headrace.plugins.interop.catalyst.java_calls import bytes_of_decimal
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    NUMBERS,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    literal,
    logical,
    spark_type,
)

_Part = tuple[Field | None, AvroEncoding, Expression | None]
"""Field of a record: the Connect field, its encoding, and the test for a null that is not allowed."""


def encoded(column: Column, encoding: AvroEncoding) -> Column:
    """Return the bytes, alone in a Kafka record, of values that are not null and pass `nulls` and `misfits`."""
    if encoding.carrier == "bytes":
        return encoding.of(column)  # bytes alone have no length before them
    data = datum(column, encoding)
    is_decimal = isinstance(encoding.carrier, dict) and encoding.carrier["type"] == "bytes"
    return F.substring(data, 2, 64) if is_decimal else data


def datum(column: Column, encoding: AvroEncoding) -> Column:
    """Return the bytes of such values as in a file, one value after the other."""
    if encoding.carrier == SCHEMALESS:
        return encoding.of(column)
    return to_avro(encoding.of(column).cast(carrier_type(encoding.carrier)), json.dumps(encoding.carrier))


def encoding(schema: Schema | None, tree: Tree, options: AvroOptions) -> AvroEncoding:
    """Return the encoding of a schema's values in this Avro schema. Errors: DataError if it cannot hold them."""
    if schema is None and is_anything(tree):
        return AvroEncoding(SCHEMALESS, anything_of, misfits=is_unfit)
    return _Writer(options).of(schema, tree, "")


class _Writer:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._carriers = Carriers()
        self._unions = Unions(self.of, self._connect, lambda tree: self._carriers.of(tree, self._connect(tree)))

    def of(self, schema: Schema | None, tree: Tree, at: str) -> AvroEncoding:
        """Return the encoding of a part; `at` is the path to it, for errors."""
        if schema is None or is_anything(tree):
            raise mismatch(schema, tree, at)
        if isinstance(tree, list):
            return self._unions.encoding(schema, tree, at)
        if not isinstance(tree, dict) or kind_of(tree) not in ("array", "map", "record"):
            return self._primitive(schema, tree, at)
        match kind_of(tree), schema.type:
            case "array", SchemaType.ARRAY if entry_of(tree) is None:
                return self._array(schema, tree, at)
            case "array", SchemaType.MAP if (entry := entry_of(tree)) is not None:
                return self._entries(schema, entry, at)
            case "map", SchemaType.MAP if self._options.is_avro_map(schema):
                return self._map(schema, tree, at)
            case "record", SchemaType.STRUCT if not is_union(schema):
                return self._record(schema, tree, at)
        raise mismatch(schema, tree, at)

    def _primitive(self, schema: Schema, tree: Tree, at: str) -> AvroEncoding:
        target = self._connect(tree)
        if target is not None and logical(schema) != logical(target):
            return self._underlying(schema, target, tree, at)
        if target is None or not _holds(schema, target):
            raise mismatch(schema, tree, at)
        carrier = self._carriers.of(tree, target)
        if isinstance(carrier, dict) and carrier["type"] == "enum":
            return AvroEncoding(carrier, misfits=lambda column: ~column.isin(*carrier["symbols"]))
        if isinstance(carrier, dict) and carrier["type"] == "fixed":
            return _fixed(carrier)
        return AvroEncoding(carrier)

    def _underlying(self, schema: Schema, target: Schema, tree: Tree, at: str) -> AvroEncoding:
        """Write a logical type's plain value for another type or none: as in Java, only the Avro types must agree."""
        to_plain = _UNDERLYING.get(logical(schema) or "")
        plain, carried = replace(schema, name=None), self._carriers.of(tree, replace(target, name=None))
        if not _holds(plain, replace(target, name=None)) or kind_of(tree) == "fixed":
            raise mismatch(schema, tree, at)
        return AvroEncoding(carried, to_plain)

    def _array(self, schema: Schema, tree: dict[str, Any], at: str) -> AvroEncoding:
        item = self.of(schema.value_schema, tree["items"], f"{at}[]")
        value, nulls, misfits = item.value, _nulls(schema.value_schema, tree["items"], item), item.misfits
        return AvroEncoding(
            {"type": "array", "items": item.carrier},
            None if value is None else lambda column: F.transform(column, value),
            None if nulls is None else lambda column: F.exists(column, nulls),
            None if misfits is None else lambda column: F.exists(column, misfits),
        )

    def _map(self, schema: Schema, tree: dict[str, Any], at: str) -> AvroEncoding:
        item = self.of(schema.value_schema, tree["values"], f"{at}{{}}")
        value, nulls, misfits = item.value, _nulls(schema.value_schema, tree["values"], item), item.misfits
        return AvroEncoding(
            {"type": "map", "values": item.carrier},
            None if value is None else lambda column: F.transform_values(column, lambda _, one: value(one)),
            None if nulls is None else lambda column: F.exists(F.map_values(column), nulls),
            None if misfits is None else lambda column: F.exists(F.map_values(column), misfits),
        )

    def _entries(self, schema: Schema, entry: dict[str, Any], at: str) -> AvroEncoding:
        of = {"key": schema.key_schema, "value": schema.value_schema}
        parts = [(f["name"], of[f["name"]], f["type"]) for f in entry["fields"]]
        inner = [(name, self.of(part, type_, f"{at}.{name}"), part, type_) for name, part, type_ in parts]
        types = {name: carrier_type(one.carrier) for name, one, _, _ in inner}

        def pair(column: Column) -> Column:
            return F.struct(*(one.of(column.getField(n)).cast(types[n]).alias(n) for n, one, _, _ in inner))

        nulls = any_of([(name, _nulls(part, type_, one)) for name, one, part, type_ in inner])
        misfits = any_of([(name, present(one.misfits)) for name, one, _, _ in inner])
        return AvroEncoding(
            {"type": "array", "items": self._carriers.record([(name, one.carrier) for name, one, _, _ in inner])},
            lambda column: F.transform(F.map_entries(column), pair),
            None if nulls is None else lambda column: F.exists(F.map_entries(column), nulls),
            None if misfits is None else lambda column: F.exists(F.map_entries(column), misfits),
        )

    def _record(self, schema: Schema, tree: dict[str, Any], at: str) -> AvroEncoding:
        by_name = {self._options.name(field.name): field for field in schema.fields}
        names = [avro["name"] for avro in tree["fields"]]
        parts = [self._field(by_name.get(avro["name"]), avro, f"{at}.{avro['name']}") for avro in tree["fields"]]
        carrier = self._carriers.record([(name, one.carrier) for name, (_, one, _) in zip(names, parts, strict=True)])
        in_place = [None if field is None else field.name for field, _, _ in parts]
        as_it_is = in_place == [field.name for field in schema.fields] and all(one.value is None for _, one, _ in parts)

        def made(column: Column) -> Column:
            members = [
                one.of(F.lit(None) if field is None else column.getField(field.name)).cast(carrier_type(one.carrier))
                for field, one, _ in parts
            ]
            named = [member.alias(name) for member, name in zip(members, names, strict=True)]
            return F.when(column.isNotNull(), F.struct(*named))

        return AvroEncoding(
            carrier,
            None if as_it_is else made,
            any_of([(field.name, nulls) for field, _, nulls in parts if field is not None]),
            any_of([(field.name, present(one.misfits)) for field, one, _ in parts if field is not None]),
        )

    def _field(self, field: Field | None, avro: dict[str, Any], at: str) -> _Part:
        if field is None:
            return None, self._constant(avro, at), None
        made = self.of(field.schema, avro["type"], at)
        default = field.schema.default
        if default is None or (self._options.keep_nulls and field.schema.optional):
            return field, made, _nulls(field.schema, avro["type"], made)
        schema, inner = field.schema, made

        def filled(column: Column) -> Column:
            return F.coalesce(column, literal(default, schema))

        nulls = None if inner.nulls is None else present(inner.nulls)
        return (
            field,
            AvroEncoding(made.carrier, lambda column: inner.of(filled(column)), made.nulls, made.misfits),
            nulls,
        )

    def _constant(self, avro: dict[str, Any], at: str) -> AvroEncoding:
        """Encode the default, for a field that the value lacks."""
        if "default" not in avro:
            raise DataError(f"The field {at[1:]} of the registered schema has no default, and the record lacks it")
        schema = self._connect(avro["type"])
        assert schema is not None  # a field's schema is never None
        target = _with_default(schema, avro, self._options)
        made = self.of(target, avro["type"], at)
        return AvroEncoding(made.carrier, lambda _: made.of(literal(target.default, target)))

    def _connect(self, tree: Tree) -> Schema | None:
        return connect_schema(tree, self._options)


_UNDERLYING: Final[Mapping[str, Expression]] = {
    DATE: F.unix_date,
    TIMESTAMP: F.unix_millis,
    DECIMAL: bytes_of_decimal,
}


def _with_default(schema: Schema, avro: dict[str, Any], options: AvroOptions) -> Schema:
    record = connect_schema({"type": "record", "name": "x", "fields": [avro]}, options)
    assert record is not None
    return record.fields[0].schema


def _holds(schema: Schema, target: Schema) -> bool:
    """True if an Avro type that is `target` in Connect takes values of `schema`, of the same logical type or none."""
    if logical(schema):
        return logical(schema) != DECIMAL or spark_type(schema) == spark_type(target)
    if schema.type in NUMBERS and target.type in NUMBERS:
        return NUMBERS.index(schema.type) <= max(NUMBERS.index(target.type), NUMBERS.index(SchemaType.INT32))
    return schema.type is target.type


def _fixed(carrier: dict[str, Any]) -> AvroEncoding:
    if "logicalType" in carrier:
        type_ = carrier_type(carrier)
        return AvroEncoding(
            carrier, lambda column: column.try_cast(type_), misfits=lambda c: c.try_cast(type_).isNull()
        )
    return AvroEncoding(carrier, misfits=lambda column: F.octet_length(column) != carrier["size"])


def _nulls(schema: Schema | None, tree: Tree, made: AvroEncoding) -> Expression | None:
    """Return the test for a null that is not allowed, within the value or as the value itself."""
    inner = made.nulls
    refused = schema is not None and not (isinstance(tree, list) and "null" in tree and schema.optional)
    if not refused:
        return None if inner is None else present(inner)
    return lambda column: column.isNull() if inner is None else column.isNull() | inner(column)
