"""The contracts of connectors, converters and transforms; the file connectors use this room and settings alone.

A task is a loop over bounded batches. The worker decides where a batch runs, within the task's `place`: inline (in the
worker process) or as a job (in Spark's executors). The code is the same for both. Readers and writers touch the outside
system, and take and give Arrow record batches. Spark Column expressions change values.

    source:  plan -> reader -> records() -> (transforms, converters) -> Kafka
    sink:    Kafka -> (converters, transforms) -> columns() -> writer -> commit()

What only some plugins need is in `extensions`, such as hooks that follow a batch's progress.

Errors, unless a hook says otherwise:

    RetriableError      the worker tries again, with back-off; in `start` the task fails and is restarted by the worker
    LoginRefused        the task fails and is started again, with the config's variables resolved anew
    RecordsFailed       a sink's writer names the records that it cannot write
    DataError           the record cannot be processed: it is dead-lettered, or fails the task
    ConfigError         the config is refused, or fails the task, with the setting's name
    StoppedError        the task was asked to end; not a failure
    anything else       the task fails; its status shows the error

"The task's thread" is one thread that a task has to itself. Hooks that only build expressions are called seldom, once
for each new combination of schemas and Spark session; they never see a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from headrace.config.plugin_path import NO_JAVA_STAGE, JavaStage
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
from headrace.plugins.row_records import records_by_name
from headrace.plugins.schema import Schema
from headrace.plugins.stopping import StopToken

__all__ = [
    "ArrowReader",
    "ArrowWriter",
    "ConfigProvider",
    "Connector",
    "ConnectorContext",
    "Converter",
    "DataError",
    "Decoded",
    "Deliveries",
    "Delivery",
    "Encoded",
    "Finding",
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
    "SinkTask",
    "SourceOffset",
    "SourcePartition",
    "SourceTask",
    "Split",
    "SplitReader",
    "Stop",
    "StopToken",
    "StoppedError",
    "TaskContext",
    "TopicPartition",
    "TransactionEnd",
    "Transform",
    "uninterrupted",
]


class Plugin(ABC):
    """Base of all plugin classes; a class without `settings` or `version` is refused when it is loaded."""

    settings: ClassVar[Settings]
    """Settings of the plugin. Validation, documentation and masking follow from them."""
    version: ClassVar[str]
    """Version shown in `GET /connector-plugins` and in statuses."""
    undeclared: ClassVar[tuple[str, ...]] = ()
    """Prefixes of settings that it reads but `settings` does not declare; other unknown settings log a warning."""


# -- connectors --------------------------------------------------------------------------------------------------------


class ConnectorContext(Protocol):
    """Calls from a connector to its worker; callable from any thread, non-blocking."""

    def reconfigure(self) -> None:
        """Ask for another call of `task_configs`, soon; tasks restart if their configs changed."""

    def fail(self, error: Exception) -> None:
        """Put the connector into FAILED with this error; its tasks keep running."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        """Return the stored offsets of these source partitions, in their order, as far as this worker knows them."""


class Finding(NamedTuple):
    """One result of `Connector.diagnose`: something the connector needs, and its state."""

    what: str
    good: bool | None
    """None: works, but an operator should know."""
    found: str
    advice: str = ""


class Connector(Plugin):
    """Splits the work into tasks; lives on one worker and sees no record.

    REST calls `validate`, `recommended` and `check_offsets` on separate objects, on several threads at once, lint
    `advise`, `most_tasks` and `needs_schema`. `headrace doctor` calls `diagnose`. `start`, `task_configs` and `stop`
    are called on one thread of this connector.
    """

    task_class: ClassVar[str]
    """Class name that `task.class` shows; by default that of `task`."""
    task: ClassVar[type[SourceTask] | type[SinkTask]]
    default_tasks_max: ClassVar[int] = 1
    """Used if the config has no `tasks.max`. Validation shows Connect's default of 1."""
    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as in `TaskContext.worker`; set before any method is called."""
    given: Mapping[str, str]
    """The config, once `start` has checked it."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if isinstance(vars(cls).get("task"), type) and not hasattr(cls, "task_class"):
            cls.task_class = f"{cls.task.__module__}.{cls.task.__qualname__}"

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems that checks of single settings cannot find; by default none.

        Called at each validation and before each start, with all variables resolved. May ask the outside system, for a
        few seconds at most. An error raised here is answered with status 500.
        """
        return []

    def recommended(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Return suggested values by setting that only the outside system knows; by default none.

        Called at each validation. Errors: as `validate`.
        """
        return {}

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """Yield what the outside system has and lacks for this config, for `headrace doctor`; by default nothing."""
        return iter(())

    def advise(self, config: Mapping[str, str]) -> Iterator[Problem]:
        """Yield settings of an accepted config that are likely not meant so; by default nothing.

        For lint: asks no outside system. Settings with variables are left out. Errors: ConfigError if it cannot judge.
        """
        return iter(())

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """Return the most tasks that this config can use; None if it does not tell. For lint, as `advise`.

        By default the one task of a source that does not define `task_configs`.
        """
        has_own = type(self).task_configs is not Connector.task_configs
        return None if has_own or issubclass(self.task, SinkTask) else 1

    def needs_schema(self, config: Mapping[str, str]) -> str | None:
        """Return the setting by which a sink needs values with a schema; None if it does not. For lint, as `advise`."""
        return None

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start to watch what determines the tasks; called once per object. By default only checks the config.

        Errors: any fails the connector; ConfigError with all problems of single settings.
        """
        self.settings.parse(config)
        self.given = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return configs for at most `max_tasks` tasks; a connector with a Java name uses Java's keys and layout.

        Called after `start` and after each `reconfigure`. By default a source has one task, a sink all, each with the
        connector's config. Errors: any is logged, and the tasks stay as they are.
        """
        return [dict(self.given) for _ in range(max_tasks if issubclass(self.task, SinkTask) else 1)]

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        """Say if an operator may set these offsets; called before they are set, while the connector is STOPPED.

        Called once for each `PATCH` and `DELETE` of `/connectors/{name}/offsets`. `offsets` is the request's body.
        `reset` is true in it if all offsets are to be forgotten, including those that Kafka does not know. A connector
        that keeps offsets in its outside system changes them there.

        True: accepted, and no offsets remain to be changed elsewhere. None, the default: not checked, and the answer
        says so. False: refused.

        Errors: NotImplementedError if the offsets of this connector cannot be changed; RetriableError; any other
        refuses the offsets with its message, which is more helpful than False.
        """
        return None

    def stop(self) -> None:
        """End what `start` began; called once, also after a failed `start`. Errors are logged."""


