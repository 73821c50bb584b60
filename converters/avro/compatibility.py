"""Checks if data written in one Avro schema can be read in another, by Avro's rules for schema resolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headrace.plugins.interop.avro.parsing import kind_of
from headrace.plugins.interop.avro.tree import Tree

_WIDER: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


def breaks(reader: Tree, writer: Tree, at: str = "") -> Iterator[str]:
    """The reasons that `reader` cannot read data of `writer`, naming fields; empty if it can."""
    where = at or "the value"
    if isinstance(writer, list):
        for branch in writer:
            yield from breaks(reader, branch, at)
    elif isinstance(reader, list):
        if not any(_reads(branch, writer) for branch in reader):
            yield f"{where}: the union lacks {_described(writer)}"
    elif kind_of(reader) != kind_of(writer):
        if (kind_of(writer), kind_of(reader)) not in _WIDER:
            yield f"{where}: {_described(reader)} cannot hold {_described(writer)}"
    elif isinstance(reader, dict) and isinstance(writer, dict):
        yield from _within(reader, writer, at)


def _reads(reader: Tree, writer: Tree) -> bool:
    return next(breaks(reader, writer), None) is None


def _within(reader: dict[str, Any], writer: dict[str, Any], at: str) -> Iterator[str]:
    kind, where = kind_of(reader), at or "the value"
    if kind in ("enum", "fixed", "record") and not _same_name(reader, writer):
        yield f"{where}: {_described(reader)} is not {_described(writer)}"
    elif kind == "array":
        yield from breaks(reader["items"], writer["items"], f"{at}[]")
    elif kind == "map":
        yield from breaks(reader["values"], writer["values"], f"{at}{{}}")
    elif kind == "fixed" and reader["size"] != writer["size"]:
        yield f"{where}: {reader['size']} bytes are not {writer['size']}"
    elif kind == "enum" and "default" not in reader:
        missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if missing:
            yield f"{where}: the enum lacks {', '.join(missing)}"
    elif kind == "record":
        written = {field["name"]: field["type"] for field in writer["fields"]}
        for field in reader["fields"]:
            name = f"{at}.{field['name']}".lstrip(".")
            known = [one for one in (field["name"], *field.get("aliases", ())) if one in written]
            if known:
                yield from breaks(field["type"], written[known[0]], name)
            elif "default" not in field:
                yield f"{name}: the field has no default and was not written"


def _same_name(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    """True if the last parts of the names, or an alias, agree, as in Avro since 1.9."""
    own = writer["name"].rpartition(".")[2]
    return own == reader["name"].rpartition(".")[2] or writer["name"] in reader.get("aliases", ())


def _described(tree: Tree) -> str:
    name = f" {tree['name']}" if isinstance(tree, dict) and "name" in tree else ""
    return kind_of(tree) + name
