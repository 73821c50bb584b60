"""Sources that yield records one by one."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.plugins.contracts import (
    ArrowReader,
    Connector,
    ConnectorContext,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    StopToken,
    TaskContext,
)
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.extensions import PacedSource, SourceProgress
from headrace.plugins.record_api.packing import MISFITS, NOTHING, Side
from headrace.plugins.record_api.polling import Poller, Row
from headrace.plugins.record_api.settings import Setting, declared, parsed
from headrace.plugins.records import ERROR, TRANSFORMATION, Records, error

log = logging.getLogger(__name__)

_PARTITIONS: Final = "task.partitions"
_END_S: Final = 1.0
"""How long the end waits for an author's code."""


class RecordSource(Connector):
    """A source whose `poll` yields what is new.

        class Prices(RecordSource):
            settings = [Setting("url"), Setting("topic")]

            def poll(self, after):
                for price in httpx.get(self.config["url"], params=after or {"id": 0}).json():
                    yield Record(price, key=price["id"], offset={"id": price["id"]})

    `poll` is called again at once if its offsets went on, else after `poll_interval_s`. One object polls in each task;
    another one answers `partitions` and `validate`. An error of `retriable`'s types is tried again with back-off, from
    the offset stored last; any other fails the task.
    """

    settings: ClassVar[Any] = ()
    """A list of `Setting`."""
    version: ClassVar[str] = "undefined"
    value_schema: ClassVar[Any] = None
    """What `schema_of` takes, such as a dataclass; None: each value is what it is, dicts as JSON without schema."""
    key_schema: ClassVar[Any] = None
    """As `value_schema`, of keys."""
    poll_interval_s: ClassVar[float] = 1.0
    """The pause after a `poll` that brought nothing new; `wake` ends it."""
    retriable: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """Errors after which the outside system may be there again."""

    config: Mapping[str, Any]
    """The values of `settings`, parsed."""
    stopping: StopToken
    """Set once the task has to end; wait by `self.stopping.wait(seconds)`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if not isinstance(cls.settings, Settings):
            cls.settings = declared(cls.settings)
        cls.task_class = f"{cls.__module__}.{cls.__name__}"
        cls.task = type(f"{cls.__name__}Task", (RecordSourceTask,), {"author": cls})

    @abstractmethod
    def poll(self, *arguments: Any, **named: Any) -> Any:
        """Yield the records after an offset: `poll(after)`, or `poll(after, partition)` beside a `partitions`.

        `after` is the offset of the last record before them, None at first. May be a generator, return a list, or be
        either as `async def`; may block.
        """

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the parts of the outside system, each with offsets of its own; the tasks share them."""
        return [{}]

    def open(self) -> Any:
        """Connect, before the first `poll` of a task; may be `async`."""

    def close(self) -> Any:
        """Close what `open` opened, also if a `poll` still blocks; may be `async`."""

    def wake(self) -> None:
        """Have `poll` called now; any thread may call."""
        self._wake_pollers()

    _wake_pollers: Any = staticmethod(lambda: None)

    # -- the contract's side -------------------------------------------------------------------------------------------

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config. Errors: ConfigError with all problems."""
        self.config = parsed(type(self).settings, config)
        self._given = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a config for each task, which names its partitions."""
        found = list(self.partitions())
        count = min(max_tasks, len(found))
        return [self._given | {_PARTITIONS: json.dumps(found[task::count])} for task in range(count)]

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """Say whether its records can come once each: if each has an offset, which is checked as they come."""
        return True


