"""The gate before a sink's writer: passes each partition's rows up to the first that must stop it.

The same code runs in the worker (inline) and in Spark's Python workers (in a job). Columns that begin with `_` are the
worker's own; the others are the sink's `columns`, and go to its writer.

A record that fails is reported before its batch goes on: one whose `_stop` is an error, and one that the writer names
(`RecordsFailed`) if the raw records are at hand (`raw`; inline only).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowWriter
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.offsets import Stop, TopicPartition
from headrace.worker.deadletters.failed_records import (
    CONNECT_EXCEPTION,
    RETRIABLE_EXCEPTION,
    failed_records,
    refused_records,
)
from headrace.worker.kafka.distinct import is_uniform
from headrace.worker.outcome import Counts, Outcome

CONTROL = ("_topic", "_partition", "_offset", "_stop", "_drop")
"""`_stop`: null for a good row, else JSON (see `stop_of`)."""
_ROW = "_row"
"""The row's index among the raw records, if these are at hand; added before rows may be left out."""
_OWN = (*CONTROL, _ROW)


@dataclass
class PartitionState(Counts):
    """The progress of one partition."""

    upto: int | None = None
    refused: set[int] = field(default_factory=set)
    """Offsets of rows that the writer refused."""

    def is_news(self, offset: int) -> bool:
        """True if the refusal of this record counts: records after the stop come again anyway."""
        before_stop = self.stop is None or (self.upto is not None and offset <= self.upto)
        return before_stop and offset not in self.refused


GivenRows = list[tuple[pa.RecordBatch, pa.RecordBatch]]
"""Rows given to a writer, and the records that `_row` indexes: the same ones if there is no `_row`."""


class Reports(NamedTuple):
    """The callbacks for records that fail (`failed_records.FAILED`)."""

    report: Callable[[pa.RecordBatch], None] | None = None
    """Takes records that are left out, or that stop their partition."""
    later: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    """Takes records that may be tried again later; returns those that were tried long enough."""
    put_class: str = ""
    """The class that reports name for a writer's errors."""


