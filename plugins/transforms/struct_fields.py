"""Fields of structs and of schemaless objects, as transforms read and rebuild them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Type
from headrace.plugins.interop.java.class_names import class_of, class_of_json
from headrace.plugins.interop.java.json_members import is_object, members, object_text
from headrace.plugins.schema import Field, Schema, SchemaType, literal
from headrace.plugins.transforms.key_or_value import Became, only_map, only_struct

REPLACE_NULLS: Final = Setting(
    "replace.null.with.default",
    Type.BOOLEAN,
    True,
    None,
    Importance.MEDIUM,
    "Whether a field that is null is read as the default of its schema, where that has one.",
)


def field_value(struct: Column, field: Field, replace_nulls: bool) -> Column:
    """Return the field's value; with `replace_nulls` its default, if any, replaces null."""
    value = struct.getField(field.name)
    default = field.schema.default
    return value if default is None or not replace_nulls else F.coalesce(value, literal(default, field.schema))


def struct_of(fields: Iterable[tuple[Field, Column]]) -> Column:
    """Return a struct of these fields with these values."""
    return F.struct(*(value.alias(field.name) for field, value in fields))


def struct_schema(like: Schema, fields: Sequence[Field]) -> Schema:
    """Return a schema of these fields with another's name, version, doc and parameters: required, no default."""
    return Schema(
        SchemaType.STRUCT,
        name=like.name,
        version=like.version,
        doc=like.doc,
        parameters=like.parameters,
        fields=tuple(fields),
    )


def fails(message: Column) -> Became:
    """Fail rows that have a message; nothing changes."""
    return Became(None, None, message)


def twice(fields: Sequence[Field]) -> str | None:
    """Return Connect's message for a struct schema with a duplicate name; None if there is none."""
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            return f"Cannot create field because of field name duplication {field.name}"
        seen.add(field.name)
    return None


def present(value: Column, schema: Schema) -> Column | None:
    """Return the condition for values that are not null, if this schema allows nulls; None: there are no nulls."""
    return value.isNotNull() if schema.optional or schema.default is not None else None


def refused(purpose: str, value: Column, schema: Schema) -> Became:
    """Fail every value of this schema, which is not a struct schema; nulls pass."""
    return fails(F.when(value.isNotNull(), only_struct(purpose, F.lit(class_of(schema)))))


def no_object(purpose: str, value: Column) -> Column:
    """Return Connect's message for a schemaless value that is not an object; null for objects and for null."""
    return F.when(~is_object(value), only_map(purpose, class_of_json(value)))


def with_members(value: Column, change: Callable[[Column, Column], Column], absent: Mapping[str, Column]) -> Column:
    """Return the schemaless object whose members have the JSON that `change` makes from their name and JSON.

    Missing members of `absent` are appended, except those whose JSON is null.
    """
    there = F.json_object_keys(value)
    new = F.filter(json_members(absent), lambda one: ~F.array_contains(there, one["name"]))

    def changed(one: Column) -> Column:
        return F.struct(one["name"].alias("name"), change(one["name"], one["json"]).alias("json"))

    return object_text(F.concat(F.transform(members(value), changed), new))


def json_members(made: Mapping[str, Column]) -> Column:
    """Return the members with these names and JSON, without those whose JSON is null."""
    whole = F.array(*(F.struct(F.lit(name).alias("name"), json.alias("json")) for name, json in made.items()))
    return F.filter(whole, lambda one: one["json"].isNotNull())


def set_members(value: Column, new: Mapping[str, Column]) -> Column:
    """Return the schemaless object with these members, in the place of those of the same name; null JSON sets none."""

    def overwritten(name: Column, json: Column) -> Column:
        changed = json
        for field, made in new.items():
            changed = F.when((name == field) & made.isNotNull(), made).otherwise(changed)
        return changed

    return with_members(value, overwritten, new)


def first_text(value: Column, text: Callable[[Column, Column], Column]) -> Column:
    """Return the first text that `text` makes from a member's name and JSON; null if there is none.

    Null if the value is not an object.
    """
    texts = F.transform(members(value), lambda one: text(one["name"], one["json"]))
    return F.get(F.filter(texts, lambda one: one.isNotNull()), 0)
