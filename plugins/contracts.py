"""The contracts that connectors, converters and transforms fulfil; the shipped ones have nothing else to stand on.

A task is a loop over bounded batches. The worker decides where a batch runs, *here* (in the worker process) or *there*
(in Spark's executors), within the task's `place`; the code is the same: what touches the outside system takes and
gives Arrow record batches, what is done to values is Spark Column expressions.

    source:  plan -> reader -> records() -> (transforms, converters) -> Kafka -> committed()
    sink:    open -> Kafka -> (converters, transforms) -> project() -> writer -> commit()

A plugin raises `RetriableError` for what may pass (a server away), `RecordsFailed` where single records of a sink
cannot be written; any other exception fails its task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.config.providers import ConfigProvider, Provided
from headrace.config.settings import Problem, Settings
from headrace.plugins.errors import DataError, RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.offsets import Reached, SourceOffset, SourcePartition, Stop, TopicPartition
from headrace.plugins.records import Records
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
    "Encoded",
    "Finding",
    "FrameReader",
    "HeaderConverter",
    "InterruptedBy",
    "Limit",
    "Place",
    "Plan",
    "Plugin",
    "Predicate",
    "Provided",
    "Reached",
    "RecordFailure",
    "RecordsFailed",
    "RetriableError",
    "SinkTask",
    "SourceOffset",
    "SourcePartition",
    "SourceTask",
    "Split",
    "Stop",
    "StopToken",
    "TaskContext",
    "TopicPartition",
    "Transform",
    "uninterrupted",
]


class Place(StrEnum):
    """Where a task's readers and writers may run."""

    ANYWHERE = "anywhere"
    WORKER_HOST = "worker host"
    """On the worker's machine: a local path."""
    WORKER_PROCESS = "worker process"
    """In the worker itself: standard input and output, or a few rows that need no job."""


class Limit(NamedTuple):
    """The most that a plan may cover."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Split:
    """A part of a plan that is read in order by one reader: `(after, upto]` of one source partition."""

    partition: SourcePartition
    after: SourceOffset | None
    upto: SourceOffset | None
    """None: only the rows can tell; the offset stored is that of the last row written."""
    shape: str = ""
    """Names the type of its rows, where a task's rows are of several (`SourceTask.row_type_of`)."""


@dataclass(frozen=True)
class Plan:
    """What a source's next batch reads; small, and of JSON values only. One source partition has one split at most."""

    splits: tuple[Split, ...]
    rows: int
    """An estimate, for choosing where to run."""
    bytes: int
    """An estimate, for choosing where to run."""


class Plugin(ABC):
    """What every plugin class says of itself."""

    settings: ClassVar[Settings]
    version: ClassVar[str]


class ConnectorContext(Protocol):
    """What a connector may ask of its worker."""

    def reconfigure(self) -> None:
        """Ask for `task_configs` to be called again."""

    def fail(self, error: Exception) -> None:
        """Put the connector into FAILED."""


class Finding(NamedTuple):
    """What an examination found of one thing that a connector needs."""

    what: str
    good: bool | None
    """None: it works, but an operator should know."""
    found: str
    advice: str = ""


class Connector(Plugin):
    """Lives on one worker and sees no record: it splits the work into tasks."""

    task_class: ClassVar[str]
    """The Java name that `task.class` shows."""
    task: ClassVar[type[SourceTask] | type[SinkTask]]
    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as `TaskContext.worker`; there before `validate` and `start`."""

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """What is wrong beyond single settings; nothing by default."""
        return []

    def recommended(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        """Values to offer that only the outside system knows, by setting; asked when a config is validated."""
        return {}

    def examine(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """What its outside system has and lacks for this config, for `headrace doctor`; nothing by default."""
        return iter(())

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """The connector watches whatever decides over its tasks."""

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The configs of its tasks, at most `max_tasks`; Java's keys and layout where it bears a Java name."""

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Whether an operator may set these offsets; see `PATCH /connectors/{name}/offsets`.

        `reset` is true in them where all offsets are to be forgotten, also those that Kafka does not know.
        """
        return False

    def stop(self) -> None:
        """Whatever `start` began has ended."""


InterruptedBy = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""`with interrupted_by(cancel): query()`; see `TaskContext.interrupted_by`."""


