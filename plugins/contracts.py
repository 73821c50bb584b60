"""The contracts that connectors, converters and transforms fulfil; the shipped ones use nothing else of ours.

A task is a loop over bounded batches. The worker decides where a batch runs, inline (in the worker process) or as a job
(in Spark's executors), within the task's `place`; the code is the same: readers and writers touch the outside system
and take and give Arrow record batches, Spark Column expressions change values.

    source:  plan -> reader -> records() -> (transforms, converters) -> Kafka -> delivered() -> committed()
    sink:    open -> Kafka -> (converters, transforms) -> columns() -> writer -> commit() -> pre_commit()

Errors, wherever a hook says nothing else:

    RetriableError      the worker tries again, with back-off; in `start` the task fails and restarts by itself
    LoginRefused        the task fails, and starts anew by itself with what the config's variables are then
    RecordsFailed       a sink's writer names the records that it cannot write
    DataError           the record cannot be processed: it is dead-lettered, or fails the task
    ConfigError         the config is refused, or fails the task, with the setting's name
    StoppedError        the task was asked to end meanwhile; no failure
    anything else       the task fails, and says so in its status

"The task's thread" is one thread that a task has to itself. Hooks that only build expressions run seldom, once for each
new combination of schemas and Spark session; they never see a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.providers import ConfigProvider, Provided
from headrace.config.settings import Problem, Settings
from headrace.plugins.errors import (
    DataError,
    LoginRefused,
    RecordFailure,
    RecordsFailed,
    RetriableError,
    StoppedError,
)
from headrace.plugins.jars import NO_JAVA_STAGE, JavaStage
from headrace.plugins.offsets import (
    Deliveries,
    Delivery,
    PartitionResult,
    SourceOffset,
    SourcePartition,
    Stop,
    TopicPartition,
    TransactionEnd,
)
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample
from headrace.plugins.schema import Schema
from headrace.plugins.stopping import StopToken

__all__ = [
    "ArrowReader",
    "ArrowWriter",
    "BufferingSink",
    "ConfigProvider",
    "Connector",
    "ConnectorContext",
    "Converter",
    "CopyingReader",
    "DataError",
    "Decoded",
    "Deliveries",
    "Delivery",
    "Encoded",
    "Finding",
    "FrameReader",
    "GroupMember",
    "HeaderConverter",
    "InterruptedBy",
    "Limit",
    "LoginRefused",
    "PartitionResult",
    "Place",
    "Plan",
    "Plugin",
    "Predicate",
    "Provided",
    "RecordFailure",
    "RecordsFailed",
    "RetriableError",
    "RowsOfSeveralTypes",
    "Sample",
    "SinkRequests",
    "SinkTask",
    "SourceOffset",
    "SourcePartition",
    "SourceTask",
    "Split",
    "Stop",
    "StopToken",
    "StoppedError",
    "TaskContext",
    "TopicEncoding",
    "TopicPartition",
    "TransactionEnd",
    "Transform",
    "uninterrupted",
]


class Plugin(ABC):
    """The two things that every plugin class declares; a class without them is refused when it is loaded."""

    settings: ClassVar[Settings]
    """Its settings, once: validation, documentation and masking follow from them."""
    version: ClassVar[str]
    """As `GET /connector-plugins` and statuses show it."""
    undeclared: ClassVar[tuple[str, ...]] = ()
    """How settings begin that it reads though `settings` does not declare them; of others a warning is logged."""


# -- connectors --------------------------------------------------------------------------------------------------------


class ConnectorContext(Protocol):
    """A connector's way to reach its worker; any thread may call, nothing blocks."""

    def reconfigure(self) -> None:
        """Ask for `task_configs` to be called again, soon; tasks restart if their configs changed."""

    def fail(self, error: Exception) -> None:
        """Put the connector into FAILED with this error; its tasks go on."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        """The stored offsets of these partitions of a source, in their order, as this worker knows them."""


class Finding(NamedTuple):
    """One result of `Connector.diagnose`: a thing that the connector needs, and its state."""

    what: str
    good: bool | None
    """None: it works, but an operator should know."""
    found: str
    advice: str = ""


class Connector(Plugin):
    """Splits the work into tasks; lives on one worker and sees no record.

    `validate`, `recommended` and `check_offsets` are called on objects of their own, on threads of REST, several at
    once; `diagnose` by `headrace doctor`. `start`, `task_configs` and `stop` are called on one thread of this
    connector.
    """

    task_class: ClassVar[str]
    """The Java name that `task.class` shows."""
    task: ClassVar[type[SourceTask] | type[SinkTask]]
    default_tasks_max: ClassVar[int] = 1
    """`tasks.max` where the config has none; its declared default, which validation shows, is Connect's 1."""
    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as `TaskContext.worker`; set before any method is called."""

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return what is wrong beyond single settings; by default nothing.

        Called at each validation and before each start, with all variables resolved. May ask the outside system, for
        seconds at most. An error that it raises is an answer of status 500.
        """
        return []

    def recommended(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Return values to offer that only the outside system knows, by setting; by default none.

        Called at each validation. Errors: as `validate`.
        """
        return {}

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """Yield what the outside system has and lacks for this config, for `headrace doctor`; by default nothing."""
        return iter(())

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Begin to watch whatever decides over the tasks; called once for each object.

        Errors: any fails the connector.
        """

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the configs of its tasks, at most `max_tasks`; Java's keys and layout where it bears a Java name.

        Called after `start`, and after each `reconfigure`. Errors: any is logged, and the tasks stay as they are.
        """

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        """Say whether an operator may set these offsets, before they are set; the connector is STOPPED.

        Called once for each `PATCH` and `DELETE` of `/connectors/{name}/offsets`. `offsets` is the request's body;
        `reset` is true in it where all offsets are to be forgotten, also those that Kafka does not know. A connector
        that keeps offsets in its outside system changes them there.

        True: there are no others. None, the default: the connector does not check offsets, and the answer says so.
        False: they are refused. Errors: NotImplementedError where this connector's offsets cannot be changed;
        RetriableError; any other refuses them with its message, which helps more than False.
        """
        return None

    def stop(self) -> None:
        """End whatever `start` began; called once, also after `start` failed half-way. Errors are logged."""


# -- tasks -------------------------------------------------------------------------------------------------------------


class Place(StrEnum):
    """Where a task's readers and writers may run."""

    ANYWHERE = "anywhere"
    WORKER_HOST = "worker host"
    """On the worker's machine: a local path."""
    WORKER_PROCESS = "worker process"
    """In the worker itself: standard input and output, or a few rows that need no job."""


InterruptedBy = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""`with interrupted_by(cancel): query()`; see `TaskContext.interrupted_by`."""


def uninterrupted(cancel: Callable[[], None]) -> AbstractContextManager[None]:
    """An `InterruptedBy` for where no end can be asked for: `cancel` is never called."""
    return nullcontext()


class GroupMember(NamedTuple):
    """A sink task's place in its consumer group, as Kafka knows it."""

    group: str
    generation: int
    """-1 while it has none."""
    member: str
    """Empty while it has none."""
    instance: str | None
    """Of a static member."""


@dataclass(frozen=True)
class TaskContext:
    """The environment that a task runs in."""

    connector: str
    task: int
    stopping: StopToken
    """Set once the task has to end: whatever blocks must return soon."""
    worker: Mapping[str, Any] = field(default_factory=dict)
    """Parsed worker settings that plugins may read, such as `file.allowed.paths`."""
    topic_ids: Callable[[Collection[str]], Mapping[str, str]] = lambda topics: {}
    """To a sink: Kafka's ids of these topics, as far as it tells; a topic that was made again has another.

    Errors: RetriableError.
    """
    group_member: Callable[[], GroupMember | None] = lambda: None
    """To a sink: its place in its group, another one each time partitions come; for a sink that commits its offsets in
    Kafka itself, in a transaction."""
    stored_offsets: Callable[[Sequence[SourcePartition]], Sequence[SourceOffset | None]] = lambda partitions: [
        None for _ in partitions
    ]
    """To a source: the stored offsets of any of its connector's partitions, in their order; any thread may call."""
    wake: Callable[[], None] = lambda: None
    """To a source: ends the pause before the next `plan`; any thread may call."""
    interrupted_by: InterruptedBy = uninterrupted
    """`with context.interrupted_by(cancel): query()`: once the task has to end, another thread calls `cancel`, over and
    over until the block is left, so that the query ends, with whatever error.

    A source's is called as soon as the task has to end, a sink's once the worker gave up waiting for the task. That is
    for what is done inline: a Spark job is cancelled once the worker gave up waiting for its task.
    """
    in_transactions: bool = False
    """To a source: its records are visible once `committed` tells of their offsets, as both are of one transaction."""
    bounds_transactions: bool = False
    """To a source in transactions: each goes on until one of its plans ends it (`Plan.ends_transaction`).

    So with `transaction.boundary=connector`, which is refused unless the connector's method
    `can_define_transaction_boundaries(config)` answers True.
    """
    java_stage: JavaStage = NO_JAVA_STAGE
    """To a task that runs in Java: the transforms and converters of its connector that it applies itself."""


class Limit(NamedTuple):
    """The most that a plan may cover: from 20,000 rows and 2 MiB to 20,000,000 rows and 2 GiB."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Split:
    """A part of a plan that is read in order by one reader: `(after, upto]` of one source partition."""

    partition: SourcePartition
    after: SourceOffset | None
    """Where the reader begins; None: at the very beginning. Nobody but the reader looks at it."""
    upto: SourceOffset | None
    """Where the reader ends, if the outside system could say so; None: only the rows can tell.

    Nobody but the reader looks at it: the offset that is stored is that of the last row written (Invariant 5).
    """
    shape: str = ""
    """Names the type of its rows, for tasks that have `RowsOfSeveralTypes`."""
    offset_if_empty: SourceOffset | None = None
    """The offset to store where the split is read to its end and yields no row; None: the stored one stays."""


@dataclass(frozen=True)
class Plan:
    """A source's next batch; small, and of JSON values only. One source partition has one split at most."""

    splits: tuple[Split, ...]
    rows: int
    """An estimate, for choosing where to run."""
    bytes: int
    """An estimate, for choosing where to run."""
    ends_transaction: TransactionEnd | None = None
    """What becomes of the open transaction once all of this plan is sent, and of this plan with it.

    Heard only by a task that `bounds_transactions`, whose plan may have no splits then.
    """
    caught_up: bool = False
    """Whether nothing follows it yet, and the source calls `context.wake` once something does.

    The next `plan` then comes five seconds later, if nothing woke the task before and all of this one was sent.
    """


class ArrowReader(Protocol):
    """Reads a plan's splits; picklable, and opens what it needs where it runs."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `plan.splits[split]` in order; called once for each split.

        Inline on the task's thread, one split after the other; in a job in Python workers, all splits side by side, and
        again where the job is tried again. A batch of some thousand rows and 1 to 16 MiB serves best: the worker
        holds 64 MiB of batches at once, over all its tasks.

        Shape: the columns of the task's `row_type`, and `source_offset` (the task's `offset_type`: the offset to store
        once this row is durable). A batch of another shape fails the task.
        """


@runtime_checkable
class FrameReader(ArrowReader, Protocol):
    """Reads by what the JVM has: in a job Spark reads itself; inline `read` may work in the driver's JVM."""

    def frame(self, session: SparkSession, split: int) -> DataFrame:
        """Return what `read` of this split yields, as a frame; called for a job, in the driver, once for each split.

        Rows with equal offsets never span partitions. Partitions run in any order; one counts only after all before it.
        """

    def translate_error(self, error: Exception) -> Exception:
        """Return what the failure of a job that read such frames means: another error, or this one."""


@runtime_checkable
class CopyingReader(ArrowReader, Protocol):
    """Takes splits to Kafka itself, as they are, where its connector changes no record: for Kafka's own batches.

    The worker uses it in place of `read` where the connector has no transforms, its converters keep bytes as they are
    (`Converter.keeps_bytes`), and nothing asks for records that failed.
    """

    def can_copy(self, target: ClientConfig) -> bool:
        """Say whether its splits can go as they are to the cluster that this producer writes to; else it is read."""

    def copy(self, splits: Sequence[int], target: ClientConfig, stop: StopToken) -> Mapping[int, PartitionResult]:
        """Copy these splits of the plan; how far each got, of those that got anywhere or were stopped.

        It is called on the task's thread. What counts as reached is durable, each partition's order kept. A split that
        cannot go on ends with RETRY, or with AS_RECORDS.
        Errors: RetriableError where none can go on.
        """


class SourceTask(ABC):
    """Reads one outside system in bounded batches; its methods are called on the task's thread, but for `samples`."""

    place: Place = Place.ANYWHERE
    waits_for_news: bool = False
    """Whether `plan` itself waits for something new, for half a second at most: it is called again without a pause."""
    coalesces: bool = False
    """Whether the next plan covers all that comes meanwhile: between small batches that follow each other closely the
    task then pauses, for 5 to 100 ms, so that its batches are fewer."""
    wants_deliveries: Deliveries = Deliveries.NONE
    """Of which rows `delivered` and `offsets_reached` are told where they stand in Kafka; set before `start` ends."""
    rows_share_offsets: bool = False
    """Whether rows that follow each other may have equal offsets: such rows then count only all together."""
    row_type: StructType
    """The rows that the reader yields, without `source_offset`."""
    offset_type: StructType
    """Of `source_offset`: a struct whose members are those of the `SourceOffset`."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Get ready to plan; called once, first. Errors: any fails the task; `stop` is called all the same."""

    @property
    def tells_of_news(self) -> bool:
        """Whether it calls `context.wake` once something new is there; asked after each `plan` that found nothing.

        The next `plan` then comes five seconds later, if nothing woke the task before.
        """
        return False

    def topics(self) -> Sequence[str]:
        """Return the topics that its records go to, as far as that is known before they are read; asked before a batch.

        A large batch with rows to other topics is read again in small ones, if those may have to be created first.
        """
        return ()

    @abstractmethod
    def partitions(self) -> Sequence[SourcePartition]:
        """Return the source partitions whose offsets `plan` needs; asked before each plan, so they may change."""

    @abstractmethod
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return what to read next, given the stored offset of each of `partitions()`, in their order.

        None when there is nothing new; then the next call comes after a pause that grows from 5 to 100 ms, 500 ms on
        a worker with many sources. Cheap and without Spark. Fixes the end before anything is read where the outside
        system can say it. A plan that yields no row counts as nothing new, but for the offsets that its splits move
        (`Split.offset_if_empty`).
        """

    @abstractmethod
    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of this plan; called once after `plan`, before anything of it is read."""

    def records(self, frame: DataFrame) -> Records:
        """Make records of the reader's rows, by expressions only; called for each program that is compiled.

        `source_offset` and `split` stay columns of the frame. A static method finds the one topic of `topics` in the
        column `topic`, unless its rows have one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method records, which makes records of its rows")

    def delivered(self, reached: Sequence[PartitionResult]) -> None:  # noqa: B027 - most have nothing to do
        """Learn how far the last plan got; called once unless the plan failed, before its offsets are stored."""

    def undelivered(self) -> None:  # noqa: B027 - most have nothing to do
        """Close what is open for the last plan: it failed, or will never be read. Errors are logged."""

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return what to store now that a split got so far: by default its last row's offset for its partition.

        For a source whose rows, in one order, belong to several source partitions: its `source_offset` then only names
        a row. None forgets a partition. Called once for each split of a batch, after `delivered`.
        """
        if reached.source_partition is None or reached.source_offset is None:
            return ()
        return ((reached.source_partition, reached.source_offset),)

    def committed(self, reached: Sequence[PartitionResult]) -> None:  # noqa: B027 - most have nothing to do
        """Learn that these offsets are stored; called in the order of the batches, before a later plan or the end.

        What was `acknowledged` is not among what is told: `delivered` was told of it.
        """

    def samples(self) -> Iterable[Sample]:
        """Return the task's own metrics; called by scrapes, on threads of theirs, while the task runs."""
        return ()

    def stop(self) -> None:  # noqa: B027
        """Close what is open; called once, after the last batch, also if `start` failed half-way. Errors are logged."""


class RowsOfSeveralTypes(ABC):
    """The second interface of a source task whose rows are of several types, such as those of several tables.

    Its splits name their type by `Split.shape`; both methods take the place of `row_type` and `records`.
    """

    @abstractmethod
    def row_type_of(self, shape: str) -> StructType:
        """Return the rows of splits of this shape, as `SourceTask.row_type`; asked when a batch of it is read."""

    @abstractmethod
    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Make records of the rows of splits of this shape, as `SourceTask.records`."""


class ArrowWriter(Protocol):
    """Writes the rows of a batch; picklable before its first call, opens what it needs where it runs."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows in order, good ones only; called several times for a batch, or not at all.

        Inline up to 10,000 rows and 4 MiB, on the task's thread; in a job up to 20,000 rows and 16 MiB at once, in a
        Python worker.

        Shape: the columns that the task's `columns` gives.
        Errors: RecordsFailed where single records are to blame; RetriableError.
        """

    def finish(self) -> bytes:
        """Make sure that all rows taken are staged or durable; the answer is handed to `commit`.

        Called once, last. Errors: as `write`.
        """

    def abort(self) -> None:
        """Release what is open: the batch failed. Called once, in the place of `finish` or after it failed."""


class SinkRequests(NamedTuple):
    """What a sink task asks of its worker (`SinkTask.requests`)."""

    offsets: Mapping[TopicPartition, int] = MappingProxyType({})
    """The records to go on with, in any direction: of partitions that it has."""
    commit: bool = False
    """Commit soon."""
    rests: Mapping[TopicPartition, float] = MappingProxyType({})
    """For how many seconds from now a partition is to give no records; 0: it gives them again."""


class SinkTask(ABC):
    """Writes one outside system in bounded batches; a member of the consumer group `connect-<name>`.

    Its methods are called on the task's thread; `writer`, `staging_writer`, `discard` and `commit` of a job
    on a thread that the job has to itself. Commits follow each other, but a `staging_writer` of the next batch may be
    asked for during a `commit`, and so may `pre_commit` be called. A sink whose rows become durable later than their
    batch is a `BufferingSink`, too.
    """

    place: Place = Place.ANYWHERE
    commits_offsets: bool = False
    """Whether it may commit offsets of its group itself, in transactions (`TaskContext.group_member`): what it reads
    begins at an offset that no open transaction can change any more."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Get ready for partitions; called once, first. Errors: any fails the task; `stop` is called all the same."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take these partitions; return where to go on in those for which the outside system knows better than Kafka.

        Called with each assignment, with the new ones only, before any of their records is fetched. The answer counts
        whatever Kafka has committed: it may be before it, after a restore from a backup.
        Errors: RetriableError, then this is called again.
        """
        return {}

    def recover(self) -> Mapping[TopicPartition, int]:
        """Fence the writers of a failed job, which may still be at work; answer as `open`.

        The answer is for all partitions. Called once after each such batch, before the next.
        """
        return {}

    @abstractmethod
    def columns(self, records: Records) -> list[Column]:
        """Return the columns that the writer needs, by expressions over the records' frame."""

    @abstractmethod
    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer for one batch (inline) or one partition of a batch (in a job).

        Called for each of them, again for each try: `attempt` names this try and no other.
        """

    def staging_writer(self, attempt: str) -> ArrowWriter | None:
        """Return a writer whose rows are invisible before `commit`, so that a partition can be written in parts.

        Called before each job. The next one may ask for one, and write, while this one's is not committed
        yet; never a third. None, the default: each partition is written as a whole by `writer`.

        A sink with this method binds nothing to a thread: many small batches go through one that several tasks share.
        """
        return None

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int] | None:
        """Make durable what the writers staged; called once after all writers of a batch finished (Invariant 1).

        `parts` is what their `finish` gave, in the order of the partitions' offsets; nothing else may ever be seen. The
        answer names the first offset that is not durable, of partitions that have one in the batch: in a job the rows
        from it on come again. Errors: RetriableError, then the batch is written again.
        """
        return None

    def left_out(self) -> Mapping[TopicPartition, int]:
        """Return how many rows of the last inline batch were left out on purpose, and do not count as sent.

        By partition; called once after `commit`.
        """
        return {}

    def discard(self, parts: Sequence[bytes]) -> None:  # noqa: B027 - most discard all that is not committed anyway
        """Remove what writers staged of rows after the one at which their partition stopped; these come again.

        Called before the `commit` of the same batch. Errors: as of `commit`.
        """

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Learn that all before these positions is done, also records that the writer never got.

        Called before these positions are committed to Kafka, every `offset.flush.interval.ms` and when partitions go,
        for tasks that keep offsets themselves. The answer names the offsets that may be committed now, for a sink whose
        rows become durable after their batch; of a partition that it leaves out nothing is, and it is asked again.
        None, the default: all. Errors: RetriableError, then Kafka gets them later.
        """
        return None

    def requests(self) -> SinkRequests:
        """Return what the task asks of its worker since the last call; asked often, between batches.

        Errors: any, for what failed while no batch was there.
        """
        return SinkRequests()

    def close(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """Give these partitions up; called once for each, after their writers have ended. Errors are logged."""

    def samples(self) -> Iterable[Sample]:
        """Return the task's own metrics, as `SourceTask.samples`."""
        return ()

    def stop(self) -> None:  # noqa: B027
        """Close what is open; called once, after the last batch, also if `start` failed half-way. Errors are logged."""


class BufferingSink(ABC):
    """The second interface of a sink task that collects rows over several batches inline, such as for whole files.

    What is held lives in the task, not in its writers: it is durable once `commit` no longer answers with its offset.
    The rest is thrown away when the task fails, ends, or goes on by jobs: Kafka has it. Jobs follow each other.
    """

    @abstractmethod
    def due_s(self) -> float | None:
        """Return in how many seconds a batch without rows would make something durable; None: only rows can."""

    @abstractmethod
    def drop(self) -> None:
        """Throw away all that is held: its rows come again."""

    @abstractmethod
    def job_ranges(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return which of these offsets, the end excluded, a job is to read; none: it would make nothing durable.

        They may be fewer, as far as a job would throw the others away, or go on to `ends`, where less is no use.
        """

    def job_step(self) -> int | None:
        """Return at which multiples of offsets a job may cut a partition's range, to write its parts side by side.

        `commit` then gets a part of a writer for each; it takes those up to the first that holds something, and answers
        with that. None: one writer writes all of a partition.
        """
        return None


# -- converters --------------------------------------------------------------------------------------------------------


class Decoded(NamedTuple):
    """A column converted: the value, and why there is none.

    `error` is evaluated only for rows whose `value` is null, and is null itself where null is the value.
    """

    value: Column
    error: Column


class Encoded(NamedTuple):
    """A column encoded: the bytes, why there are none, and where that is not known yet."""

    value: Column
    error: Column
    unknown: Column | None = None
    """True for rows of which `TopicEncoding.learn` has to be called first; None: there can be none."""


class HeaderConverter(Plugin):
    """Converts the values of headers; every `Converter` is one, too. Methods return expressions and see no row."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Get ready; called once, first. `config` has the prefix stripped and `converter.type` set.

        Called at each validation, too, on a new object and without Spark.
        Errors: any error fails the task; at validation a ConfigError is shown with its settings.
        """

    def check(self) -> None:
        """Check that the server which it needs is the right one, within seconds; by default nothing.

        Called after `configure`, at validation and before a task begins. A server that is away is no error here.
        Errors: ConfigError.
        """

    @abstractmethod
    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Return the bytes (as `value`, binary) of values of this schema, null included; never raises for data."""

    def unreadable(self, data: Column) -> Column | None:
        """Return why these bytes of a header cannot be read, null where they can; None: all bytes can be."""
        return None

    def close(self) -> None:
        """Close what is open; called once, from any thread: calls that wait for a server end by RetriableError."""


class Converter(HeaderConverter):
    """Bytes in Kafka to Connect values and back, as Column expressions.

    A row's bytes name their schema (`identify`), the worker looks it up (`resolve`) and compiles a program that decodes
    the bytes of all schemas that it knows (`decode`). Two more interfaces are there for converters that need them:
    `TopicEncoding`, and `plugins.conversion.quick.QuickDecoding`, which only makes decoding faster.
    """

    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as `TaskContext.worker`; set before `configure`."""
    most_schemas: int = 1_000
    """How many schemas of bytes a task keeps; after that it forgets them all and begins anew."""
    keeps_bytes: bool = False
    """Whether bytes are encoded as they are."""

    @property
    def constant_identity(self) -> bytes | None:
        """The identity of all bytes where they have one schema, which then is known from the start; else None."""
        return None

    @abstractmethod
    def identify(self, data: Column) -> Column:
        """Return what names the schema in these non-null bytes, as binary; a constant where all bytes have one."""

    @abstractmethod
    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """Look up the schema that is so named, None for schemaless values; may ask a server.

        Called on the task's thread, once for each identity, again after `most_schemas` others.
        Errors: DataError where these bytes can never be read; RetriableError.
        """

    @abstractmethod
    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """Return the values of non-null bytes of this identity, in `schema`'s Spark type; never raises for data."""

    def shown(self, data: bytes) -> str | None:
        """Return one record's bytes as a text for people, without Spark; None: the bytes are the text.

        Called by `headrace dlq`. Errors: DataError where they hold no value; RetriableError.
        """
        return None


class TopicEncoding(ABC):
    """The second interface of a converter whose bytes depend on the topic that a record goes to."""

    @abstractmethod
    def encode_for(self, topic: Column, value: Column, schema: Schema | None) -> Encoded:
        """Return what `Converter.encode` returns, by topic; in its place."""

    @abstractmethod
    def learn(self, topic: str, schema: Schema | None) -> None:
        """Find out how values of this schema are encoded for this topic, or why they cannot be; may ask a server.

        Called on the task's thread, once for each pair that `Encoded.unknown` named.
        Errors: RetriableError, ConfigError.
        """

    def refresh(self) -> bool:
        """Learn anew what was learned too long ago; return whether bytes are written otherwise now.

        Called before each batch of a source. Errors: ConfigError.
        """
        return False


# -- transforms --------------------------------------------------------------------------------------------------------


class Transform(Plugin):
    """Changes records by expressions."""

    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as `TaskContext.worker`; set before any method is called."""

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return what is wrong beyond single settings; by default nothing. Called at validation, without `configure`.

        It must not load what the config names.
        """
        return []

    def configure(self, config: Mapping[str, str]) -> None:
        """Get ready; called once, first. Errors: ConfigError."""

    @abstractmethod
    def apply(self, records: Records) -> Records:
        """Return the records changed, with their new schemas; rows stay in place (`drop` filters, `error` fails).

        `records.changed` does all of it, and leaves rows alone that the transform's predicate does not hold for.
        """


class Predicate(Plugin):
    """Says which records a transform applies to."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Get ready; called once, first. Errors: ConfigError."""

    @abstractmethod
    def test(self, records: Records) -> Column:
        """Return true for the records that it holds for."""
