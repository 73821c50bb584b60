"""Values of a carrier, as Spark decodes them, to Connect's; Column expressions that never raise for data."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.avro.anything import json_of
from headrace.plugins.interop.avro.carrier import DEEPEST, WRAPPED, Expression, branch_schemas, is_wrapped
from headrace.plugins.interop.avro.parsing import branches, entry_of, kind_of
from headrace.plugins.interop.avro.tree import AvroOptions, Tree, is_union
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.interop.java.int64_bits import low_bits
from headrace.plugins.schema import TIME, Schema, SchemaType, literal, logical, spark_type

_DAY_MS: Final = 86_400_000


def same(column: Column) -> Column:
    """Return the column itself."""
    return column


def value_of(tree: Tree, schema: Schema | None, options: AvroOptions) -> Expression:
    """Make Connect's value from a carrier's, up to a cast by position; `same` if nothing has to change."""
    if schema is None:
        return lambda column: json_of(column, DEEPEST)
    if isinstance(tree, list):
        return _union(tree, schema, options)
    kind = kind_of(tree)
    match schema.type:
        case SchemaType.STRING if kind == "string":
            return F.make_valid_utf8
        case SchemaType.INT8 | SchemaType.INT16:
            return lambda column: low_bits(column.cast("long"), schema)
    if not isinstance(tree, dict):
        return same
    match schema.type:
        case SchemaType.ARRAY:
            item = value_of(tree["items"], schema.value_schema, options)
            return same if item is same else lambda column: F.transform(column, item)
        case SchemaType.MAP:
            return _map(tree, schema, options)
        case SchemaType.STRUCT:
            return lambda column: F.when(column.isNotNull(), struct_of(column, tree, schema, options))
    return same


def struct_of(column: Column, tree: dict[str, Any], schema: Schema, options: AvroOptions) -> Column:
    """Return the Connect struct of a carrier's record that is not null."""
    members = []
    for field, avro in zip(schema.fields, tree["fields"], strict=True):
        member = value_of(avro["type"], field.schema, options)(column.getField(avro["name"]))
        if field.schema.default is not None and field.schema.optional and not options.keep_nulls:
            member = F.coalesce(member.cast(spark_type(field.schema)), literal(field.schema.default, field.schema))
        members.append(member.alias(field.name))
    return F.struct(*members)


def _map(tree: dict[str, Any], schema: Schema, options: AvroOptions) -> Expression:
    entry = entry_of(tree)
    if entry is None:
        value = value_of(tree["values"], schema.value_schema, options)
        return same if value is same else lambda column: F.transform_values(column, lambda _, one: value(one))
    of = {field["name"]: field["type"] for field in entry["fields"]}
    key, value = value_of(of["key"], schema.key_schema, options), value_of(of["value"], schema.value_schema, options)
    types = spark_type(schema.key_schema), spark_type(schema.value_schema)

    def pair(one: Column) -> Column:
        return F.struct(
            key(one.getField("key")).cast(types[0]).alias("key"),
            value(one.getField("value")).cast(types[1]).alias("value"),
        )

    return lambda column: F.map_from_entries(distinct_keys(F.transform(column, pair)))


def _union(tree: list[Any], schema: Schema, options: AvroOptions) -> Expression:
    others = branches(tree)
    values = [value_of(one, of, options) for one, of in zip(others, branch_schemas(tree, schema), strict=True)]
    if not is_union(schema):
        return values[0]
    if len(others) == 1:
        return lambda column: F.when(column.isNotNull(), F.struct(values[0](column)))

    def branch(column: Column, number: int) -> Column:
        member = column.getField(f"member{number}")
        return values[number](member.getField(WRAPPED) if is_wrapped(tree) else member)

    if all(value is same for value in values) and not is_wrapped(tree):
        return same
    return lambda column: F.when(column.isNotNull(), F.struct(*(branch(column, n) for n in range(len(values)))))


def unfit(tree: Tree, schema: Schema | None) -> Expression | None:
    """Return a test for values that cannot be converted; None if all can."""
    if schema is None:
        return None
    if isinstance(tree, list):
        return _unfit_union(tree, schema)
    if logical(schema) == TIME:
        return lambda column: (column < 0) | (column > _DAY_MS)
    if not isinstance(tree, dict):
        return None
    match schema.type:
        case SchemaType.ARRAY:
            item = unfit(tree["items"], schema.value_schema)
            return None if item is None else lambda column: F.exists(column, item)
        case SchemaType.MAP:
            return _unfit_map(tree, schema)
        case SchemaType.STRUCT:
            return unfit_record(tree, schema)
    return None


def unfit_record(tree: dict[str, Any], schema: Schema) -> Expression | None:
    """Return the same test for a record that is not null."""
    pairs = zip(tree["fields"], schema.fields, strict=True)
    return any_of([(avro["name"], unfit(avro["type"], field.schema)) for avro, field in pairs])


def _unfit_union(tree: list[Any], schema: Schema) -> Expression | None:
    others = branches(tree)
    tests = [unfit(one, of) for one, of in zip(others, branch_schemas(tree, schema), strict=True)]
    if len(others) == 1:
        return tests[0]
    return any_of([(f"member{n}", _wrapped(test, tree)) for n, test in enumerate(tests)])


def _wrapped(test: Expression | None, tree: list[Any]) -> Expression | None:
    return (lambda column: test(column.getField(WRAPPED))) if test is not None and is_wrapped(tree) else test


def _unfit_map(tree: dict[str, Any], schema: Schema) -> Expression | None:
    entry = entry_of(tree)
    if entry is None:
        value = unfit(tree["values"], schema.value_schema)

        def keyed(column: Column) -> Column:
            bad = F.exists(F.map_keys(column), lambda key: ~F.is_valid_utf8(key))
            return bad if value is None else bad | F.exists(F.map_values(column), value)

        return keyed
    of = {field["name"]: field["type"] for field in entry["fields"]}
    members = any_of([(name, unfit(of[name], getattr(schema, f"{name}_schema"))) for name in ("key", "value")])

    def entries(column: Column) -> Column:
        # Spark's maps have no null keys.
        bad = F.exists(column, lambda one: one.getField("key").isNull())
        return bad if members is None else bad | F.exists(column, members)

    return entries


def any_of(tests: list[tuple[str, Expression | None]]) -> Expression | None:
    """Return a test of a struct, true if one of the tests is true for its member; None without any test."""
    some = [(name, test) for name, test in tests if test is not None]
    if not some:
        return None
    return lambda column: reduce(or_, [F.coalesce(test(column.getField(name)), F.lit(False)) for name, test in some])
