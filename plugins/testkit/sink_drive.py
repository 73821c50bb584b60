"""A sink's outside system as its author describes it, and a drive that writes rows as the worker does."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.contracts import ArrowWriter, Connector, Place, SinkTask, TopicPartition
from headrace.plugins.errors import RecordsFailed
from headrace.plugins.extensions import Effect, PartitionedSink, PreviewedSink, extension
from headrace.plugins.numbered_schemas import numbers_among
from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.sink import RecordSinkTask
from headrace.plugins.schema import Schema
from headrace.plugins.testkit.driving import HOSTILE, Started, start_tasks, survived
from headrace.plugins.testkit.frames import TOPIC, Columns, columns_of, own_columns
from headrace.plugins.testkit.outside import Outside
from headrace.plugins.testkit.promises import holds

_ROWS: Final = 10_000
"""The worker's inline batches have so many rows at most."""


class SinkRig(ABC):
    """The outside system of a sink under test, empty at first."""

    worker: Mapping[str, Any] = {}
    """Worker settings that the task may read."""
    hostile: Sequence[str] = HOSTILE
    many: int = 50_000
    """More rows than any page or buffer of the sink."""
    outside: Outside
    """Fails on command; `SinkFaultsContract` needs it."""

    @abstractmethod
    def connector(self) -> Connector:
        """Return a new connector object."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's config."""

    @abstractmethod
    def contents(self) -> list[Any]:
        """Return the values in the outside system, in its order; asked there, not in the plugin."""

    def state(self) -> Any:
        """Return all outside that a preview must leave as it is; by default `contents`."""
        return self.contents()

    def previewed(self, effects: Sequence[Effect]) -> list[Any]:
        """Return the values that these effects would write, as `contents`; for `PreviewedSinkContract`."""
        raise NotImplementedError(f"{type(self).__name__} has no method previewed(effects)")

    def record(self, value: Any, number: int) -> Record:
        """Return the record of this value, a text, for a RecordSink; `number` is its offset.

        Each value has a key of its own, so that a sink that writes by key keeps all of them; a value that comes twice
        in a test has two, as its offsets differ.
        """
        return Record(value, key=f"{number} {value}")

    def rows(self, values: Sequence[Any]) -> pa.RecordBatch:
        """Return these values as the task's `columns` would pass them to a writer; not needed for a RecordSink."""
        raise NotImplementedError(f"{type(self).__name__} has no method rows(values)")


