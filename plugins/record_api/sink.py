"""Sinks that are given lists of records."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowWriter, Place, SinkTask, TaskContext
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError, StoppedError
from headrace.plugins.extensions import Effect, PreviewedSink
from headrace.plugins.numbered_schemas import numbered_columns, own_columns_only
from headrace.plugins.record_api.connector import RecordConnector
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.unpacking import each_record
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema


class RecordSinkTask(SinkTask, PreviewedSink):
    """Gives an author's `put` what comes, in a preview `would_write`."""

    author: ClassVar[type[RecordSink]]
    place = Place.WORKER_PROCESS

    plugin: RecordSink | None = None
    _runner: asyncio.Runner | None = None
    _is_preview = False

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Make the author's object and open it. Errors: those of `open`."""
        self.call(self._made(config, context).open)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Make the author's object, unopened."""
        self._is_preview = True
        self._made(config, context)

    def _made(self, config: Mapping[str, str], context: TaskContext) -> RecordSink:
        self.schemas: list[Schema | None] = []
        plugin = self.author()
        plugin.worker = context.worker
        plugin.take(config)
        plugin.stopping = context.stopping
        self.plugin = plugin
        return plugin

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

    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield the effects that `would_write` tells. Errors: as those of a writer; TypeError, ValueError."""
        effects: list[Effect] = []
        failures: list[RecordFailure] = []
        first = 0
        for rows in batches:
            failures += self.put_by(partial(self._tell, effects), rows, first)
            first += rows.num_rows
        yield from effects
        raise_failures(failures)

    def preview_notes(self) -> Sequence[str]:
        """Return that the plugin does not say what it writes, if so."""
        if self.author.would_write is not RecordSink.would_write:
            return ()
        return (f"Only {self.author.__name__} knows what it writes of these records: it has no method would_write.",)

    def put_by(
        self, put: Callable[[Sequence[Record], Sequence[int]], None], rows: pa.RecordBatch, first: int = 0
    ) -> list[RecordFailure]:
        """Hand the rows' records to `put`, with their indexes from `first` on; return those that failed.

        Errors: RecordsFailed that names no record; those of `put`.
        """
        assert self.plugin is not None
        failures: list[RecordFailure] = []
        records: list[tuple[int, Record]] = []
        for row, record in enumerate(each_record(rows, self.schemas, self.schemas), first):
            if isinstance(record, str):
                failures.append(RecordFailure(row, record))
            else:
                records.append((row, record))
        for begin in range(0, len(records), self.plugin.most_records):
            part = records[begin : begin + self.plugin.most_records]
            places = [row for row, _ in part]
            try:
                put([record for _, record in part], places)
            except RecordsFailed as error:
                if not error.failures:
                    raise
                failures += [one._replace(row=places[self._row("put", one.row, len(part))]) for one in error.failures]
        return sorted(failures, key=lambda one: one.row)

    def _tell(self, effects: list[Effect], records: Sequence[Record], places: Sequence[int]) -> None:
        assert self.plugin is not None
        with self._errors_of("would_write"):
            for one in self._answer(self.plugin.would_write, records):
                if not isinstance(one, Effect):
                    raise TypeError(f"{self.author.__name__}.would_write gives {one!r:.60}, which is no Effect")
                row = None if one.row is None else places[self._row("would_write", one.row, len(records))]
                effects.append(replace(one, row=row))

    def _row(self, method: str, row: Any, count: int) -> int:
        """Return the index among the records that the method was given. Errors: ValueError for none of them."""
        if not isinstance(row, int) or not 0 <= row < count:
            name = f"{self.author.__name__}.{method}"
            raise ValueError(f"{name} was given {count} records, and names number {row!r:.60}")
        return row

    def call(self, method: Any, *arguments: Any) -> None:
        """Call the author's method. Errors: RetriableError for those of `retriable`'s types, else its own."""
        with self._errors_of(method.__name__):
            self._answer(method, *arguments)

    def _answer(self, method: Any, *arguments: Any) -> Any:
        answer = method(*arguments)
        if inspect.isawaitable(answer):
            self._runner = self._runner or asyncio.Runner()
            answer = self._runner.run(_awaited(answer))
        return answer

    @contextmanager
    def _errors_of(self, method: str) -> Iterator[None]:
        try:
            yield
        except (RetriableError, RecordsFailed, StoppedError):
            raise
        except self.author.retriable as error:
            name = f"{self.author.__name__}.{method}"
            raise RetriableError(f"{name} failed: {type(error).__name__}: {error}") from error

    def stop(self) -> None:
        """Close the author's object."""
        try:
            if self.plugin is not None and not self._is_preview:
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

    def would_write(self, records: Sequence[Record]) -> Any:
        """Return, or yield, an `Effect` for each thing that `put` would do with these records; may be `async`.

        For previews: it must change nothing outside; `open` and `close` are not called. `Effect.row` is a record's
        index; records are refused as in `put`. By default the records, as `put` gets them.
        """
        return [Effect("put", type(self).__name__, _parts(record), row) for row, record in enumerate(records)]

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
        raise_failures(self._task.put_by(self._put, rows))

    def _put(self, records: Sequence[Record], _: Sequence[int]) -> None:
        self._task.call(self._plugin.put, records)

    def finish(self) -> bytes:
        """Flush. Errors: as `write`."""
        self._task.call(self._plugin.flush)
        return b""

    def abort(self) -> None:
        """Do nothing: what was put comes again."""


def raise_failures(failures: Sequence[RecordFailure]) -> None:
    """Raise for these records, if there are any. Errors: RecordsFailed."""
    if failures:
        raise RecordsFailed(f"{len(failures)} records failed, the first: {failures[0].message}", failures)


def _parts(record: Record) -> dict[str, Any]:
    return {"key": record.key, "value": record.value, "headers": record.headers, "timestamp": record.timestamp}


async def _awaited(answer: Any) -> Any:
    return await answer
