"""Fields of structs and of schemaless objects by a path, in Connect's syntax V2."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Setting, Type
from headrace.config.validators import OneOfIgnoringCase
from headrace.plugins.interop.catalyst.let import let
from headrace.plugins.interop.java.class_names import class_of_json
from headrace.plugins.interop.java.json_members import is_object, member
from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.transforms.key_or_value import only_map
from headrace.plugins.transforms.struct_fields import field_value

FIELD_SYNTAX: Final = Setting(
    "field.syntax.version",
    Type.STRING,
    "V1",
    OneOfIgnoringCase("V1", "V2"),
    Importance.HIGH,
    "V1: the field is a name. V2: it is a path, its steps between dots, in backticks where a name has dots.",
)

_NESTED: Final = "nested field access"


def steps_of(setting: str, path: str, parsed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the steps of a setting's path as `field.syntax.version` reads it. Errors: ConfigError."""
    if parsed[FIELD_SYNTAX.name].upper() != "V2":
        return (path,)
    try:
        return steps(path)
    except ValueError as error:
        raise ConfigError(Problem(setting, path, str(error))) from None


def in_struct(value: Column, schema: Schema, path: Sequence[str], replace_nulls: bool) -> tuple[Field, Column] | Schema:
    """Return the path's last field and its value; the schema that lacks a step, if one does.

    A field's default applies only if its struct is not null, and for all but the last one always.
    """
    field, found = Field("", schema), value
    for number, step in enumerate(path):
        inner = field.schema.field(step) if field.schema.type is SchemaType.STRUCT else None
        if inner is None:
            return field.schema
        replaces = replace_nulls or number + 1 < len(path)
        found, field = F.when(found.isNotNull(), field_value(found, inner, replaces)), inner
    return field, found


def in_object(value: Column, path: Sequence[str]) -> tuple[Column, list[Column]]:
    """Return the JSON of an object's member, and messages for rows in which a step before it is no object."""
    messages, found = [], member(value, path[0])
    for step in path[1:]:
        messages.append(let(found, _no_object))
        found = member(found, step)
    return found, messages


def _no_object(json: Column) -> Column:
    return F.when(~is_object(json), only_map(_NESTED, class_of_json(json)))


_CLOSING: Final = re.compile(r"(\\?)`(?=\.|\Z)")
"""A backtick that ends a step, unless a backslash precedes it; any other is literal."""


def steps(path: str) -> tuple[str, ...]:
    """Split a path in Connect's syntax V2 into steps; none for an empty path.

    Errors: ValueError, in Connect's words, for an unclosed backtick.
    """
    found: list[str] = []
    at = 0
    while at < len(path):
        step, at = _quoted(path, at) if path[at] == "`" else _plain(path, at)
        found.append(step)
    return (*found, "") if path.endswith(".") else tuple(found)


def _plain(path: str, at: int) -> tuple[str, int]:
    step, _, _ = path[at:].partition(".")
    return step, at + len(step) + 1


def _quoted(path: str, at: int) -> tuple[str, int]:
    """Return the step in backticks that begins at `at`, and the start of the next one."""
    step, begin = "", at + 1
    for closing in _CLOSING.finditer(path, begin):
        if not closing[1]:
            return step + path[begin : closing.start()], closing.end() + 1
        if closing.end() == len(path):
            break
        step, begin = step + path[begin : closing.start()] + "`", closing.end()
    raise ValueError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {at} "
        "to escape it"
    )
