"""Avro schemas as trees, and the settings that apply to them.

A *tree* is an Avro schema in JSON's types. Every named type has its full name (`a.b.C`, no `namespace`) and is written
out at each use. `schema_text` returns the usual form, with members in the order of Java's Avro library, because
a registry takes another order of properties for another schema.

Decided: two types with the same name and different shapes are an error (`Can't redefine: …`), as in Java, because a
schema cannot have both; loses: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus

import numpy as np

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.jackson import json_number, json_string
from headrace.plugins.schema import Schema, SchemaType

Tree = str | list[Any] | dict[str, Any]

NAMESPACE: Final = "io.confluent.connect.avro"
UNNAMED: Final = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY: Final = f"{NAMESPACE}.MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
PRECISION: Final = "connect.decimal.precision"
FIXED_SIZE: Final = "connect.fixed.size"
MOST_PRECISION: Final = 64
"""Precision that Confluent writes for a decimal without one."""
DISCARDED_RECORD_DOC: Final = "connect.record.doc"
DISCARDED_ENUM_DOC: Final = "connect.enum.doc"
"""Parameters that keep docs if `discard.type.doc.default` is set."""

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})

_OWN_MEMBERS: Final = ("type", "name", "doc", "fields", "symbols", "default", "size", "items", "values")
"""Members of a schema in Java's order; all others are properties, in the order in which they were added."""


def _optional(type_: Tree, name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


ANYTHING_NAME: Final = f"{NAMESPACE}.Anything"
ANYTHING: Final[dict[str, Any]] = {
    "type": "record",
    "name": ANYTHING_NAME,
    "fields": [
        *(_optional(kind, kind) for kind in ("boolean", "bytes", "double", "float", "int", "long", "string")),
        _optional({"type": "array", "items": ANYTHING_NAME}, "array"),
        _optional(
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": MAP_ENTRY,
                    "fields": [{"name": name, "type": ANYTHING_NAME} for name in ("key", "value")],
                },
            },
            "map",
        ),
    ],
}
"""Record of schemaless values: at most one field is set. It contains itself by its name."""


class NameNotAllowed(DataError):
    """A name that Avro does not allow."""


@dataclass(frozen=True)
class AvroOptions:
    """Settings for schemas, in both directions."""

    metadata: bool = True
    """connect.meta.data"""
    enhanced: bool = False
    """enhanced.avro.schema.support"""
    scrub: bool = False
    """scrub.invalid.names"""
    discard_docs: bool = False
    """discard.type.doc.default"""
    optional_map_keys: bool = False
    """allow.optional.map.keys"""
    flatten_singletons: bool = True
    """flatten.singleton.unions"""
    default_precision: int = MOST_PRECISION
    """Precision of decimals without one; Confluent's default is more than anything but Java reads."""
    keep_nulls: bool = False
    """ignore.default.for.nullables"""

    def is_avro_map(self, schema: Schema) -> bool:
        """True if a map schema becomes an Avro map; others become arrays of entries."""
        key = schema.key_schema
        return key is not None and key.type is SchemaType.STRING and (not key.optional or self.optional_map_keys)

    def name(self, name: str) -> str:
        """Return a field's name in Avro."""
        return scrubbed(name) if self.scrub else name


def is_union(schema: Schema) -> bool:
    """True if a struct represents an Avro union, with a field for each branch."""
    return schema.type is SchemaType.STRUCT and schema.name == UNION


def is_enum(schema: Schema) -> bool:
    """True if a string was an Avro enum."""
    return schema.type is SchemaType.STRING and ENUM in schema.parameters


def schema_text(tree: Tree) -> str:
    """Return the schema as Java's Avro library writes it. Errors: DataError if two types have the same name."""
    return _text(tree, "", {})


def _text(tree: Tree, space: str, seen: dict[str, Tree]) -> str:
    if isinstance(tree, list):
        return "[" + ",".join(_text(branch, space, seen) for branch in tree) + "]"
    if isinstance(tree, str):
        return json_string(tree if tree in PRIMITIVES else _qualified(tree, space))
    members = [f'"type":{json_string(tree["type"])}']
    if tree["type"] in NAMED:
        name = tree["name"]
        if name in seen:
            if seen[name] != tree:
                raise DataError(f"Can't redefine: {name}")
            return json_string(_qualified(name, space))
        seen[name] = tree
        around, (space, _, last) = space, name.rpartition(".")
        members.append(f'"name":{json_string(last)}')
        if space != around:
            members.append(f'"namespace":{json_string(space)}')
    for key in _OWN_MEMBERS[2:]:
        if key in tree:
            members.append(f"{json_string(key)}:{_own_member(key, tree, space, seen)}")
    members += [f"{json_string(key)}:{_json(tree[key])}" for key in tree if key not in _OWN_MEMBERS]
    return "{" + ",".join(members) + "}"


def _own_member(key: str, tree: dict[str, Any], space: str, seen: dict[str, Tree]) -> str:
    match key:
        case "items" | "values":
            return _text(tree[key], space, seen)
        case "fields":
            return "[" + ",".join(_field_text(field, space, seen) for field in tree["fields"]) + "]"
    return _json(tree[key])


def _field_text(field: dict[str, Any], space: str, seen: dict[str, Tree]) -> str:
    members = [f'"name":{json_string(field["name"])}', f'"type":{_text(field["type"], space, seen)}']
    members += [f"{json_string(key)}:{_json(field[key])}" for key in ("doc", "default") if key in field]
    return "{" + ",".join(members) + "}"


def _qualified(name: str, space: str) -> str:
    around, _, last = name.rpartition(".")
    return last if around == space and last not in PRIMITIVES else name


def _json(value: Any) -> str:
    if isinstance(value, np.float32):
        return json_number(value)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json_string(value)
        case float():
            return json_number(np.float64(value))
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case dict():
            return "{" + ",".join(f"{json_string(key)}:{_json(member)}" for key, member in value.items()) + "}"
    return str(value)


def valid_full_name(name: str) -> str:
    """Return the full name unchanged. Errors: NameNotAllowed, as `valid_name`."""
    space, _, last = name.rpartition(".")
    return f"{space}.{valid_name(last)}" if space else valid_name(last)


def valid_name(name: str) -> str:
    """Return the name unchanged. Errors: NameNotAllowed if Avro forbids it, with the text of Java's Avro library."""
    if not name:
        raise NameNotAllowed("Empty name")
    if not (name[0].isalpha() or name[0] == "_"):
        raise NameNotAllowed(f"Illegal initial character: {name}")
    if not all(char.isalpha() or char.isdecimal() or char == "_" for char in name):
        raise NameNotAllowed(f"Illegal character in: {name}")
    return name


def scrubbed(name: str) -> str:
    """Return the name changed into one that Avro allows."""
    if not name or (name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()):
        return name
    encoded = quote_plus(name, safe="*").replace("~", "%7E")  # as Java's URLEncoder does
    encoded = f"x{encoded}" if encoded[0].isdigit() else encoded
    return "".join(char if char.isalnum() or char == "_" else "_" for char in encoded)
