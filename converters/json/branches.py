"""The branch of a union that a value of marked JSON (`json.marking`) fits; Column expressions."""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.json import marking
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.schema import DECIMAL, INTEGER_BITS, NUMBERS, Schema, SchemaType, logical


def branch_of(raw: Column, schema: Schema) -> Column:
    """The number of the first field whose type the value has; else of the struct that shares most names with it.

    Null if it fits none.
    """
    branches = [field.schema for field in schema.fields]
    has_text = any(one.type is SchemaType.STRING for one in branches)
    choice: Column = F.when(F.lit(False), F.lit(0))
    for number, branch in enumerate(branches):
        if (fits := _fits(raw, branch, has_text)) is not None:
            choice = choice.when(fits, F.lit(number))
    structs = [number for number, branch in enumerate(branches) if branch.type is SchemaType.STRUCT]
    if not structs:
        return choice
    shared = F.array(*(_shared(raw, branches[number]) for number in structs))
    places = F.array(*map(F.lit, structs))
    best = let(shared, lambda counts: F.get(places, (F.array_position(counts, F.array_max(counts)) - 1).cast("int")))
    return F.coalesce(choice, F.when(marking.is_object(raw), best))


def _fits(raw: Column, schema: Schema, has_text: bool) -> Column | None:
    """True if the value has the type of a branch; None for a struct."""
    if schema.type in INTEGER_BITS:
        return marking.is_number(raw) & marking.content(raw).rlike(r"^-?[0-9]+\z")
    if schema.type in NUMBERS:
        return marking.is_number(raw)
    match schema.type:
        case SchemaType.BOOLEAN:
            return raw.isin("true", "false")
        case SchemaType.STRING:
            return marking.is_string(raw)
        case SchemaType.BYTES:
            fits = marking.is_number(raw) if logical(schema) == DECIMAL else F.lit(False)
            return fits if has_text else fits | marking.is_string(raw)
        case SchemaType.ARRAY:
            return marking.is_array(raw)
        case SchemaType.MAP:
            return marking.is_object(raw) | marking.is_array(raw)
    return None


def _shared(raw: Column, schema: Schema) -> Column:
    """The number of names that an object has in common with a struct, those of inner structs included."""
    inner = [field for field in schema.fields if field.schema.type is SchemaType.STRUCT]

    def count(names: Column) -> Column:
        ones = [F.array_contains(names, field.name).cast("int") for field in schema.fields]
        return reduce(add, ones, F.lit(0))

    own = F.coalesce(let(marking.names(raw), count), F.lit(0))
    if not inner:
        return own

    def with_inner(members: Column) -> Column:
        return reduce(add, (_shared(marking.member(members, field.name), field.schema) for field in inner), own)

    return let(marking.members(raw, [field.name for field in inner]), with_inner)
