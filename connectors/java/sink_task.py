"""A sink task that runs in the Java host: a batch is sent as a whole, and the plugin says how far it may be committed.

    open -> (rows -> put) -> preCommit -> Kafka commits what was released -> close

Decided: the answer of `preCommit` only bounds what is committed to Kafka (`SinkTask.pre_commit`), as in Connect, and
the task continues reading after what it has put, because a `BufferingSink` would give a plugin all held rows again if
one batch fails. Loses: nothing.

Decided: the plugin is asked at each commit of the worker, only about partitions with something to commit; loses: a
plugin that wants to know of others.

Decided: a failed `preCommit` does not end the task, as in Connect: the task goes back to what was last released, and
all records after it are put again; loses: repeated rows.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column

from headrace.connectors.java.errors import HostLost, HostTimeout, JavaError, error_of
from headrace.connectors.java.hosts import running_host
from headrace.connectors.java.process import JavaHost
from headrace.connectors.java.sink_batches import NumberedSchemas, bytes_of
from headrace.connectors.java.stage import headers_of, told_stage
from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext, TopicPartition
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink
from headrace.plugins.records import Records
from headrace.plugins.sink_requests import RequestingSink, SinkRequests
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

START_S: Final = 300.0
CALL_S: Final = 120.0
"""For `open`, `preCommit` and `close`."""
PUT_S: Final = 280.0
"""Below the default `max.poll.interval.ms`, after which the consumer would lose its partitions."""
STOP_S: Final = 5.5
_IDLE_MS: Final = 60_000


class JavaSinkTask(SinkTask, PartitionedSink, RequestingSink, PreviewedSink):
    """Base of the classes that `plugin.sink_connector` makes."""

    plugin: ClassVar[Mapping[str, Any]]
    """Class of the connector with its jars, as sent to the host."""
    place = Place.WORKER_PROCESS
    commits_offsets = True

    def __init__(self) -> None:
        self._host: JavaHost | None = None
        self._given_up = StopToken()
        self._stuck: str | None = None
        self._requests = SinkRequests()
        self._filtered: Mapping[TopicPartition, int] = {}
        self._heard: list[Mapping[str, Any]] = []
        self._released: dict[TopicPartition, int] = {}
        """Offsets to go back to: what was last released, or the first record put."""
        self.schemas = NumberedSchemas()

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Start the task in the host. Errors: HostLost, HostTimeout, those of the plugin."""
        self._context = context
        host = running_host()
        self._number = host.number()
        host.events[self._number] = self._heard.append
        self._host = host
        host.call(
            "sink.start",
            START_S,
            stop=context.stopping,
            task=self._number,
            plugin=self.plugin,
            name=f"{context.connector}-{context.task}",
            config=dict(config),
            stage=told_stage(context.java_stage),
            headers=headers_of(context.java_stage),
            idle_ms=int(context.worker.get("offset.flush.interval.ms", _IDLE_MS)),
        )

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Call nothing of the plugin, whose `start` may write."""
        self._context = context

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the records of `put`."""
        records = (record for rows in batches for record in self.schemas.records(rows))
        for row, record in enumerate(records):
            yield Effect("put", self.plugin["class"], record, row)

    def preview_notes(self) -> Sequence[str]:
        """Return what remains the plugin's secret."""
        name = self.plugin["class"].rpartition(".")[2]
        notes = [f"Only the Java plugin {name} knows what it writes of these records."]
        if self._context.java_stage:
            notes.append("They are shown before the transforms and converters that run in Java.")
        return notes

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open the partitions in the plugin; return the offsets that it asks for.

        Errors: RetriableError, those of `start`.
        """
        if not partitions:
            return {}
        for partition in partitions:
            self._released.pop(partition, None)
        self._note(self.call("open", CALL_S, partitions=list(partitions), member=self._context.group_member()))
        offsets, mine = self._requests.offsets, set(partitions)
        self._requests = self._requests._replace(offsets={p: at for p, at in offsets.items() if p not in mine})
        return {partition: offset for partition, offset in offsets.items() if partition in mine}

    def columns(self, records: Records) -> list[Column]:
        """Return the columns that `sink_batches` describes."""
        return self.schemas.columns(records)

    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer that puts a whole batch."""
        return _Putting(self)

    def put(self, batch: Sequence[pa.RecordBatch]) -> None:
        """Put these rows at once. Errors: RecordsFailed for those that the plugin reports, those of the plugin."""
        for rows in batch:
            for partition, first in _firsts(rows):
                self._released.setdefault(partition, first)
        for index, rows in enumerate(batch):
            last = index == len(batch) - 1
            found = self._sent(rows, begins=index == 0, ends=last)
        self._filtered = {TopicPartition(topic, number): count for topic, number, count in found["filtered"]}
        failed = self._note(found)
        if failed:
            raise RecordsFailed(failed[0][3], _failures(batch, failed))

    def left_out(self) -> Mapping[TopicPartition, int]:
        """Return the counts of rows that the transforms in the host filtered."""
        left_out, self._filtered = self._filtered, {}
        return left_out

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that the plugin has released, up to these positions. Errors: RetriableError, HostLost."""
        if not positions:
            return {}
        given = [[*partition, offset] for partition, offset in positions.items()]
        try:
            found = self.call("commit", CALL_S, positions=given)
        except (RetriableError, JavaError) as error:
            back = {p: at for p in positions if (at := self._released.get(p)) is not None}
            self._requests = self._requests._replace(offsets={**self._requests.offsets, **back})
            raise RetriableError(f"the plugin failed in preCommit, its records are put again: {error}") from error
        self._check_reports(self._note(found))
        answered = {TopicPartition(topic, number): offset for topic, number, offset in found["released"]}
        released = {p: min(answered[p], end) for p, end in positions.items() if p in answered}
        self._released |= released
        return released

    def requests(self) -> SinkRequests:
        """Return the plugin's requests. Errors: HostLost; what it raised between batches."""
        while self._heard:
            event = self._heard.pop(0)
            if "error" in event:
                raise error_of(event["error"])
            self._check_reports(self._note(event))
        if self._host is not None:
            self._host.raise_if_lost()
        requests, self._requests = self._requests, SinkRequests()
        self._released |= requests.offsets
        return requests

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close the partitions in the plugin."""
        for partition in partitions:
            self._released.pop(partition, None)
        if partitions and self._stuck is None and self._host is not None and not self._host.is_lost:
            self._note(self.call("close", CALL_S, partitions=list(partitions)))

    def stop(self) -> None:
        """End the task in the host; a host in which one of its calls goes on gets no new plugins."""
        host, self._host = self._host, None
        if host is not None and not host.is_lost:
            host.end_task("sink.stop", STOP_S, self._number)

    def call(self, name: str, limit_s: float, data: bytes = b"", **given: Any) -> Any:
        """Call the task in the host; after a call that did not return in time, no more calls are made."""
        if self._host is None:
            raise HostLost("The Java task has ended")
        if self._stuck is not None:
            raise HostTimeout(self._stuck)
        try:
            with self._context.interrupted_by(self._give_up):
                return self._host.call(
                    f"sink.{name}", limit_s, stop=self._given_up, data=data, task=self._number, **given
                )
        except HostTimeout as late:
            self._stuck = str(late)
            raise

    def _give_up(self) -> None:
        self._given_up.set()
        self._stuck = "The Java plugin did not return in time"
        if self._host is not None:
            with contextlib.suppress(HostLost):
                self._host.post("sink.interrupt", task=self._number)

    def _sent(self, rows: pa.RecordBatch, begins: bool, ends: bool) -> Any:
        with self.schemas.told_with(rows) as told:
            return self.call("put", PUT_S, bytes_of(rows), begins=begins, ends=ends, **told)

    def _note(self, found: Mapping[str, Any]) -> list[list[Any]]:
        """Keep the plugin's requests until the worker asks; return the records that it reports."""
        asked, kept = found["asked"], self._requests
        offsets = {TopicPartition(topic, number): offset for topic, number, offset in asked.get("offsets", ())}
        rests = {TopicPartition(*place): math.inf for place in asked.get("pause", ())}
        goes_on = {TopicPartition(*place): 0.0 for place in asked.get("resume", ())}
        self._requests = SinkRequests(
            {**kept.offsets, **offsets}, kept.commit or asked.get("commit", False), {**kept.rests, **rests, **goes_on}
        )
        failed: list[list[Any]] = asked.get("failed", [])
        return failed

    @staticmethod
    def _check_reports(failed: Sequence[Sequence[Any]]) -> None:
        """Raise for a report that arrives after its batch, too late for a dead letter. Errors: JavaError."""
        for topic, partition, offset, message, *_ in failed:
            raise JavaError(f"The plugin reported the record {offset} of {topic}-{partition} too late: {message}")