def uninterrupted(cancel: Callable[[], None]) -> AbstractContextManager[None]:
    """An `InterruptedBy` where nobody asks for an end: `cancel` is never called."""
    return nullcontext()


@dataclass(frozen=True)
class TaskContext:
    """What a task knows of where it runs."""

    connector: str
    task: int
    stopping: StopToken
    """Set once the task has been asked to end: whatever blocks must return soon."""
    worker: Mapping[str, Any] = field(default_factory=dict)
    """Parsed worker settings that plugins may read, such as `file.allowed.paths`."""
    topic_ids: Callable[[Collection[str]], Mapping[str, str]] = lambda topics: {}
    """To a sink: Kafka's ids of these topics, as far as it tells; a topic that was made again has another.

    Errors: RetriableError.
    """
    interrupted_by: InterruptedBy = uninterrupted
    """`with context.interrupted_by(cancel): query()`: where the task has to end meanwhile, another thread calls
    `cancel`, over and over until the block is left, so that the query ends, with whatever error.

    A source's is called as soon as the task is asked to end, a sink's once it was given up waiting for. That is for
    what is done *here*: a Spark job is cancelled once its task was given up waiting for.
    """


class ArrowReader(Protocol):
    """Reads a plan's splits; picklable, and opens what it needs where it runs."""

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """The rows of `plan.splits[split]` in order.

        Shape: the columns of the task's `row_type` and `source_offset` (the task's `offset_type`, the offset to store
        once this row is durable).
        """


@runtime_checkable
class FrameReader(ArrowReader, Protocol):
    """Reads by what the JVM has: *there* Spark reads itself; *here* `read` may work in the driver's JVM."""

    def frame(self, session: SparkSession, split: int) -> DataFrame:
        """What `read` of this split yields. Where its partitions end, rows of equal offsets end; read at once they
        are in no order among each other, but what one reached counts only behind all before it."""

    def judged(self, error: Exception) -> Exception:
        """What the failure of a job that read such frames means; the error itself where nothing is known of it."""


class SourceTask(ABC):
    """Reads one outside system in bounded batches."""

    place: Place = Place.ANYWHERE
    replays_equal: bool = True
    """Whether the same split read again gives the same rows."""
    offsets_repeat: bool = False
    """Whether rows that follow each other may have equal offsets: such rows then are done only all together."""
    row_type: StructType
    """What the reader yields, without `source_offset`; of a task with rows of several types `row_type_of` says it."""
    offset_type: StructType
    """Of `source_offset`: a struct whose members are those of the `SourceOffset`."""

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Ready to plan; raises when its config or its outside system rule that out."""

    def topics(self) -> Sequence[str]:
        """The topics that its records go to, as far as that is known before they are read.

        A large batch with rows to other topics is read again in small ones, if those may have to be created first.
        """
        return ()

    @abstractmethod
    def partitions(self) -> Sequence[SourcePartition]:
        """The source partitions whose offsets `plan` needs."""

    @abstractmethod
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """What to read next, given the stored offset of each of `partitions()`, in their order.

        Cheap and without Spark; None when there is nothing new. The end is fixed before anything is read where the
        outside system can say it.
        """

    @abstractmethod
    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of this plan."""

    def records(self, frame: DataFrame) -> Records:
        """The reader's rows as records, by expressions only; `source_offset` and `split` stay columns of the frame."""
        raise NotImplementedError(f"{type(self).__name__} says by neither records nor records_of what its rows become")

    def row_type_of(self, shape: str) -> StructType:
        """The `row_type` of splits of this shape; splits of other shapes than "" have rows of other types."""
        return self.row_type

    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """`records` of the rows of splits of this shape."""
        return self.records(frame)

    def delivered(self, reached: Sequence[Reached]) -> None:  # noqa: B027 - most have nothing to do
        """This is how far the last plan got, though its offsets may not be stored yet."""

    def undelivered(self) -> None:  # noqa: B027 - most have nothing to do
        """The last plan failed, or will never be read: what was open for it is closed; what it got to is not known."""

    def committed(self, reached: Sequence[Reached]) -> None:  # noqa: B027 - most have nothing to do
        """These offsets are stored."""

    def stop(self) -> None:  # noqa: B027
        """All that was open is closed; called once, after the last batch ended."""


