"""Marked JSON (`json.marking`) to values, as leniently as Jackson; Column expressions that never raise for data.

This is the thorough way, for documents that the quick ways cannot read: value by value, as Connect's JsonConverter
walks a tree, parsing each level from the text of the level above. Any other value for a number is 0, for a boolean
false, for a string null; an object for an array gives its members' values, a scalar an empty array.

Decided: its parts are evaluated, not compiled (`let`), because the program would be large and is rarely needed: so it
costs no time to compile and cannot exceed the size of a Java method; loses: a few microseconds a row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json import marking
from headrace.converters.json.branches import branch_of
from headrace.converters.json.defaults import CONTAINERS
from headrace.converters.json.rules import JsonRules
from headrace.converters.json.scalars import node_of, scalar, scalar_kind
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.distinct_keys import distinct_keys
from headrace.plugins.schema import Field, Schema, SchemaType, literal
from headrace.plugins.schema import spark_type as carrier

_NO_BRANCH: Final = "Did not find matching oneof field for a value of type "
_INVALID_NULL: Final = "Invalid null value for required {} field"


def node(raw: Column, schema: Schema, rules: JsonRules, where: str | None = None) -> Column:
    """The value of marked JSON under a schema; `raw` must be cheap to evaluate.

    Shape: struct of `v`, the value, and `e`, Connect's error if there is none; `e` is null if the value is null.
    `where` names the place within a struct, as in Connect's errors: there a null is checked again.
    """
    match schema.type:
        case SchemaType.ARRAY:
            found = _array(raw, schema, rules, where)
        case SchemaType.MAP:
            found = _map(raw, schema, rules, where)
        case SchemaType.STRUCT if rules.is_union(schema):
            found = _union(raw, schema, rules)
        case SchemaType.STRUCT:
            found = _struct(raw, schema, rules, where)
        case _:
            return let(scalar(raw, schema), lambda read: _leaf(raw, read, schema, rules, where))
    null = _read(null_value(schema, rules), null_fault(schema, rules), schema)
    return F.when(raw.isNull(), null).otherwise(found)


def null_value(schema: Schema, rules: JsonRules) -> Column:
    """The replacement of a null: the schema's default or null."""
    return literal(schema.default if rules.replace_nulls else None, schema)


def null_fault(schema: Schema, rules: JsonRules) -> Column:
    """The error for a null; null if a null is allowed."""
    replaced = rules.replaces(schema)
    allowed = schema.optional or replaced
    return F.lit(None if allowed else _INVALID_NULL.format(schema.type.name)).cast("string")


def _read(value: Column, fault: Column | None, schema: Schema) -> Column:
    return node_of(value.cast(carrier(schema)), fault)