# -- tasks -------------------------------------------------------------------------------------------------------------


class Place(StrEnum):
    """Places where a task's readers and writers may run."""

    ANYWHERE = "anywhere"
    WORKER_HOST = "worker host"
    """On the worker's machine, such as for a local path."""
    WORKER_PROCESS = "worker process"
    """In the worker process, such as for standard input and output, or for a few rows that need no job."""


InterruptedBy = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Type of `TaskContext.interrupted_by`: `with interrupted_by(cancel): query()`."""


def uninterrupted(cancel: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a context that never calls `cancel`: the `InterruptedBy` of code that nobody can ask to end."""
    return nullcontext()


class GroupMember(NamedTuple):
    """A sink task's membership of its consumer group, as Kafka knows it."""

    group: str
    generation: int
    """-1 if it has none."""
    member: str
    """Empty if it has none."""
    instance: str | None
    """`group.instance.id` of a static member."""


@dataclass(frozen=True)
class TaskContext:
    """A task's view of its worker."""

    connector: str
    task: int
    stopping: StopToken
    """Set once the task has to end; anything that blocks must then return soon."""
    worker: Mapping[str, Any] = field(default_factory=dict)
    """Parsed worker settings that plugins may read, such as `file.allowed.paths`."""
    topic_ids: Callable[[Collection[str]], Mapping[str, str]] = lambda topics: {}
    """For a sink: returns Kafka's ids of these topics, as far as known; a topic that was made again has a new one.

    Errors: RetriableError.
    """
    group_member: Callable[[], GroupMember | None] = lambda: None
    """For a sink: returns its group membership, which changes with each assignment.

    For a sink that commits its offsets in Kafka itself, in a transaction.
    """
    stored_offsets: Callable[[Sequence[SourcePartition]], Sequence[SourceOffset | None]] = lambda partitions: [
        None for _ in partitions
    ]
    """For a source: returns the stored offsets of any of its connector's partitions, in their order; thread-safe."""
    wake: Callable[[], None] = lambda: None
    """For a source: ends the pause before the next `plan`; thread-safe."""
    interrupted_by: InterruptedBy = uninterrupted
    """Makes a blocking call interruptible: `with context.interrupted_by(cancel): query()`.

    Once the task has to end, another thread calls `cancel` repeatedly until the block is left. `cancel` should make the
    query return, with any error. For a source this begins as soon as the task has to end; for a sink once the worker
    gives up waiting for the task. Only for inline work: a Spark job is cancelled once the worker gives up waiting for
    its task.
    """
    in_transactions: bool = False
    """For a source: True if records and offsets share a transaction; records are visible once `committed` is called."""
    bounds_transactions: bool = False
    """For a source in transactions: True if a transaction lasts until a plan ends it (`Plan.ends_transaction`).

    Set by `transaction.boundary=connector`. That setting is refused unless the connector's method
    `can_define_transaction_boundaries(config)` returns True.
    """
    java_stage: JavaStage = NO_JAVA_STAGE
    """For a task that runs in Java: the transforms and converters of its connector that it applies itself."""