class SinkDrive:
    """Drives a sink's task as the worker does."""

    def __init__(self, rig: SinkRig, position: int = 0, *, is_preview: bool = False) -> None:
        self.rig = rig
        self.position = position
        """The offset that Kafka would have committed."""
        self.mixes_schemas = False
        """For a RecordSink: True gives every other record a schema of its own."""
        self._attempts = 0
        self._is_preview = is_preview
        self._running = self._started()

    @property
    def task(self) -> SinkTask:
        """The task that runs."""
        task: SinkTask = self._running.task
        return task

    def restart(self) -> None:
        """Start another task in place of a crashed one, which is left as it stands."""
        self._running = self._started()

    def end(self) -> None:
        """End the task as the worker does."""
        self._running.end()

    def writer(self) -> ArrowWriter:
        """Return a writer as the worker would run it: pickled unless in the worker process."""
        self._attempts += 1
        writer = self.task.writer(f"attempt-{self._attempts}")
        return writer if self.task.place is Place.WORKER_PROCESS else pickle.loads(pickle.dumps(writer))

    # -- batches -------------------------------------------------------------------------------------------------------

    def rows(self, values: Sequence[Any], first: int | None = None) -> pa.RecordBatch:
        """Return these values as a writer gets them, the first one with this offset."""
        if not isinstance(self.task, RecordSinkTask):
            return self.rig.rows(values)
        offset = self.position if first is None else first
        made = [
            value if isinstance(value, Record) else self.rig.record(value, number)
            for number, value in enumerate(values, offset)
        ]
        return record_rows(self.task, made, offset, self.mixes_schemas)

    def run(self, values: Sequence[Any], upto: str = "commit") -> None:
        """Write a batch of these values as two record batches, up to and including the step `upto`."""
        writer = self.writer()
        half = len(values) // 2
        writer.write(self.rows(values[:half]))
        if upto == "half":
            return
        writer.write(self.rows(values[half:], self.position + half))
        if upto == "write":
            return
        if upto == "abort":
            writer.abort()
            return
        part = writer.finish()
        if upto == "commit":
            self.task.commit([part])
            self.position += len(values)

    def put(self, values: Sequence[Any], rows: int = _ROWS) -> list[Any]:
        """Write a batch, so many rows at once, as the worker does; return the values that the sink names as bad.

        If it names none of them, ever smaller parts are tried. Errors: those of the sink, once the batch is given up.
        """
        bad = self._written(list(enumerate(values)), rows)
        self.position += len(values)
        return [values[number] for number in sorted(bad)]

    def survive(self, values: Sequence[Any]) -> list[Exception]:
        """Write a batch; after an error go on as the worker does, or its operator. Return the errors."""

        def run() -> None:
            bad = self.put(values)
            holds(not bad, "a failure of the whole system is none of single records", f"it was said of {bad}")

        return survived(run, lambda: None, self.restart)

    def _written(self, numbered: Sequence[tuple[int, Any]], most: int) -> set[int]:
        """Write these values, each with its place in the batch; return the places of those that are bad."""
        writer, bad, got = self.writer(), set[int](), list[int]()
        try:
            for first in range(0, len(numbered), most):
                part = numbered[first : first + most]
                places = [place for place, _ in part]
                got += places
                rows = self.rows([value for _, value in part], self.position + places[0])
                bad |= _named(partial(writer.write, rows), places)[1]
            answer, late = _named(writer.finish, got)
        except RecordsFailed:
            writer.abort()
            if len(numbered) < 2:
                return {place for place, _ in numbered}
            half = len(numbered) // 2
            return self._written(numbered[:half], most) | self._written(numbered[half:], most)
        except BaseException:
            writer.abort()
            raise
        self.task.commit([answer])
        return bad | late

    def preview(self, values: Sequence[Any]) -> list[Effect]:
        """Return what the task of a preview says of these values. Errors: those of the task."""
        assert isinstance(self.task, PreviewedSink)
        return list(self.task.preview([self.rows(values)]))

    def _started(self) -> Started:
        started = start_tasks(self.rig.connector(), self.rig.config(), self.rig.worker, is_preview=self._is_preview)
        holds(len(started) == 1, "with tasks.max=1 there is one task", f"it made {len(started)}")
        holds(isinstance(started[0].task, SinkTask), "a sink's task is a SinkTask")
        if not self._is_preview:
            extension(started[0].task, PartitionedSink).open([TopicPartition(TOPIC, 0)])
        return started[0]


def _named(call: Callable[[], bytes | None], places: Sequence[int]) -> tuple[bytes, set[int]]:
    """Return what the writer answers, and the places of the rows that it names. Errors: RecordsFailed without names."""
    try:
        return call() or b"", set()
    except RecordsFailed as error:
        if not error.failures:
            raise
        rows = [one.row for one in error.failures]
        outside = [row for row in rows if not 0 <= row < len(places)]
        holds(not outside, "RecordsFailed names rows of its call", f"it names {outside} of {len(places)} rows")
        return error.part, {places[row] for row in rows}


def record_rows(
    task: RecordSinkTask, records: Sequence[Record], first: int, mixes_schemas: bool = False
) -> pa.RecordBatch:
    """Return records as the writer of a RecordSink gets them, with offsets from `first` on."""
    columns = own_columns(records, first)
    columns |= _side(task, "key", columns_of([one.key for one in records]))
    values = [one.value for one in records]
    columns |= _side(task, "value", columns_of(values, _schema_of(values) if mixes_schemas else None, every=2))
    return pa.RecordBatch.from_pydict(columns)


def _side(task: RecordSinkTask, side: str, columns: Columns) -> dict[str, pa.Array]:
    """Name columns by the numbers that the task knows their schemas by."""
    numbers = numbers_among(task.schemas, columns.schemas)
    of_rows = [None if number is None else numbers[number] for number in columns.arrays[0].to_pylist()]
    named = {f"{side}_{number}": array for number, array in zip(numbers, columns.arrays[1:], strict=True)}
    return {f"{side}_schema": pa.array(of_rows, pa.int32()), **named}


def _schema_of(values: Sequence[Any]) -> Schema | None:
    """Return a schema of these values other than that of values without a declared one; None if they have none."""
    try:
        return replace(schema_of(pa.infer_type(values)), optional=True)
    except (pa.ArrowException, TypeError):
        return None
