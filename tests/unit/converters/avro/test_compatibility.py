"""Avro schemas that read, or do not read, what another one wrote."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.converters.avro.compatibility import breaks


def rec(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    """A record schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


A = {"name": "a", "type": "int"}
UNWRITTEN = "the field has no default and was not written"
ENUMS = [{"type": "enum", "name": "E", "symbols": symbols} for symbols in (["A"], ["A", "B"])]


@pytest.mark.parametrize(
    ("reader", "writer", "found"),
    [
        (rec(A), rec(A), []),
        (rec(A, {"name": "b", "type": "int", "default": 1}), rec(A), []),
        (rec(A, {"name": "b", "type": "int"}), rec(A), [f"b: {UNWRITTEN}"]),
        (rec({"name": "a", "type": "long"}), rec(A), []),
        (rec(A), rec({"name": "a", "type": "long"}), ["a: int cannot hold long"]),
        (rec({"name": "a", "type": ["null", "int"]}), rec(A), []),
        (rec(A), rec({"name": "a", "type": ["null", "int"]}), ["a: int cannot hold null"]),
        (rec({"name": "c", "type": rec(A)}), rec({"name": "c", "type": rec()}), [f"c.a: {UNWRITTEN}"]),
        (rec(A), rec(A, name="S"), ["the value: record R is not record S"]),
        (*ENUMS, ["the value: the enum lacks B"]),
        (["string"], "int", ["the value: the union lacks int"]),
    ],
)
def test_what_breaks_compatibility_is_named(reader: Any, writer: Any, found: list[str]) -> None:
    assert list(breaks(reader, writer)) == found