def _leaf(raw: Column, read: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    """The result of `scalar`, adjusted to this schema: its default, and the error for a null that is not allowed."""
    replaced = rules.replaces(schema)
    if schema.optional and not replaced:
        return read
    value, fault = read["v"], read["e"]
    if replaced:
        value = F.when(raw.isNull(), null_value(schema, rules)).otherwise(value)
    else:
        fault = F.when(raw.isNull(), F.lit(_INVALID_NULL.format(schema.type.name))).otherwise(fault)
    if where is not None and not schema.optional and schema.type in (SchemaType.STRING, SchemaType.BYTES):
        missing = F.lit(f"Invalid value: null used for required {where}, schema type: {schema.type.name}")
        fault = F.coalesce(fault, F.when(raw.isNotNull() & read["v"].isNull(), missing))
    return node_of(value, fault)


def _array(raw: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    of = schema.value_schema
    assert of is not None
    inner = None if where is None else f"element of array {where}"
    values = F.transform(marking.entries(F.when(marking.is_object(raw), raw)), lambda pair: pair["value"])
    nothing = F.array().cast("array<string>")
    found = F.coalesce(marking.items(F.when(marking.is_array(raw), raw)), values, nothing)
    nodes = F.transform(found, lambda item: node(item, of, rules, inner))
    return let(nodes, lambda nodes: _read(F.transform(nodes, lambda one: one["v"]), _first_fault(nodes, "e"), schema))


def _first_fault(nodes: Column, name: str) -> Column:
    return F.get(F.filter(F.transform(nodes, lambda one: one[name]), lambda fault: fault.isNotNull()), 0)


def _map(raw: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    if rules.by_name(schema):
        return _object_as_map(raw, schema, rules, where)
    return _pairs_as_map(raw, schema, rules, where)


def _object_as_map(raw: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    of = schema.value_schema
    assert of is not None
    inner = None if where is None else f"value of map {where}"

    def entry(pair: Column) -> Column:
        return F.struct(pair["key"].alias("key"), node(pair["value"], of, rules, inner).alias("n"))

    def whole(pairs: Column) -> Column:
        made = F.map_from_entries(F.transform(pairs, lambda pair: F.struct(pair["key"], pair["n"]["v"])))
        return _read(made, _first_fault(F.transform(pairs, lambda pair: pair["n"]), "e"), schema)

    wrong = F.concat(
        F.lit("Maps with string fields should be encoded as JSON objects, but found "), marking.node_type(raw)
    )
    found = let(F.transform(marking.entries(raw), entry), whole)
    return F.when(marking.is_object(raw), found).otherwise(_read(F.lit(None), wrong, schema))


def _pairs_as_map(raw: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    key_schema, of = schema.key_schema, schema.value_schema
    assert key_schema is not None
    assert of is not None
    inside = [None if where is None else f"{part} of map {where}" for part in ("key", "value")]

    def entry(item: Column) -> Column:
        return let(_pair(item, rules), lambda parts: pair(item, parts))

    def pair(item: Column, parts: Column) -> Column:
        key = node(F.get(parts, 0), key_schema, rules, inside[0])
        value = node(F.get(parts, 1), of, rules, inside[1])
        no_pair = F.concat(F.lit("Found invalid map entry instead of array tuple: "), _type_of(item))
        length = F.concat(F.lit("Found invalid map entry, expected length 2 but found :"), F.size(parts).cast("string"))
        fault = F.when(parts.isNull(), no_pair).when(F.size(parts) != 2, length)
        return let(
            F.struct(fault.alias("f"), key.alias("k"), value.alias("n")),
            lambda read: F.struct(
                read["k"]["v"].alias("key"),
                read["n"]["v"].alias("v"),
                F.coalesce(read["f"], _fault_of(read)).alias("e"),
            ),
        )

    def whole(pairs: Column) -> Column:
        fault = _first_fault(pairs, "e")
        made = F.map_from_entries(F.transform(distinct_keys(pairs), lambda pair: F.struct(pair["key"], pair["v"])))
        return _read(F.when(fault.isNull(), made), fault, schema)

    wrong = F.concat(
        F.lit("Maps with non-string fields should be encoded as JSON array of tuples, but found "),
        marking.node_type(raw),
    )
    found = let(F.transform(marking.items(raw), entry), whole)
    return F.when(marking.is_array(raw), found).otherwise(_read(F.lit(None), wrong, schema))


def _pair(item: Column, rules: JsonRules) -> Column:
    """The key and the value of a map's entry, as an array; null for another item."""
    if not rules.names_pairs:
        return marking.items(F.when(marking.is_array(item), item))
    named = marking.members(item, ["key", "value"])
    parts = F.array(marking.member(named, "key"), marking.member(named, "value"))
    return F.when(marking.is_object(item), parts)


def _fault_of(read: Column) -> Column:
    null_key = F.when(read["k"]["v"].isNull(), F.lit("A map has a null key, which Headrace cannot hold"))
    return F.coalesce(read["k"]["e"], read["n"]["e"], null_key)


def _type_of(item: Column) -> Column:
    return F.when(item.isNull(), "NULL").otherwise(marking.node_type(item))


def _union(raw: Column, schema: Schema, rules: JsonRules) -> Column:
    """A struct of one field, that of the branch which the value fits."""

    def chosen(choice: Column) -> Column:
        nodes = [
            F.when(choice == number, node(raw, field.schema, rules, f'field: "{field.name}"')).alias(f"b{number}")
            for number, field in enumerate(schema.fields)
        ]
        return let(F.struct(choice.alias("choice"), *nodes), whole)

    def whole(read: Column) -> Column:
        branches = [read[f"b{number}"] for number in range(len(schema.fields))]
        values = [one["v"].alias(field.name) for one, field in zip(branches, schema.fields, strict=True)]
        none = F.when(read["choice"].isNull(), F.concat(F.lit(_NO_BRANCH), marking.node_type(raw)))
        return _read(F.struct(*values), F.coalesce(none, *(one["e"] for one in branches)), schema)

    return let(branch_of(raw, schema), chosen)


def _struct(raw: Column, schema: Schema, rules: JsonRules, where: str | None) -> Column:
    wrong = F.concat(F.lit("Structs should be encoded as JSON objects, but found "), marking.node_type(raw))
    absent = _read(F.lit(None), wrong, schema)
    if not schema.fields:
        return F.when(marking.is_object(raw), _read(F.struct(), None, schema)).otherwise(absent)

    def fields(members: Column, scalars: Column) -> Column:
        return let(F.struct(*_fields(raw, members, scalars, schema, rules, where)), whole)

    def whole(read: Column) -> Column:
        values = [read[f"f{number}"]["v"].alias(field.name) for number, field in enumerate(schema.fields)]
        faults = [read[f"f{number}"]["e"] for number in range(len(schema.fields))]
        return _read(F.struct(*values), F.coalesce(*faults), schema)

    members = marking.members(raw, [field.name for field in schema.fields])
    found = let(members, lambda members: let(_scalars(members, schema), lambda scalars: fields(members, scalars)))
    return F.when(marking.is_object(raw), found).otherwise(absent)


def _kinds(schema: Schema) -> dict[Hashable, list[Field]]:
    """A struct's scalar fields by kind."""
    kinds: dict[Hashable, list[Field]] = {}
    for field in schema.fields:
        if field.schema.type not in CONTAINERS:
            kinds.setdefault(scalar_kind(field.schema), []).append(field)
    return kinds


def _scalars(members: Column, schema: Schema) -> Column:
    """A struct's scalar fields as `scalar` reads them: arrays `k0`, `k1`, …, one for each kind.

    One expression reads all fields of a kind: one for each field would make wide structs slow to plan.
    """
    arrays = []
    for number, fields in enumerate(_kinds(schema).values()):
        raws = F.array(*(marking.member(members, field.name) for field in fields))
        arrays.append(F.transform(raws, _reader(fields[0].schema)).alias(f"k{number}"))
    return F.struct(F.lit(None).alias("none"), *arrays)


def _reader(schema: Schema) -> Callable[[Column], Column]:
    return lambda raw: scalar(raw, schema)


def _fields(
    raw: Column, members: Column, scalars: Column, schema: Schema, rules: JsonRules, inside: str | None
) -> Iterator[Column]:
    """The node of each field, as `f0`, `f1`, …; `inside`: the place of the struct itself."""
    may_lack = rules.leaves_unset and inside is None
    places = {
        field.name: (number, place)
        for number, fields in enumerate(_kinds(schema).values())
        for place, field in enumerate(fields)
    }
    for number, field in enumerate(schema.fields):
        member, where = marking.member(members, field.name), f'field: "{field.name}"'
        if field.name in places:
            kind, place = places[field.name]
            read = _leaf(member, F.get(scalars[f"k{kind}"], place), field.schema, rules, where)
        else:
            read = node(member, field.schema, rules, where)
        if may_lack and not field.schema.optional and not rules.replaces(field.schema):
            given = member.isNotNull() | F.array_contains(marking.names(raw), field.name)
            read = let(read, _unless_lacking(given))
        yield read.alias(f"f{number}")


def _unless_lacking(given: Column) -> Callable[[Column], Column]:
    return lambda read: node_of(read["v"], F.when(given, read["e"]))
