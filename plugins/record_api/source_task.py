"""The task of a source that yields records one by one."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.plugins.contracts import (
    ArrowReader,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import PacedSource, PreviewedSource, SourceProgress
from headrace.plugins.record_api.polling import END_S, LoopThread, Poller, Polling
from headrace.plugins.record_api.rows import OFFSET, Row, Rows
from headrace.plugins.records import ERROR, TRANSFORMATION, Records, error
from headrace.plugins.schema import Schema

if TYPE_CHECKING:
    from headrace.plugins.record_api.source import RecordSource

PARTITIONS: Final = "task.partitions"
_ANSWER_S: Final = 0.5
"""The time that the next `poll` after one that failed is waited for."""
_MOST_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = 64 << 10
"""Limits of what waits: of a task in all, and of each of its partitions at least."""
_BATCH_ROWS: Final = 5_000


class RecordSourceTask(SourceTask, PacedSource, SourceProgress, PreviewedSource):
    """Moves what an author's `poll` yields."""

    author: ClassVar[type[RecordSource]]
    place = Place.WORKER_PROCESS
    offset_type = OFFSET
    _loop: LoopThread | None = None
    _plugin: RecordSource | None = None
    _turn: int = -1

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Make the author's object and open it. Errors: those of `open`."""
        self._partitions: list[SourcePartition] = json.loads(config.get(PARTITIONS, "[{}]"))
        self._pollers: list[Poller | None] = [None for _ in self._partitions]
        self._taken: list[tuple[int, list[Row], SourceOffset | None]] = []
        self._problem: Exception | None = None
        """The error of a `poll` that is not told yet: batches that came before it go first."""
        self._unacknowledged: list[tuple[SourceOffset | None, SourcePartition]] = []
        self._name = f"poll-{context.connector}-{context.task}"
        plugin = self.author()
        plugin.worker = context.worker
        plugin.take(config)
        plugin.stopping = context.stopping
        plugin.wake_pollers = self._wake
        self._topic: str | None = plugin.config.get("topic")
        self._rows = Rows(plugin.key_schema, plugin.value_schema, self._topic)
        self.row_type = self._rows.type
        self._polling = Polling(
            self._rows.row,
            plugin.poll_interval_s,
            context.wake,
            max(_MOST_BYTES // max(1, len(self._partitions)), _LEAST_BYTES),
            context.in_transactions,
        )
        if _is_async(plugin.poll):
            self._loop = LoopThread(self._name)
        self._plugin = plugin
        try:
            self._call(plugin.open)
        except Exception as problem:
            self._raise(problem, "open")

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As `start`, with all partitions, if the author says that `poll` only reads."""
        if not self.author.only_reads:
            name = self.author.__name__
            raise NotImplementedError(f"{name} does not say that its poll changes nothing outside (only_reads = True)")
        asked = self.author()
        asked.take(config)
        self.start({**config, PARTITIONS: f"[{','.join(asked.partition_texts())}]"}, context)

    def topics(self) -> Sequence[str]:
        """Return the setting `topic`, if there is one."""
        return () if self._topic is None else (self._topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the task's partitions."""
        return self._partitions

    @property
    def tells_of_news(self) -> bool:
        """True."""
        return True

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return what was polled since the last batch.

        Errors: those of `stored`; those of `poll`, once all before them was sent.
        """
        self._acknowledge()
        self._taken, splits = [], []
        rows = size = 0
        for number in self._in_turn() if self._problem is None else ():
            offset = after[number]
            poller = self._poller(number, offset)
            if poller is None or rows >= limit.rows or size >= limit.bytes:
                continue
            try:
                taken = poller.take(limit.rows - rows, limit.bytes - size)
            except Exception as error:
                self._problem = self._problem or error
                poller.stop()
                continue
            if taken:
                self._taken.append((number, taken, offset))
                splits.append(Split(poller.partition, offset, None))
                rows, size = rows + len(taken), size + sum(row.data for row in taken)
        if splits:
            return Plan(tuple(splits), rows, size)
        if self._problem is not None:
            problem, self._problem = self._problem, None
            self._raise(problem, "poll")
        return None

    def _in_turn(self) -> Sequence[int]:
        """Return the partitions, each time from the next one on, so that a busy one does not hold up the others."""
        count = len(self._partitions)
        self._turn += 1
        return [(self._turn + number) % count for number in range(count)]

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of what was polled."""
        return _Reader(self._rows, [rows for _, rows, _ in self._taken])

    def records(self, frame: DataFrame) -> Records:
        """Make records of the rows, each with the schema of its kind."""
        failed = error(TRANSFORMATION, self.author.__name__, F.col("failure"))
        kept = [F.col(name) for name in frame.columns if name != "failure"]
        rows = frame.select(*kept, failed.cast(ERROR).alias("error"), F.lit(False).alias("drop"))
        return Records(rows, self._rows.keys.schemas, self._rows.values.schemas)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Poll again what did not arrive."""
        whole = [one.source_partition for one in reached if one.stop is None]
        for number, _, _ in self._taken:
            if self._partitions[number] not in whole:
                self._drop(number)
        self._taken = []

    def undelivered(self) -> None:
        """Send the last batch again; it is not polled again, for it may fail often while Spark starts."""
        for number, rows, after in self._taken:
            if (poller := self._pollers[number]) is not None and not poller.is_stopped:
                poller.give_back(rows, after)
        self._taken = []

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the author's offset, if one was reached."""
        text = (reached.source_offset or {}).get("json")
        if reached.source_partition is None or text is None:
            return ()
        return ((reached.source_partition, json.loads(text)),)

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Tell the author's `stored`. Errors: its own."""
        if self.author.overrides("stored"):
            for one in reached:
                self._unacknowledged += [(offset, partition) for partition, offset in self.offsets_reached(one)]
            self._acknowledge()

    def _acknowledge(self) -> None:
        while self._unacknowledged:
            offset, partition = self._unacknowledged[0]
            arguments = (offset, partition) if self.author.overrides("partitions") else (offset,)
            try:
                self._call(partial(self.plugin.stored, *arguments))
            except Exception as problem:
                self._raise(problem, "stored")
            del self._unacknowledged[0]

    @property
    def plugin(self) -> RecordSource:
        """The author's object, once `start` made it."""
        assert self._plugin is not None
        return self._plugin

    @property
    def schemas(self) -> tuple[Sequence[Schema | None], Sequence[Schema | None]]:
        """The schemas of keys and of values, by the numbers of their columns."""
        return self._rows.keys.schemas, self._rows.values.schemas

    def abandon(self) -> None:
        """Poll no more, as after a crash: nothing of the author's is closed."""
        for number in range(len(self._pollers)):
            self._drop(number)

    def stop(self) -> None:
        """End the pollers and close the author's object."""
        if self._plugin is None:
            return
        pollers = [one for one in self._pollers if one is not None]
        for poller in pollers:
            poller.stop()
        until = time.monotonic() + END_S
        for poller in pollers:
            poller.is_done.wait(max(0.0, until - time.monotonic()))
        try:
            self._call(self._plugin.close)
        finally:
            if self._loop is not None:
                self._loop.end()

    # -- pollers -------------------------------------------------------------------------------------------------------

    def _poller(self, number: int, after: SourceOffset | None) -> Poller | None:
        """Return the poller that goes on after this offset; None while an older one has not left the author's code."""
        poller = self._pollers[number]
        if poller is not None and not poller.is_stopped and poller.expected != after:
            poller.stop()
        if poller is None or (poller.is_stopped and poller.is_done.is_set()):
            has_failed = poller is not None and poller.has_failed
            poller = self._pollers[number] = self._started(self._partitions[number], after)
            if has_failed:  # a plan before the next failure would pass for success
                poller.has_answered.wait(_ANSWER_S)
        return None if poller.is_stopped else poller

    def _started(self, partition: SourcePartition, after: SourceOffset | None) -> Poller:
        assert self._plugin is not None
        poll: Any = self._plugin.poll
        if self.author.overrides("partitions"):
            poll = _with_partition(poll, partition)
        poller = Poller(poll, partition, after, self._polling)
        if self._loop is None:
            poller.start(self._name)
        else:
            poller.start_in(self._loop.loop)
        return poller

    def _drop(self, number: int) -> None:
        poller = self._pollers[number]
        if poller is not None:
            poller.stop()

    def _wake(self) -> None:
        for poller in self._pollers:
            if poller is not None:
                poller.wake()

    def _raise(self, problem: Exception, method: str) -> NoReturn:
        """Raise a RetriableError for one of the author's `retriable`, else the error itself."""
        if isinstance(problem, self.author.retriable) and not isinstance(problem, RetriableError):
            text = f"{self.author.__name__}.{method} failed: {type(problem).__name__}: {problem}"
            raise RetriableError(text) from problem
        raise problem

    def _call(self, method: Any) -> None:
        answer = method()
        if inspect.isawaitable(answer):
            (self._loop or asyncio).run(_awaited(answer))


def _is_async(poll: Any) -> bool:
    return inspect.iscoroutinefunction(poll) or inspect.isasyncgenfunction(poll)


async def _awaited(answer: Any) -> None:
    await answer


class _Reader:
    """Yields the rows of a plan."""

    def __init__(self, rows: Rows, splits: Sequence[Sequence[Row]]) -> None:
        self._rows, self._splits = rows, splits

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield some thousand rows at a time."""
        rows = self._splits[split]
        for first in range(0, len(rows), _BATCH_ROWS):
            yield self._rows.batch(rows[first : first + _BATCH_ROWS])


def _with_partition(poll: Any, partition: SourcePartition) -> Any:
    return lambda after: poll(after, partition)
