"""Sinks that are given lists of records."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError, StoppedError
from headrace.plugins.numbered_schemas import numbered_columns, own_columns_only
from headrace.plugins.record_api.connector import RecordConnector
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.unpacking import each_record
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema


class RecordSinkTask(SinkTask):
    """Gives an author's `put` what comes."""

    author: ClassVar[type[RecordSink]]
    place = Place.WORKER_PROCESS

    plugin: RecordSink | None = None
    _runner: asyncio.Runner | None = None

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Make the author's object and open it. Errors: those of `open`."""
        self.schemas: list[Schema | None] = []
        plugin = self.author()
        plugin.take(config)
        plugin.stopping = context.stopping
        self.plugin = plugin
        self.call(plugin.open)

    def columns(self, records: Records) -> list[Column]:
        """Return all of a record; the columns of keys and values bear the number of their schema in `schemas`."""
        own = [F.col("topic"), F.col("partition"), F.col("_offset").alias("offset")]
        keys = numbered_columns("key", records.keys, self.schemas, own_columns_only("key", records.key))
        values = numbered_columns("value", records.values, self.schemas, own_columns_only("value", records.value))
        return [*own, F.col("timestamp"), F.col("headers"), *keys, *values]

    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer for one batch."""
        assert self.plugin is not None
        return _Writer(self, self.plugin)

    def call(self, method: Any, *arguments: Any) -> None:
        """Call the author's method. Errors: RetriableError for those of `retriable`'s types, else its own."""
        try:
            answer = method(*arguments)
            if inspect.isawaitable(answer):
                self._runner = self._runner or asyncio.Runner()
                self._runner.run(_awaited(answer))
        except (RetriableError, RecordsFailed, StoppedError):
            raise
        except self.author.retriable as error:
            name = f"{self.author.__name__}.{method.__name__}"
            raise RetriableError(f"{name} failed: {type(error).__name__}: {error}") from error

    def stop(self) -> None:
        """Close the author's object."""
        try:
            if self.plugin is not None:
                self.call(self.plugin.close)
        finally:
            if self._runner is not None:
                self._runner.close()


class RecordSink(RecordConnector):
    """A sink whose `put` writes records.

        class Alerts(RecordSink):
            settings = [Setting("url")]

            def put(self, records):
                for record in records:
                    httpx.post(self.config["url"], json=record.value).raise_for_status()

    Records that cannot be written are named by `RecordsFailed({index: reason})`; all others of that call count as
    written. An error of `retriable`'s types has the whole batch come again, with back-off; any other fails the task. A
    record's value has Python's types: a dict for a struct, a datetime for a Timestamp, None for a tombstone; what is
    without schema is as `json.loads` makes it.
    """

    most_records: ClassVar[int] = 10_000
    """The most records that `put` is given at once."""
    task: ClassVar[type] = RecordSinkTask

    @abstractmethod
    def put(self, records: Sequence[Record]) -> Any:
        """Write these records, in order of each partition; may be `async`. They may have been given before."""

    def flush(self) -> Any:
        """Make durable all that was `put` since the last call; its offsets are committed after it. May be `async`."""

    def close(self) -> Any:
        """Close what `open` opened; may be `async`."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """True: Kafka's offsets are all it has."""
        return True


class _Writer:
    """Puts a batch's rows, and flushes at its end."""

    def __init__(self, task: RecordSinkTask, plugin: RecordSink) -> None:
        self._task, self._plugin = task, plugin

    def write(self, rows: pa.RecordBatch) -> None:
        """Put these rows. Errors: RecordsFailed, with rows of this call; RetriableError."""
        failures: list[RecordFailure] = []
        records: list[tuple[int, Record]] = []
        for row, record in enumerate(each_record(rows, self._task.schemas, self._task.schemas)):
            if isinstance(record, str):
                failures.append(RecordFailure(row, record))
            else:
                records.append((row, record))
        for first in range(0, len(records), self._plugin.most_records):
            part = records[first : first + self._plugin.most_records]
            try:
                self._task.call(self._plugin.put, [record for _, record in part])
            except RecordsFailed as error:
                if not error.failures:
                    raise
                failures += [one._replace(row=part[self._row(one, len(part))][0]) for one in error.failures]
        if failures:
            failures.sort(key=lambda one: one.row)
            raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)

    def finish(self) -> bytes:
        """Flush. Errors: as `write`."""
        self._task.call(self._plugin.flush)
        return b""

    def abort(self) -> None:
        """Do nothing: what was put comes again."""

    def _row(self, failure: RecordFailure, count: int) -> int:
        """Return the index of a failure among the records of its `put`. Errors: ValueError for one that has none."""
        if not isinstance(failure.row, int) or not 0 <= failure.row < count:
            name = f"{type(self._plugin).__name__}.put"
            raise ValueError(f"{name} was given {count} records, and says that number {failure.row!r:.60} failed")
        return failure.row


async def _awaited(answer: Any) -> None:
    await answer
