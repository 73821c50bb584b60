"""Decides a file's schema when a record has another one: `schema.compatibility`.

| mode | a record of another schema |
|---|---|
| NONE | the file ends |
| BACKWARD, FULL | the file ends if the record's version is higher; else the record is brought to the file's schema |
| FORWARD | the file ends if the record's version is lower; else the record is brought to the file's schema |

In all but NONE the file also ends if a record cannot be brought to its schema, whatever the versions say.

Decided: values of equal schemas need no versions, because nothing has to be decided; loses: Confluent's error for
topics whose converter knows no versions, until their second schema. Precision, documentation, aliases and namespaces
make no difference, nor does the nullability of a whole value: no file holds a null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import (
    DISCARDED_ENUM_DOC,
    DISCARDED_RECORD_DOC,
    ENUM,
    NAMESPACE,
    PRECISION,
    is_enum,
    is_union,
)
from headrace.plugins.schema import NUMBERS, Schema, SchemaType

_INDIFFERENT: Final = (f"{NAMESPACE}.", DISCARDED_RECORD_DOC, DISCARDED_ENUM_DOC, PRECISION)
"""Prefixes of parameters that make no difference."""


class SchemaAction(Enum):
    """The treatment of a record."""

    SAME = "same"
    """Write it as it is."""
    PROJECT = "project"
    """Bring it to the file's schema."""
    ROTATE = "rotate"
    """End the file; the next one has the record's schema."""


def decide(current: Schema | None, new: Schema | None, mode: str) -> SchemaAction:
    """Chooses the action for a record of schema `new` while the file has `current`; None: values without schema.

    Errors: DataError for schemas without a version, and for a change between values with and without a schema.
    """
    if mode.upper() == "NONE":
        return SchemaAction.SAME if new == current else SchemaAction.ROTATE
    if current is None and new is None:
        return SchemaAction.SAME
    if current is None or new is None:
        raise DataError("Switch between schema-based and schema-less data is not supported")
    if _bare(new) == _bare(current):
        return SchemaAction.SAME
    if new.version is None or current.version is None:
        raise DataError(f"Schema version required for {mode.upper()} compatibility")
    if not can_project(new, current):
        return SchemaAction.ROTATE
    ends = new.version < current.version if mode.upper() == "FORWARD" else new.version > current.version
    return SchemaAction.ROTATE if ends else SchemaAction.PROJECT


def _bare(schema: Schema) -> Schema:
    return replace(schema, optional=False, default=None)


def can_project(of: Schema, to: Schema) -> bool:
    """True if values of schema `of` can be brought to schema `to`, whatever their nullability as a whole."""
    return _fits(_bare(of), _bare(to))


def _fits(of: Schema, to: Schema) -> bool:
    if of.name != to.name or (of.optional and not to.optional and to.default is None):
        return False
    if is_union(of) or is_enum(of) or is_enum(to):
        return _alike(of, to)
    if _parameters(of.parameters) != _parameters(to.parameters):
        return False
    if of.type in NUMBERS and to.type in NUMBERS:
        return NUMBERS.index(of.type) <= NUMBERS.index(to.type)
    if of.type is not to.type:
        return False
    if of.type is SchemaType.STRUCT:
        return _fields_fit(of, to)
    inner = ((of.key_schema, to.key_schema), (of.value_schema, to.value_schema))
    return all(_inner_fits(one, other) for one, other in inner)


def _inner_fits(of: Schema | None, to: Schema | None) -> bool:
    return of is to if of is None or to is None else _fits(of, to)


def _fields_fit(of: Schema, to: Schema) -> bool:
    for field in to.fields:
        found = of.field(field.name)
        if found is None:
            if not field.schema.optional and field.schema.default is None:
                return False
        elif not _fits(found.schema, field.schema):
            return False
    return True


def _alike(of: Schema, to: Schema) -> bool:
    """True if an enum's symbols are among the other's, or if unions have the same branches: a value is one of them."""
    if is_union(of):
        return of.fields == to.fields
    return is_enum(of) and is_enum(to) and _enum(of.parameters) <= _enum(to.parameters)


def _enum(parameters: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(key, value) for key, value in parameters.items() if key == ENUM or key.startswith(f"{ENUM}.")}


def _parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if not key.startswith(_INDIFFERENT)}
