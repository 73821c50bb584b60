"""Columns of Protobuf's bytes: Java that knows a message type and the shape of its rows.

A shape is JSON. A row has `members`. Each has a `number` (the field) and a `value`, or a `union` of members (a
oneof). A reader's member is `nullable` if an unset field is null, else it has the field's default. A writer's member
has a `name` for errors, is `required` if null is refused, and has no number if it is left out. A value has a `kind`,
for `list`, `map`, `struct` and `wrapped` with the values inside it.

Decided: protobuf-java's DynamicMessage called from Spark's expressions, because Spark's own functions for Protobuf are
not on Maven Central for Scala 2.13 in a version that runs here, and know neither unions nor Connect's types; loses:
classic Spark only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import StructType

from headrace.plugins.interop.catalyst.java_calls import java_calls
from headrace.plugins.interop.catalyst.spark_internals import active_context, jvm_of

Shape = Mapping[str, Any]


def head(data: Column, forms: Sequence[tuple[bytes, int]], by_name: bool) -> Column:
    """The bytes that name the schema, with those that name the message type; empty for bytes without them.

    `forms`: the start of the bytes that name a schema, and their length. `by_name`: the type's name follows in a
    message, with its length before it; else its indexes do.
    """
    java = java_calls()
    known = ",".join(f"{start.hex()}:{length}" for start, length in forms)
    frame = java.own(jvm_of(active_context()).headrace.ProtobufFrame(known, by_name))
    return java.column(java.call(frame, "head", "byte[]", java.value(data)))


class ProtobufReader:
    """Reads bytes of one message type, which begin after `start` others, into rows of a Spark type."""

    def __init__(self, files: bytes, message: str, shape: Shape, row: StructType, start: int) -> None:
        made = jvm_of(active_context()).headrace.ProtobufReader(files, message, json.dumps(shape), start)
        self._reader = java_calls().own(made)
        self._row = row

    def read(self, data: Column) -> Column:
        """The rows; null for bytes that hold none."""
        java = java_calls()
        return java.column(java.typed_call(self._reader, "read", self._row, java.value(data)))

    def fault(self, data: Column) -> Column:
        """The reason that the bytes hold no row; null if they hold one."""
        java = java_calls()
        return java.text(java.call(self._reader, "fault", "java.lang.String", java.value(data)))


class ProtobufWriter:
    """Writes rows as bytes of one message type, after `head`."""

    def __init__(self, files: bytes, message: str, shape: Shape, head: bytes) -> None:
        made = jvm_of(active_context()).headrace.ProtobufWriter(files, message, json.dumps(shape), head)
        self._writer = java_calls().own(made)

    def write(self, row: Column) -> Column:
        """The bytes; null for a row that the message cannot hold."""
        java = java_calls()
        return java.column(java.call(self._writer, "write", "byte[]", java.value(row)))

    def fault(self, row: Column) -> Column:
        """The reason that the message cannot hold a row; null if it can."""
        java = java_calls()
        return java.text(java.call(self._writer, "fault", "java.lang.String", java.value(row)))
