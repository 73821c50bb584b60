"""Of a batch's rows for a sink: the prefix of each partition that may be written, written.

The same code runs in the worker (*here*) and in Spark's Python workers (*there*). Columns that begin with `_` are the
worker's own; the others are what the sink's `project` gave, and go to its writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowWriter, Reached, Stop, TopicPartition

CONTROL = ("_topic", "_partition", "_offset", "_stop", "_drop")
"""`_stop`: null for a good row, else JSON (see `stop_of`)."""


@dataclass
class _Of:
    """How far one partition got."""

    upto: int | None = None
    written: int = 0
    dropped: int = 0
    bad: int = 0
    stop: Stop | None = None
    reason: str | None = None


class Prefix:
    """Hands good rows to a writer until a partition has to stop, and says how far each got."""

    def __init__(self, writer: ArrowWriter, tolerate: bool) -> None:
        self._writer = writer
        self._tolerate = tolerate
        self._of: dict[TopicPartition, _Of] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        """These rows, in order, as far as they may be written."""
        if rows.num_rows == 0:
            return
        if any(of.stop for of in self._of.values()):
            rows = self._without_stopped(rows)
        stops = self._stops(rows)
        if stops is not None and pc.any(stops).as_py():
            rows = self._up_to_stops(rows, stops)
        skipped = self._skipped(rows)
        for partition, last, count in _ends(rows):
            of = self._of.setdefault(partition, _Of())
            of.upto, of.written = last, of.written + count
        if skipped is not None:
            self._count_skipped(rows.filter(skipped))
            rows = rows.filter(pc.invert(skipped))
        if rows.num_rows:
            self._writer.write(rows.select([name for name in rows.schema.names if name not in CONTROL]))

    def reached(self) -> list[Reached]:
        """How far each partition got that had rows."""
        return [
            Reached(p, of.upto, written=of.written, dropped=of.dropped, bad=of.bad, stop=of.stop, reason=of.reason)
            for p, of in self._of.items()
        ]

    def _stops(self, rows: pa.RecordBatch) -> pa.Array | None:
        """The rows that nothing may pass: of an unknown schema, or bad and not tolerated."""
        marks = rows["_stop"]
        if marks.null_count == len(rows):
            return None
        return pc.and_(marks.is_valid(), pc.invert(_is_error(marks))) if self._tolerate else marks.is_valid()

    def _skipped(self, rows: pa.RecordBatch) -> pa.Array | None:
        """The rows that are passed over: filtered, or bad and tolerated."""
        drop, marks = rows["_drop"], rows["_stop"]
        if not pc.any(drop).as_py() and marks.null_count == len(rows):
            return None
        return pc.or_(drop.fill_null(False), marks.is_valid())

    def _count_skipped(self, rows: pa.RecordBatch) -> None:
        for partition, part in _by_partition(rows):
            of = self._of[partition]
            bad = len(part) - part["_stop"].null_count
            of.bad += bad
            of.dropped += len(part) - bad
            of.written -= len(part)

    def _up_to_stops(self, rows: pa.RecordBatch, stops: pa.Array) -> pa.RecordBatch:
        """Only the rows before each partition's first stop; the stop is noted."""
        kept = []
        for partition, index in _indices(rows):
            first = pc.index(stops.take(index), True).as_py()
            if first >= 0:
                of = self._of.setdefault(partition, _Of())
                of.stop, of.reason = _why(rows, index[first].as_py())
                index = index.slice(0, first)
            kept.append(index)
        together = pa.concat_arrays(kept)
        return rows.take(together.take(pc.sort_indices(together)))

    def _without_stopped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = []
        for partition, index in _indices(rows):
            if self._of.get(partition, _Of()).stop is None:
                kept.append(index)
        together = pa.concat_arrays(kept) if kept else pa.array([], pa.int64())
        return rows.take(together.take(pc.sort_indices(together)))


def stop_of(error: Column, unknown_key: Column, unknown_value: Column) -> Column:
    """The `_stop` of a row: its error, or the identity of the schema that is not known, in hex.

    One text column instead of a struct and two binaries: every column costs each good row on its way into Arrow.
    """
    no_key, no_value = F.hex(unknown_key).alias("key"), F.hex(unknown_value).alias("value")
    return (
        F.when(error.isNotNull(), F.to_json(F.struct(error.alias("error"))))
        .when(unknown_key.isNotNull(), F.to_json(F.struct(no_key)))
        .when(unknown_value.isNotNull(), F.to_json(F.struct(no_value)))
    )


def unknown_of(reason: str | None) -> tuple[str, bytes]:
    """Of a partition that stopped as UNKNOWN: 'key' or 'value', and the identity of the schema that is not known."""
    side, _, identity = (reason or "").partition(":")
    return side, bytes.fromhex(identity)


def _is_error(marks: pa.Array) -> pa.Array:
    return pc.starts_with(marks.fill_null(""), '{"error"')


def _why(rows: pa.RecordBatch, index: int) -> tuple[Stop, str]:
    ((kind, what),) = json.loads(rows["_stop"][index].as_py()).items()
    if kind == "error":
        where = f"{rows['_topic'][index]}-{rows['_partition'][index]} at offset {rows['_offset'][index]}"
        return Stop.FATAL, f"{what['stage']} ({what['class']}), record of {where}: {what['message']}"
    return Stop.UNKNOWN, f"{kind}:{what.lower()}"


def _single(rows: pa.RecordBatch) -> TopicPartition | None:
    """The partition of all these rows, if it is one (rows of one partition come in the order of their offsets)."""
    topics, partitions = rows["_topic"], rows["_partition"]
    same = pc.all(pc.equal(partitions, partitions[0])).as_py() and pc.all(pc.equal(topics, topics[0])).as_py()
    return TopicPartition(topics[0].as_py(), partitions[0].as_py()) if same else None


def _ends(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int, int]]:
    """Each partition with its last offset and its number of rows."""
    if rows.num_rows == 0:
        return
    if (single := _single(rows)) is not None:
        yield single, rows["_offset"][-1].as_py(), rows.num_rows
        return
    table = pa.Table.from_batches([rows.select(["_topic", "_partition", "_offset"])])
    grouped = table.group_by(["_topic", "_partition"]).aggregate([("_offset", "max"), ("_offset", "count")])
    for row in grouped.to_pylist():
        yield TopicPartition(row["_topic"], row["_partition"]), row["_offset_max"], row["_offset_count"]


def _indices(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.Array]]:
    """Each partition with the indices of its rows, in order."""
    for partition, _, _ in _ends(rows):
        mask = pc.and_(pc.equal(rows["_topic"], partition.topic), pc.equal(rows["_partition"], partition.partition))
        yield partition, pc.indices_nonzero(mask).cast(pa.int64())


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    for partition, index in _indices(rows):
        yield partition, rows.take(index)
