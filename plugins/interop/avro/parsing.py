"""A registry's Avro schemas as trees (`tree`), and questions about parts of a tree.

A tree's size is limited, because anyone may register anything: one named type may occur twice in another, that one
twice in the next, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, expand_schema

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.tree import ANYTHING, ANYTHING_NAME, MAP_ENTRY, PRIMITIVES, Tree, valid_name

LOGICAL_TYPE: Final = "logical type"
"""Replaces `logicalType` in parsed trees, because fastavro refuses decimals that Confluent writes."""
MOST_PARTS: Final = 10_000
MOST_DEPTH: Final = 32
"""Maximum nesting of types, unions included; Arrow's reader refuses 64."""
_MOST_BYTES: Final = 1 << 24
"""Maximum size of a fixed type: its reader allocates the memory before it checks that so many bytes are there."""


def parsed(text: str) -> Tree:
    """Parse a registry's schema into a tree.

    Errors: DataError if the schema is invalid, contains itself, or is too large.
    """
    try:
        tree: Tree = expand_schema(json.loads(text, object_hook=_without_logical_type))
        _check(tree)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"Invalid Avro schema: {type(error).__name__}: {error}") from error
    except (SchemaParseException, UnknownType) as error:
        raise DataError(f"Invalid Avro schema: {error}") from error
    return tree


def _without_logical_type(node: dict[str, Any]) -> dict[str, Any]:
    return {LOGICAL_TYPE if key == "logicalType" else key: value for key, value in node.items()}


def _check(tree: Tree) -> None:
    """Check the size of a tree. Errors: DataError if it contains itself or is too large."""
    waiting, parts = [(tree, 0)], 0
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if parts > MOST_PARTS or depth > MOST_DEPTH:
            raise DataError(
                f"The Avro schema is too large: Headrace reads up to {MOST_DEPTH} nested types and {MOST_PARTS} "
                "types in all, each counted at every place where it stands"
            )
        if is_anything(part):
            continue
        if isinstance(part, str):
            if part not in PRIMITIVES:
                raise DataError(f"The Avro record {part} contains itself: Spark has no recursive types")
            continue
        waiting += [(inner, depth + 1) for inner in (part if isinstance(part, list) else _inside(part))]


def _inside(part: dict[str, Any]) -> list[Tree]:
    """Return the types directly in an array, a map or a record; changes an `error` into a record."""
    if part["type"] == "error":
        part["type"] = "record"
    fields = part["fields"] if part["type"] == "record" else []
    names = [valid_name(field["name"]) for field in fields]
    if len(set(names)) < len(names):
        raise DataError(f"Invalid Avro schema: a name comes twice among the fields {', '.join(names)}")
    if part["type"] == "fixed" and part["size"] not in range(_MOST_BYTES):
        raise DataError(f"Invalid Avro schema: no record holds {part['size']} bytes, the size of {part['name']}")
    return [*(part[key] for key in ("items", "values") if key in part), *(field["type"] for field in fields)]


def is_anything(tree: Tree) -> bool:
    """True if this is the record of schemaless values."""
    if not isinstance(tree, dict) or tree.get("name") != ANYTHING_NAME:
        return False
    return [field["name"] for field in tree.get("fields", ())] == [field["name"] for field in ANYTHING["fields"]]


def entry_of(tree: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of an entry, if the array represents a map; else None."""
    items = tree.get("items")
    if not isinstance(items, dict) or items["type"] != "record" or is_anything(items):
        return None
    return items if items["name"] == MAP_ENTRY or items.get("connect.internal.type") == "MapEntry" else None


def branches(tree: list[Any]) -> list[Tree]:
    """Return the branches of a union except null."""
    return [branch for branch in tree if kind_of(branch) != "null"]


def kind_of(tree: Tree) -> str:
    """Return the name of the Avro type; `union` for a union."""
    if isinstance(tree, list):
        return "union"
    return tree if isinstance(tree, str) else str(tree["type"])