class _Putting:
    """Collects the rows of a batch, so that a retried batch is the same for the plugin."""

    def __init__(self, task: JavaSinkTask) -> None:
        self._task = task
        self._rows: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)

    def finish(self) -> bytes:
        if self._rows:
            self._task.put(self._rows)
        return b""

    def abort(self) -> None:
        self._rows.clear()


def _firsts(rows: pa.RecordBatch) -> list[tuple[TopicPartition, int]]:
    """Return each partition of origin with its first offset in these rows."""
    table = pa.Table.from_batches([rows.select(["origin_topic", "origin_partition", "offset"])])
    grouped = table.group_by(["origin_topic", "origin_partition"]).aggregate([("offset", "min")])
    return [(TopicPartition(one["origin_topic"], one["origin_partition"]), one["offset_min"])
            for one in grouped.to_pylist()]  # fmt: skip


def _failures(batch: Sequence[pa.RecordBatch], failed: Sequence[Sequence[Any]]) -> list[RecordFailure]:
    """Return the reported records by their rows in the batch. Errors: JavaError for one of an earlier batch."""
    origin = pa.Table.from_batches([rows.select(["origin_topic", "origin_partition", "offset"]) for rows in batch])
    found: dict[int, RecordFailure] = {}  # a record that was put again may be reported again
    for report in failed:
        is_it = pc.and_(
            pc.and_(pc.equal(origin["origin_topic"], report[0]), pc.equal(origin["origin_partition"], report[1])),
            pc.equal(origin["offset"], report[2]),
        )
        row = pc.index(is_it, True).as_py()
        if row < 0:
            JavaSinkTask._check_reports([report])
        found[row] = RecordFailure(row, report[3], stage=report[4], class_name=report[5])
    return list(found.values())