class RecordSourceTask(SourceTask, PacedSource, SourceProgress):
    """Moves what an author's `poll` yields."""

    author: ClassVar[type[RecordSource]]
    place = Place.WORKER_PROCESS
    offset_type = pa.struct([("json", pa.string())])

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Make the author's object and open it."""
        author = self.author()
        author.config = parsed(type(author).settings, config)
        author.stopping = context.stopping
        author._wake_pollers = self._wake
        self._author, self._context = author, context
        self._keys, self._values = Side(author.key_schema), Side(author.value_schema)
        self.row_type = _row_type(self._keys, self._values)
        self._topic: str | None = author.config.get("topic")
        self._partitions: list[SourcePartition] = json.loads(config.get(_PARTITIONS, "[{}]"))
        self._takes_partition = type(author).partitions is not RecordSource.partitions
        self._pollers: list[Poller | None] = [None for _ in self._partitions]
        self._taken: list[tuple[int, list[Row]]] = []
        poll = type(author).poll
        is_async = inspect.iscoroutinefunction(poll) or inspect.isasyncgenfunction(poll)
        self._loop = _LoopThread(context.connector) if is_async else None
        self._call(author.open)

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
        """Return what was polled since the last batch. Errors: those of `poll`."""
        self._taken, splits = [], []
        rows, size, problem = 0, 0, None
        for number, offset in enumerate(after):
            poller = self._poller(number, offset)
            if poller is None or rows >= limit.rows or size >= limit.bytes:
                continue
            try:
                taken = poller.take(limit.rows - rows, limit.bytes - size)
            except Exception as error:
                problem = error
                self._drop(number)
                continue
            if taken:
                self._taken.append((number, taken))
                splits.append(Split(poller.partition, offset, None))
                rows, size = rows + len(taken), size + sum(row.size for row in taken)
        if problem is not None and not splits:
            self._raise(problem)
        return Plan(tuple(splits), rows, size) if splits else None

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of what was polled."""
        return _Reader(self, [rows for _, rows in self._taken])

    def records(self, frame: DataFrame) -> Records:
        """Make records of the rows, each with the schema of its kind."""
        failed = error(TRANSFORMATION, self.author.__name__, F.col("failure"))
        kept = [F.col(name) for name in frame.columns if name != "failure"]
        rows = frame.select(*kept, failed.cast(ERROR).alias("error"), F.lit(False).alias("drop"))
        return Records(rows, self._keys.schemas, self._values.schemas)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Poll again what did not arrive."""
        whole = [one.source_partition for one in reached if one.stop is None]
        for number, _ in self._taken:
            if self._partitions[number] not in whole:
                self._drop(number)
        self._taken = []

    def undelivered(self) -> None:
        """Poll all of the last batch again."""
        for number, _ in self._taken:
            self._drop(number)
        self._taken = []

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the author's offset, if one was reached."""
        text = (reached.source_offset or {}).get("json")
        if reached.source_partition is None or text is None:
            return ()
        return ((reached.source_partition, json.loads(text)),)

    def stop(self) -> None:
        """End the pollers and close the author's object."""
        pollers = [one for one in getattr(self, "_pollers", ()) if one is not None]
        for poller in pollers:
            poller.stop()
        until = time.monotonic() + _END_S
        for poller in pollers:
            poller.is_done.wait(max(0.0, until - time.monotonic()))
        if hasattr(self, "_author"):
            self._call(self._author.close)
            if self._loop is not None:
                self._loop.end()

    # -- rows ----------------------------------------------------------------------------------------------------------

    def batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Return these rows as the reader yields them.

        Errors: DataError for one without a topic or, exactly once, without an offset.
        """
        try:
            return self._batch(rows)
        except MISFITS:
            return self._batch([self._checked(row) for row in rows])

    def _checked(self, row: Row) -> Row:
        why = self._keys.misfit(row.key) or self._values.misfit(row.value)
        return row if why is None else row._replace(key=NOTHING, value=NOTHING, failure=why)

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        records = [row.record for row in rows]
        columns = [
            pa.array([self._topic_of(one.topic) for one in records], pa.string()),
            pa.array([one.partition for one in records], pa.int32()),
            pa.array([_milliseconds(one.timestamp) for one in records], pa.int64()),
            pa.array([_headers(one.headers) for one in records], _HEADERS),
            *self._keys.columns([row.key for row in rows]),
            *self._values.columns([row.value for row in rows]),
            pa.array([row.failure for row in rows], pa.string()),
            pa.array([self._offset_of(row) for row in rows], _OFFSET),
        ]
        return pa.RecordBatch.from_arrays(columns, names=[*self.row_type.names, "source_offset"])

    def _topic_of(self, topic: str | None) -> str:
        found = topic or self._topic
        if found is None:
            raise DataError(f"{self.author.__name__} yielded a record without a topic, and has no setting `topic`")
        return found

    def _offset_of(self, row: Row) -> tuple[str | None]:
        if row.offset is None and self._context.in_transactions:
            raise DataError(f"{self.author.__name__} yielded a record without an offset; exactly once each needs one")
        return (row.offset,)

    # -- pollers -------------------------------------------------------------------------------------------------------

    def _poller(self, number: int, after: SourceOffset | None) -> Poller | None:
        """The poller of a partition, which goes on after this offset; None while an older one has not ended."""
        poller = self._pollers[number]
        if poller is not None and poller.expected != after:
            self._drop(number)
            poller = None
        if poller is not None and not poller.is_stopped:
            return poller
        if poller is not None and not poller.is_done.is_set():
            return None
        self._pollers[number] = poller = self._polling(self._partitions[number], after)
        return poller

    def _polling(self, partition: SourcePartition, after: SourceOffset | None) -> Poller:
        author = self._author
        poll = partial(_with_partition, author.poll, partition) if self._takes_partition else author.poll
        poller = Poller(poll, partition, after, self._keys, self._values, author.poll_interval_s, self._context.wake)
        if self._loop is not None:
            self._loop.start(poller.run_async())
        else:
            name = f"poll-{self._context.connector}-{self._context.task}"
            threading.Thread(target=poller.run, name=name, daemon=True).start()
        return poller

    def _drop(self, number: int) -> None:
        poller = self._pollers[number]
        if poller is not None:
            poller.stop()

    def _wake(self) -> None:
        for poller in filter(None, self._pollers):
            poller.wake()

    def _raise(self, problem: Exception) -> None:
        if isinstance(problem, self._author.retriable) and not isinstance(problem, RetriableError):
            raise RetriableError(
                f"{self.author.__name__}.poll failed: {type(problem).__name__}: {problem}"
            ) from problem
        raise problem

    def _call(self, method: Any) -> None:
        answer = method()
        if inspect.isawaitable(answer):
            (self._loop or asyncio).run(answer)


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, connector: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name=f"poll-{connector}", daemon=True).start()

    def start(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Any) -> None:
        """Wait for what it does. Errors: its own."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class _Reader:
    """Yields the rows of a plan."""

    def __init__(self, task: RecordSourceTask, splits: Sequence[Sequence[Row]]) -> None:
        self._task, self._splits = task, splits

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield some thousand rows at a time."""
        rows = self._splits[split]
        for first in range(0, len(rows), 5_000):
            yield self._task.batch(rows[first : first + 5_000])


_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OFFSET: Final = pa.struct([("json", pa.string())])


def _row_type(keys: Side, values: Side) -> pa.Schema:
    row = [("topic", pa.string()), ("partition", pa.int32()), ("timestamp", pa.int64()), ("headers", _HEADERS)]
    for name, side in (("key", keys), ("value", values)):
        row.append((f"{name}_schema", pa.int32()))
        row += [(f"{name}_{number}", of) for number, of in enumerate(side.types)]
    return pa.schema([*row, ("failure", pa.string())])


def _milliseconds(moment: int | datetime | None) -> int | None:
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    return moment


def _headers(headers: Any) -> list[tuple[str, bytes | None]] | None:
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def _with_partition(poll: Any, partition: SourcePartition, after: SourceOffset | None) -> Any:
    return poll(after, partition)


__all__ = ["RecordSource", "RecordSourceTask", "Setting"]