class Limit(NamedTuple):
    """Maximum size of a plan: from 20,000 rows and 2 MiB to 20,000,000 rows and 2 GiB."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Split:
    """The part `(after, upto]` of one source partition that a plan covers; one reader reads it in order."""

    partition: SourcePartition
    after: SourceOffset | None
    """The reader's begin; None: at the beginning. Only the reader uses it."""
    upto: SourceOffset | None
    """The reader's end; None if the outside system cannot say, and only the rows tell.

    Only the reader uses it: the stored offset is that of the last row written (Invariant 5).
    """
    shape: str = ""
    """Name of its rows' type, for tasks with `RowsOfSeveralTypes`."""
    offset_if_empty: SourceOffset | None = None
    """Offset to store if the split is read to its end and yields no row; None: the stored offset stays."""


@dataclass(frozen=True)
class Plan:
    """A source's next batch: small, only JSON values, at most one split for each source partition."""

    splits: tuple[Split, ...]
    rows: int
    """Estimate, for the choice between inline and job."""
    bytes: int
    """Estimate, for the choice between inline and job."""
    ends_transaction: TransactionEnd | None = None
    """The end of the open transaction once all of this plan is sent; the plan belongs to that transaction.

    Read only for a task that `bounds_transactions`; such a plan may have no splits.
    """
    caught_up: bool = False
    """True if nothing follows this plan yet and the source calls `context.wake` once something does.

    The next `plan` then comes after five seconds, unless something wakes the task earlier or not all of this plan was
    sent.
    """


class ArrowReader(Protocol):
    """Reads a plan's splits; picklable; opens what it needs where it runs."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `plan.splits[split]` in order; called once for each split.

        Inline: called on the task's thread, one split after the other. In a job: called in Python workers, all splits
        in parallel, and again if Spark retries. Batches of a few thousand rows and 1 to 16 MiB are best: the worker
        holds at most 64 MiB of batches over all its tasks.

        Shape: the columns of the task's `row_type`, and `source_offset` (the task's `offset_type`: the offset to store
        once this row is durable). A batch of another shape fails the task.
        """


