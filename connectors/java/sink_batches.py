"""Batches for the Java host: the columns sent, and the bytes that `host/RecordReader.java` reads.

| column | |
|---|---|
| `topic`, `partition`, `timestamp`, `headers` | the record's, after transforms |
| `offset`, `origin_topic`, `origin_partition` | origin of a sink's record |
| `key_schema`, `value_schema` | number of its schema among all that the task has seen; null: a null without schema |
| `key_<number>`, `value_<number>` | its key and value |

Decided: the buffers of Arrow arrays and not Arrow's IPC format, as for sources (`batches.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.java.schema_texts import described
from headrace.plugins.numbered_schemas import numbered_columns
from headrace.plugins.record_api.unpacking import each_record
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema

_OWN: Final = ("topic", "partition", "offset", "timestamp", "headers", "origin_topic", "origin_partition")


class NumberedSchemas:
    """Schemas that a task has seen, and the expressions for its columns."""

    def __init__(self) -> None:
        self.sides: dict[str, list[Schema | None]] = {"key": [], "value": []}
        self._told: dict[str, int] = {"key": 0, "value": 0}

    def columns(self, records: Records) -> list[Column]:
        """Return the columns of these records."""
        origin = {"offset": "_offset", "origin_topic": "_topic", "origin_partition": "_partition"}
        own = [F.col(origin.get(name, name)).alias(name) for name in _OWN]
        keys = numbered_columns("key", records.keys, self.sides["key"], records.key)
        values = numbered_columns("value", records.values, self.sides["value"], records.value)
        return [*own, keys[0], values[0], *keys[1:], *values[1:]]

    def records(self, rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Yield each row as the record that Java gets, with its schemas described as in the host's messages."""
        keys, values = self.sides["key"], self.sides["value"]
        of_keys, of_values = (rows.column(f"{side}_schema").to_pylist() for side in self.sides)
        for record, key, value in zip(each_record(rows, keys, values), of_keys, of_values, strict=True):
            if isinstance(record, str):
                yield {"error": record}
                continue
            yield {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": record.key,
                "key_schema": None if key is None else described(keys[key]),
                "value": record.value,
                "value_schema": None if value is None else described(values[value]),
                "headers": record.headers,
            }

    @contextlib.contextmanager
    def told_with(self, rows: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
        """Yield the head to send with these rows, with new schemas; after a block without error the host knows them."""
        new = {
            f"{side}s": [[told, described(schema)] for told, schema in enumerate(known) if told >= self._told[side]]
            for side, known in self.sides.items()
        }
        count = {side: len(known) for side, known in self.sides.items()}
        yield {"rows": rows.num_rows, "schemas": new, **{f"{side}s": numbers_of(rows, side) for side in count}}
        self._told = count


def numbers_of(rows: pa.RecordBatch, side: str) -> list[int]:
    """Return the numbers of schemas with columns in these rows, in order."""
    prefix = f"{side}_"
    return [int(name[len(prefix) :]) for name in rows.schema.names if name[len(prefix) :].isdigit()
            and name.startswith(prefix)]  # fmt: skip


def bytes_of(rows: pa.RecordBatch) -> bytes:
    """Return the arrays' buffers, node by node in depth-first order.

    Shape: a node is its length, its number of nulls and its buffers. Each buffer follows its length and is padded to
    eight bytes; numbers have eight bytes, little-endian.
    """
    parts: list[Any] = []
    for array in _whole(rows).columns:
        parts.extend(_node(array))
    return b"".join(parts)


def _whole(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with arrays that start at their buffers' starts; IPC cuts slices out."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    with pa.ipc.open_stream(sink.getvalue()) as read:
        return read.read_next_batch()


def _node(array: pa.Array) -> Iterator[Any]:
    own = 1 if pa.types.is_struct(array.type) else 2
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        own = 3
    yield len(array).to_bytes(8, "little")
    yield array.null_count.to_bytes(8, "little")
    for buffer in array.buffers()[:own]:
        length = 0 if buffer is None else buffer.size
        yield length.to_bytes(8, "little")
        if buffer is not None:
            yield buffer
            yield bytes(-length % 8)
    yield from (part for child in _children(array) for part in _node(child))


def _children(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        yield from (array.field(index) for index in range(array.type.num_fields))
    elif pa.types.is_map(array.type):
        entries = array.keys, array.items
        yield pa.StructArray.from_arrays(entries, fields=[array.type.key_field, array.type.item_field])
    elif pa.types.is_list(array.type):
        yield array.values