class ArrowWriter(Protocol):
    """Writes the rows of a batch; picklable before its first call, opens what it needs where it runs."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows in order, good ones only.

        Shape: the columns that the task's `project` gives.
        Errors: RecordsFailed where single records are to blame.
        """

    def finish(self) -> bytes:
        """All rows taken are staged or durable; the answer is handed to `commit`. Errors: RecordsFailed."""

    def abort(self) -> None:
        """The batch failed: release what is open."""


class SinkTask(ABC):
    """Writes one outside system in bounded batches; a member of the consumer group `connect-<name>`."""

    place: Place = Place.ANYWHERE

    @abstractmethod
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Ready for partitions; raises when its config or its outside system rule that out."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """These partitions are this task's; where to go on in those for which the outside system knows better.

        That counts whatever Kafka has committed: it may be behind it, after a restore from a backup.
        Errors: RetriableError, then this is asked again.
        """
        return {}

    def recover(self) -> Mapping[TopicPartition, int]:
        """As `open` of all partitions that are open, after a batch *there* failed: its writers may still be at work,
        and from now on can do nothing any more."""
        return {}

    @abstractmethod
    def project(self, records: Records) -> list[Column]:
        """The columns that the writer needs, by expressions over the records' frame."""

    @abstractmethod
    def writer(self, attempt: str) -> ArrowWriter:
        """A writer for one batch (*here*) or one partition of a batch (*there*).

        `attempt` names this try and no other.
        """

    def stager(self, attempt: str) -> ArrowWriter | None:
        """A writer whose rows are nowhere to be seen before `commit`, so that a partition can be written in parts.

        The next one may be asked for, and write, while this one's batch is not committed yet; never a third.
        None, the default: there is none, each partition is written as a whole by `writer`.
        """
        return None

    def commit(self, parts: Sequence[bytes]) -> None:  # noqa: B027
        """What the writers staged is durable; offsets are committed after.

        `parts` is what their `finish` gave, in the order of the partitions' offsets; what is not among them is void.
        """

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> None:  # noqa: B027
        """All before these positions is done with, also records that were not for the writer: Kafka has them next.

        For who keeps offsets itself. Errors: RetriableError, then Kafka gets them later.
        """

    def close(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027
        """These partitions are no longer this task's; their writers have ended."""

    def stop(self) -> None:  # noqa: B027
        """All that was open is closed; called once, after the last batch ended."""


class Decoded(NamedTuple):
    """A column decoded: the value, and why there is none.

    `error` is asked only of rows whose `value` is null, and is null itself where null is the value.
    """

    value: Column
    error: Column


class Encoded(NamedTuple):
    """A column encoded: the bytes, why there are none, and where nobody can say yet."""

    value: Column
    error: Column
    unknown: Column | None = None
    """True for rows of which the converter has to `learn` topic and schema first; None: there can be none."""


Parts = Mapping[str, Column]
"""Columns by what the converter calls them."""
Step = Callable[[Column, Parts], Parts]
"""Makes parts of the bytes and of all the parts made before; null where those are."""


class Converter(Plugin):
    """Bytes in Kafka to Connect values and back, as Column expressions."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Ready; `config` has the prefix stripped and `converter.type` set."""

    most_schemas: int = 1_000
    """How many schemas of bytes a task keeps; beyond, it forgets them all and begins anew."""
    reads_text: ClassVar[bool] = False
    """Whether it is given the bytes as a Spark string that holds them, valid UTF-8 or not: Spark copies binary data
    each time an expression touches it, a string it does not."""

    @property
    def constant_identity(self) -> bytes | None:
        """The identity of all bytes where they have one schema, which then is known from the start; else None."""
        return None

    @abstractmethod
    def identify(self, data: Column) -> Column:
        """What names the schema in these non-null bytes, as binary; a constant where all bytes have one schema."""

    def matches(self, data: Column, identity: bytes) -> Column:
        """Whether `identify(data)` is `identity`; cheaper where that can be said without computing it."""
        return self.identify(data) == F.lit(identity)

    def quick_identity(self, data: Column) -> Column | None:
        """`identify` for bytes of the usual form, null for others; None: there is no quicker way.

        The first program of a task has only the quick ways in it, because what parses every odd form is long to
        compile; a row that they do not serve makes the worker compile the thorough ones.
        """
        return None

    def quick_decode(self, data: Column, identity: bytes, schema: Schema | None) -> Column | None:
        """The value in bytes of the usual form, null for others; None: there is no quicker way than `decode`."""
        return None

    def quick_parts(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to what the quick way looks at again and again, such as the bytes parsed; each is computed once a row.

        `quick_decode_parts` then is asked with all that they made, or `quick_decode` where there are none.
        """
        return ()

    def quick_decode_parts(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column:
        """`quick_decode` by what the `quick_parts` made."""
        raise NotImplementedError(f"{type(self).__name__} has quick_parts but no quick_decode_parts")

    @abstractmethod
    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The schema so named, None for schemaless values; may ask a server; called by the worker only.

        Errors: DataError where these bytes can never be read.
        """

    @abstractmethod
    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The values of non-null bytes that match `identity`, in the Spark type of `schema`; never raises for data."""

    @abstractmethod
    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The bytes (as `value`, binary) of values of this schema, null included; never raises for data."""

    def encode_for(self, topic: Column, value: Column, schema: Schema | None) -> Encoded:
        """`encode` where the bytes depend on the topic that a record goes to; most converters' do not."""
        return Encoded(*self.encode(value, schema))

    def shown(self, data: bytes) -> str | None:
        """One record's bytes as a text for people to look at, without Spark; None: the bytes say it themselves.

        Errors: DataError where they hold no value; RetriableError.
        """
        return None

    def unreadable(self, data: Column) -> Column | None:
        """As a header converter: why these bytes cannot be read, null where they can; None: everything can be."""
        return None

    def learn(self, topic: str, schema: Schema | None) -> None:
        """Values of this schema can be encoded for this topic from now on, or it is known why not; may ask a server.

        Errors: RetriableError, ConfigError.
        """

    def refresh(self) -> bool:
        """What was learned longer ago than it may hold is learned anew; whether bytes are written otherwise now.

        Errors: ConfigError.
        """
        return False

    def close(self) -> None:
        """Nothing is open any more; who waits for a server, in another thread, gets RetriableError."""


class HeaderConverter(Plugin):
    """The values of headers to bytes; every `Converter` can be one, too."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Ready; `config` has the prefix stripped and `converter.type` set."""

    @abstractmethod
    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The bytes of header values of this schema, null included; never raises for data."""

    def unreadable(self, data: Column) -> Column | None:
        """Why these bytes cannot be read, null where they can; None: everything can be."""
        return None

    def close(self) -> None:
        """Nothing is open any more."""


class Transform(Plugin):
    """Changes records by expressions."""

    worker: Mapping[str, Any] = MappingProxyType({})
    """Parsed worker settings that plugins may read, as `TaskContext.worker`; there before `configure`."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Ready.

        Errors: ConfigError.
        """

    @abstractmethod
    def apply(self, records: Records) -> Records:
        """The records changed, and their new schemas; rows stay in place (`drop` filters, `error` fails).

        `records.changed` does all of it, and leaves rows alone that the transform's predicate does not hold for.
        """


class Predicate(Plugin):
    """Says which records a transform applies to."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Ready.

        Errors: ConfigError.
        """

    @abstractmethod
    def test(self, records: Records) -> Column:
        """True for the records it holds for."""