class PartitionGate:
    """Hands good rows to a writer until their partition has to stop; counts how far each partition got."""

    def __init__(
        self,
        writer: ArrowWriter,
        tolerate: bool,
        reports: Reports = Reports(),  # noqa: B008 - immutable
        stopped: Collection[TopicPartition] = (),
    ) -> None:
        """`stopped`: partitions that nothing more may be written of."""
        self._writer = writer
        self._tolerate = tolerate
        self._reports = reports
        self._stopped = frozenset(stopped)
        self._of: dict[TopicPartition, PartitionState] = {}
        self._given: GivenRows = []

    def write(self, rows: pa.RecordBatch, raw: pa.RecordBatch | None = None) -> None:
        """Write those of these rows, in order, that may be written; `raw`: the same records as they came.

        Errors: those of the writer and of the reports.
        """
        if rows.num_rows == 0:
            return
        some_stopped = bool(self._stopped) or any(of.stop for of in self._of.values())
        if not some_stopped and _are_good(rows):
            self._count(rows)
        else:
            rows = self._writable(rows if raw is None else _numbered(rows), raw, some_stopped)
        if rows.num_rows:
            self._put(rows, raw)

    def _writable(self, rows: pa.RecordBatch, raw: pa.RecordBatch | None, some_stopped: bool) -> pa.RecordBatch:
        """Return the rows that may be written; count the others, and report the bad ones."""
        if some_stopped:
            rows = self._without_stopped(rows)
        stops = self._stops(rows)
        if stops is not None and pc.any(stops).as_py():
            rows = self._up_to_stops(rows, stops, raw)
        skipped = self._skipped(rows)
        if skipped is None:
            self._count(rows)
            return rows
        # Invariant 3: the dead letters are there before anything after the bad rows is written.
        self._tell(rows.filter(pc.and_(skipped, rows["_stop"].is_valid())), raw)
        self._count(rows)
        self._count_skipped(rows.filter(skipped))
        return rows.filter(pc.invert(skipped))

    def _count(self, rows: pa.RecordBatch) -> None:
        """Note how far these rows get each partition, counting all as written."""
        for partition, last, count in _ends(rows):
            of = self._of.setdefault(partition, PartitionState())
            of.upto, of.written = last, of.written + count

    def finish(self) -> bytes:
        """End the batch; returns the result of the writer's `finish`.

        Errors: those of the writer and of the reports.
        """
        try:
            return self._writer.finish()
        except RecordsFailed as error:
            if not error.failures or not self._given:
                raise
            self._refused(self._given, error.failures)
            return error.part

    def _put(self, rows: pa.RecordBatch, raw: pa.RecordBatch | None) -> None:
        given: GivenRows = [] if raw is None else [(rows, raw)]
        self._given += given
        try:
            self._writer.write(rows.select([name for name in rows.schema.names if name not in _OWN]))
        except RecordsFailed as error:
            if not error.failures or not given:
                raise
            self._refused(given, error.failures)

    def _tell(self, bad: pa.RecordBatch, raw: pa.RecordBatch | None) -> None:
        if bad.num_rows and self._reports.report is not None:
            self._reports.report(failed_records(bad, None if raw is None else raw.take(bad[_ROW])))

    def _refused(self, given: GivenRows, failures: Collection[RecordFailure]) -> None:
        """Handle rows that the writer took except for the failures, whose `row` counts through all of them."""
        own = [(_numbered(rows), raw) for rows, raw in given]
        refused = self._news(refused_records(own, failures, self._reports.put_class))
        bad, again = (
            refused.filter(pc.equal(refused["exception"], kind)) for kind in (CONNECT_EXCEPTION, RETRIABLE_EXCEPTION)
        )
        if again.num_rows and self._reports.later is None:
            raise RetriableError(again["message"][0].as_py())
        for row in refused.select(["topic", "partition", "offset"]).to_pylist():
            of = self._of[TopicPartition(row["topic"], row["partition"])]
            of.refused.add(row["offset"])
            of.written -= 1
        if again.num_rows and self._reports.later is not None:
            both = pa.Table.from_batches([bad, self._reports.later(again)]).combine_chunks()
            bad = both.to_batches()[0] if both.num_rows else bad
        if not self._tolerate:
            bad = self._stop_at_first(bad)
        if bad.num_rows and self._reports.report is not None:
            self._reports.report(bad)
        if self._tolerate:
            for row in bad.select(["topic", "partition"]).to_pylist():
                self._of[TopicPartition(**row)].bad += 1

    def _news(self, refused: pa.RecordBatch) -> pa.RecordBatch:
        places = refused.select(["topic", "partition", "offset"]).to_pylist()
        news = [self._of[TopicPartition(row["topic"], row["partition"])].is_news(row["offset"]) for row in places]
        return refused.filter(pa.array(news, pa.bool_()))

    def _stop_at_first(self, bad: pa.RecordBatch) -> pa.RecordBatch:
        """The first bad record of each partition, which stops there: rows that the writer took after it come again."""
        firsts: dict[TopicPartition, tuple[int, int]] = {}
        for index, row in enumerate(bad.select(["topic", "partition", "offset"]).to_pylist()):
            partition, offset = TopicPartition(row["topic"], row["partition"]), row["offset"]
            if partition not in firsts or offset < firsts[partition][0]:
                firsts[partition] = offset, index
        for partition, (offset, index) in firsts.items():
            of, error = self._of[partition], bad.slice(index, 1).to_pylist()[0]
            of.upto, of.stop, of.reason = offset - 1, Stop.FATAL, _told(error, partition, offset)
            given = sum(_before(rows, partition, offset) for rows, _ in self._given)
            of.written = given - sum(one < offset for one in of.refused)
        return bad.take(pa.array(sorted(index for _, index in firsts.values()), pa.int64()))

    def reached(self) -> Outcome[TopicPartition]:
        """The result of each partition with rows."""
        return Outcome({p: of.result(partition=p, upto=of.upto) for p, of in self._of.items()})

    def _stops(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Mask of rows that stop their partition: of an unknown schema, or bad and not tolerated."""
        marks = rows["_stop"]
        if marks.null_count == len(rows):
            return None
        return pc.and_(marks.is_valid(), pc.invert(_is_error(marks))) if self._tolerate else marks.is_valid()

    def _skipped(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Mask of rows that are passed over: filtered, or bad and tolerated."""
        return None if _are_good(rows) else pc.or_(rows["_drop"].fill_null(False), rows["_stop"].is_valid())

    def _count_skipped(self, rows: pa.RecordBatch) -> None:
        for partition, part in _by_partition(rows):
            of = self._of[partition]
            bad = len(part) - part["_stop"].null_count
            of.bad += bad
            of.dropped += len(part) - bad
            of.written -= len(part)

    def _up_to_stops(self, rows: pa.RecordBatch, stops: pa.Array, raw: pa.RecordBatch | None) -> pa.RecordBatch:
        """Keep the rows before each partition's first stop; note the stop, and report it if it is an error."""
        kept, fatal = [], []
        for partition, index in _indices(rows):
            first = pc.index(stops.take(index), True).as_py()
            if first >= 0:
                of = self._of.setdefault(partition, PartitionState())
                of.stop, of.reason = _why(rows, index[first].as_py())
                if of.stop is Stop.FATAL:
                    fatal.append(index[first].as_py())
                index = index.slice(0, first)
            kept.append(index)
        self._tell(rows.take(pa.array(fatal, pa.int64())), raw)
        together = pa.concat_arrays(kept)
        return rows.take(together.take(pc.sort_indices(together)))

    def _without_stopped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = []
        for partition, index in _indices(rows):
            if partition not in self._stopped and self._of.get(partition, PartitionState()).stop is None:
                kept.append(index)
        together = pa.concat_arrays(kept) if kept else pa.array([], pa.int64())
        return rows.take(together.take(pc.sort_indices(together)))


def stop_of(error: Column, unknown_key: Column, unknown_value: Column, raw: Column | None = None) -> Column:
    """Build the `_stop` of a row: its error, or the hex identity of its unknown schema.

    `raw`: a struct of what else is reported of a bad record, such as its bytes (base64 in the text). One text column
    instead of a struct and two binaries: every column costs each good row on its way into Arrow.
    """
    told = [error.alias("error"), *([] if raw is None else [raw.alias("raw")])]
    no_key, no_value = F.hex(unknown_key).alias("key"), F.hex(unknown_value).alias("value")
    # Unknown schemas come first: a transform took such a row for one that has no value.
    return (
        F.when(unknown_key.isNotNull(), F.to_json(F.struct(no_key)))
        .when(unknown_value.isNotNull(), F.to_json(F.struct(no_value)))
        .when(error.isNotNull(), F.to_json(F.struct(*told)))
    )


def unknown_of(reason: str | None) -> tuple[str, bytes]:
    """Parse the reason of an UNKNOWN stop: 'key' or 'value', and the identity of the unknown schema."""
    side, _, identity = (reason or "").partition(":")
    return side, bytes.fromhex(identity)


def _are_good(rows: pa.RecordBatch) -> bool:
    """True if none of these rows is bad, unknown or filtered."""
    return bool(rows["_stop"].null_count == len(rows) and not rows["_drop"].true_count)


def _numbered(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows if _ROW in rows.schema.names else rows.append_column(_ROW, pa.array(np.arange(rows.num_rows)))


def _is_error(marks: pa.Array) -> pa.Array:
    return pc.starts_with(marks.fill_null(""), '{"error"')


def _why(rows: pa.RecordBatch, index: int) -> tuple[Stop, str]:
    what = json.loads(rows["_stop"][index].as_py())
    if "error" in what:
        place = TopicPartition(rows["_topic"][index].as_py(), rows["_partition"][index].as_py())
        return Stop.FATAL, _told(what["error"], place, rows["_offset"][index].as_py())
    ((kind, identity),) = what.items()
    return Stop.UNKNOWN, f"{kind}:{identity.lower()}"


def _told(error: Mapping[str, Any], partition: TopicPartition, offset: int) -> str:
    where = f"{partition.topic}-{partition.partition} at offset {offset}"
    return f"{error['stage']} ({error['class']}), record of {where}: {error.get('message')}"


def _before(rows: pa.RecordBatch, partition: TopicPartition, offset: int) -> int:
    """Count the partition's rows before the offset."""
    of_it = pc.and_(pc.equal(rows["_topic"], partition.topic), pc.equal(rows["_partition"], partition.partition))
    return pc.sum(pc.and_(of_it, pc.less(rows["_offset"], offset))).as_py() or 0


def _single(rows: pa.RecordBatch) -> TopicPartition | None:
    """The partition of all these rows, if it is one; its rows come in the order of their offsets."""
    topics, partitions = rows["_topic"], rows["_partition"]
    same = is_uniform(partitions) and is_uniform(topics)
    return TopicPartition(topics[0].as_py(), partitions[0].as_py()) if same else None


def _ends(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield each partition with its last offset and its number of rows."""
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
    """Yield each partition with the indices of its rows, in order."""
    for partition, _, _ in _ends(rows):
        mask = pc.and_(pc.equal(rows["_topic"], partition.topic), pc.equal(rows["_partition"], partition.partition))
        yield partition, pc.indices_nonzero(mask).cast(pa.int64())


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    for partition, index in _indices(rows):
        yield partition, rows.take(index)