@dataclass(frozen=True)
class SplitReader:
    """Reads each split by a function that pickles."""

    function: Callable[[Split], Iterator[pa.RecordBatch]]
    splits: Sequence[Split]

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of this split."""
        return self.function(self.splits[split])


class SourceTask(ABC):
    """Reads one outside system in bounded batches; methods are called on the task's thread."""

    place: Place = Place.ANYWHERE
    row_type: pa.Schema
    """Columns of the reader's rows, without `source_offset`."""
    offset_type: pa.StructType
    """Type of `source_offset`: a struct with the members of the `SourceOffset`."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to plan; called once, first. Errors: any fails the task; `stop` is called all the same."""

    def topics(self) -> Sequence[str]:
        """Return the topics that its records go to, as far as known before they are read; called before a batch.

        If a large batch has rows for other topics, and these may have to be created first, it is read again in small
        batches.
        """
        return ()

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the source partitions whose offsets `plan` needs; called before each plan, so they may change.

        By default one, `{}`.
        """
        return ({},)

    @abstractmethod
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Return what to read next; `after` has the stored offset of each of `partitions()`, in their order.

        Return None if there is nothing new. The next call then comes after a pause that grows from 5 to 100 ms (500 ms
        on a worker with many sources). Must be cheap and not use Spark. Fix the end before anything is read, if the
        outside system can say it. A plan that yields no row counts as nothing new, except for offsets moved by
        `Split.offset_if_empty`.
        """

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader of this plan; called once after `plan`, before any of it is read.

        By default it calls the static method `read` for each split.
        """
        if type(self).read is SourceTask.read:
            raise NotImplementedError(f"{type(self).__name__} has neither a method reader nor a static method read")
        return SplitReader(self.read, plan.splits)

    @staticmethod
    def read(split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, as `ArrowReader.read`; for tasks without a reader of their own."""
        raise NotImplementedError

    def records(self, frame: DataFrame) -> Records:
        """Turn the reader's rows into records, by expressions only; called for each program that is compiled.

        By default columns named `topic`, `key`, `value`, `partition`, `timestamp` and `headers` become these parts of a
        record; without a column `value`, all others together are its value, a struct.

        `source_offset` and `split` stay columns of the frame. If `topics` names one topic, a static method finds it in
        the column `topic`, unless the rows have a column of that name.
        """
        return records_by_name(frame, self.row_type, self.topics())

    def stop(self) -> None:  # noqa: B027
        """Close what is open; called once, after the last batch, also if `start` failed. Errors are logged."""


class ArrowWriter(Protocol):
    """Writes the rows of a batch; picklable before its first call; opens what it needs where it runs."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows in order, without bad ones; called any number of times for a batch, also never.

        Inline: up to 10,000 rows and 4 MiB, on the task's thread. In a job: up to 20,000 rows and 16 MiB at once, in a
        Python worker.

        Shape: the columns that the task's `columns` returns.

        Errors: RecordsFailed if single records are to blame; RetriableError.
        """

    def finish(self) -> bytes:
        """Make all rows taken staged or durable; return bytes that are handed to `commit`. Called once, last.

        By default nothing is left to do. Errors: as `write`.
        """
        return b""

    def abort(self) -> None:
        """Release what is open after the batch failed; called once, in place of `finish` or after it failed."""


class SinkTask(ABC):
    """Writes one outside system in bounded batches; a member of the consumer group `connect-<name>`.

    Methods are called on the task's thread; for a job, `writer`, `commit` and those of the extensions `StagingSink` and
    `BufferingSink.discard` are called on a thread of the job's own. Commits follow each other, but during a `commit`
    the next batch's `staging_writer` or a `pre_commit` may be called. A sink whose rows become durable later than their
    batch is also a `BufferingSink`.
    """

    place: Place = Place.ANYWHERE

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare for partitions; called once, first. Errors: any fails the task; `stop` is called all the same."""

    @abstractmethod
    def columns(self, records: Records) -> list[Column]:
        """Return the columns that the writer needs, as expressions over the records' frame."""

    @abstractmethod
    def writer(self, attempt: str) -> ArrowWriter:
        """Return a writer for one batch (inline) or for one partition of a batch (job).

        Called for each of them and again for each retry; `attempt` is unique to this try.
        """

    def commit(self, parts: Sequence[bytes]) -> Mapping[TopicPartition, int] | None:
        """Make durable what the writers staged; called once, after all writers of a batch finished (Invariant 1).

        `parts` holds the answers of `finish`, in the order of the partitions' offsets; no other part may ever become
        visible. Return the first offset that is not durable, for those partitions of the batch that have one; in a job
        the rows from there on come again.

        Errors: RetriableError, then the batch is written again.
        """
        return None

    def stop(self) -> None:  # noqa: B027
        """Close what is open; called once, after the last batch, also if `start` failed. Errors are logged."""


# -- converters --------------------------------------------------------------------------------------------------------


class Decoded(NamedTuple):
    """A converted column: the value, and the error if there is none.

    `error` is evaluated only for rows whose `value` is null; it is null itself if null is the value.
    """

    value: Column
    error: Column


