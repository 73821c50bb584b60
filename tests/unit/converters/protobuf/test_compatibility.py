"""Protobuf messages that may take each other's place, by Confluent's rules."""

from __future__ import annotations

import pytest

from headrace.converters.protobuf.compatibility import breaks
from headrace.converters.protobuf.messages import file_of, message_at

OF_TEXT = "message M { N n = 1; } message N { string x = 1; }"
OF_NUMBER = "message M { N n = 1; } message N { int32 x = 1; }"


def first_break(reader: str, writer: str, syntax: str = "proto3") -> str | None:
    """The reason that the one may not take the other's place; None if it may.

    Both are texts of the inside of a message, or of a file after its syntax.
    """
    made = [
        message_at(file_of(f'syntax = "{syntax}"; {text if "message" in text else f"message M {{ {text} }}"}'), [0])
        for text in (reader, writer)
    ]
    return next(breaks(*made), None)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("int32 a = 1;", "int32 a = 1; string b = 2;"),
        ("int32 a = 1; string b = 2;", "int32 a = 1;"),
        ("int64 renamed = 1;", "int32 a = 1;"),
        ("bool a = 1;", "uint64 a = 1;"),
        ("repeated string a = 1;", "string a = 1;"),
        ("oneof o { int32 a = 1; string b = 2; }", "int32 a = 1;"),
        ("int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }"),
        ("oneof o { int32 a = 1; int32 c = 3; }", "oneof o { int32 a = 1; }"),
        ("message M { M m = 1; }", "message M { M m = 1; int32 x = 2; }"),
    ],
)
def test_what_may_change(reader: str, writer: str) -> None:
    assert first_break(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "told", "syntax"),
    [
        ("string a = 1;", "int32 a = 1;", "the type of the field M.a changed", "proto3"),
        ("sint32 a = 1;", "int32 a = 1;", "the type of the field M.a changed", "proto3"),
        ("repeated int32 a = 1;", "int32 a = 1;", "the label of the field M.a changed", "proto3"),
        ("package a; message M {}", "package b; message M {}", "the package 'b' became 'a'", "proto3"),
        ("oneof o { string b = 2; }", "oneof o { int32 a = 1; string b = 2; }", "the member M.a of a oneof", "proto3"),
        ("oneof o { int32 a = 1; string b = 2; }", "int32 a = 1; string b = 2;", "into the oneof o", "proto3"),
        ("oneof o { int32 a = 1; string b = 2; }", "int32 a = 1; oneof o { string b = 2; }", "oneof o", "proto3"),
        (OF_TEXT, OF_NUMBER, "the type of the field N.x changed", "proto3"),
        ("required int32 a = 1;", "optional int32 b = 2;", "the required field M.a was added", "proto2"),
        ("optional int32 b = 2;", "required int32 a = 1;", "the required field M.a was removed", "proto2"),
    ],
)  # fmt: skip
def test_what_may_not(reader: str, writer: str, told: str, syntax: str) -> None:
    found = first_break(reader, writer, syntax)
    assert found is not None
    assert told in found