class Encoded(NamedTuple):
    """An encoded column: the bytes, the error if there are none, and rows whose encoding is not known yet."""

    value: Column
    error: Column
    unknown: Column | None = None
    """True for rows that need `TopicEncoding.learn` first; None: there are none."""


class HeaderConverter(Plugin):
    """Converts the values of headers; base of every `Converter`. Methods return expressions and see no row."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Configure; called once, first. `config` has no prefix, and has `converter.type`.

        Also called at each validation, on a new object and without Spark.

        Errors: any fails the task; at validation a ConfigError is shown at its settings.
        """

    def check(self) -> None:
        """Check that its server is the right one, within seconds; by default nothing.

        Called after `configure`, at validation and before a task begins. An unreachable server is not an error here.

        Errors: ConfigError.
        """

    @abstractmethod
    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Return the bytes (as `value`, binary) of values of this schema, null included; never raises for data."""

    @property
    def header_schema(self) -> Schema | None:
        """The schema of all values that a `Converter` reads; None if each has its own, or none has one."""
        return None

    def unreadable(self, data: Column) -> Column | None:
        """Return why these header bytes cannot be read, null if they can; None: all bytes can be read."""
        return None

    def close(self) -> None:
        """Close what is open; called once, from any thread. Calls that wait for a server end by RetriableError."""


class Converter(HeaderConverter):
    """Converts bytes in Kafka to Connect values and back, as Column expressions.

    A row's bytes name their schema (`identify`). The worker looks it up (`resolve`) and compiles a program that decodes
    the bytes of all known schemas (`decode`). Two extensions are optional: `TopicEncoding`, and
    `plugins.quick_decoding.QuickDecoding`, which only makes decoding faster.
    """

    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as in `TaskContext.worker`; set before `configure`."""
    most_schemas: int = 1_000
    """Number of schemas that a task keeps; beyond it the task forgets all and starts again."""
    keeps_bytes: bool = False
    """True if encoding leaves bytes unchanged."""

    @property
    def constant_identity(self) -> bytes | None:
        """Identity of all bytes if they have one schema, which is then known from the start; else None."""
        return None

    @property
    def header_schema(self) -> Schema | None:
        """The schema of `constant_identity`; None if there is none, or if it cannot be served."""
        identity = self.constant_identity
        try:
            return None if identity is None else self.resolve(identity, "")
        except DataError:
            return None

    @abstractmethod
    def identify(self, data: Column) -> Column:
        """Return what names the schema in these non-null bytes, as binary; a constant if all bytes have one schema."""

    @abstractmethod
    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """Look up the schema of this identity, None for schemaless values; may ask a server.

        Called on the task's thread once for each identity, and again after `most_schemas` others.

        Errors: DataError if these bytes can never be read; RetriableError.
        """

    @abstractmethod
    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """Return the values of non-null bytes of this identity, in `schema`'s Spark type; never raises for data."""

    def shown(self, data: bytes) -> str | None:
        """Return one record's bytes as a readable text, without Spark; None: the bytes are the text.

        Called for REST, `headrace dlq` and `headrace topic`. Errors: DataError if they hold no value; RetriableError.
        """
        return None


# -- transforms --------------------------------------------------------------------------------------------------------


class Transform(Plugin):
    """Changes records by expressions."""

    reads_headers: ClassVar[bool] = False
    """True if it needs `Records.header_values`.

    It then runs on Spark in sinks whose header converter has a `header_schema`, else as the Java class of its name; a
    config without either is refused.
    """

    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as in `TaskContext.worker`; set before any method is called."""

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return the problems that checks of single settings cannot find; by default none.

        Called at validation, without `configure`. Must not load what the config names.
        """
        return []

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure; called once, first. Errors: ConfigError."""

    @abstractmethod
    def apply(self, records: Records) -> Records:
        """Return the changed records with their new schemas; rows stay in place (`drop` filters, `error` fails).

        `records.changed` does all of it, and skips rows for which the transform's predicate is not true.
        """


class Predicate(Plugin):
    """Selects the records that a transform applies to."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure; called once, first. Errors: ConfigError."""

    @abstractmethod
    def test(self, records: Records) -> Column:
        """Return a boolean column, true for the records selected."""
