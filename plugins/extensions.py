"""Extensions of the contracts: what a plugin may do beyond them; the worker looks for each of these interfaces.

A task, reader or converter inherits those that it needs beside its contract, and overrides what it needs of them.

    source task   PacedSource          when `plan` is called
                  SourceProgress       how far its batches got, and which offsets count
                  RowsOfSeveralTypes   rows of several types in one batch
                  PreviewedSource      reading for a preview, without an effect
                  HeaderValues         headers that are values, which the header converter writes
    its reader    FrameReader          Spark reads, through the JVM
                  CopyingReader        whole batches of Kafka are copied
    sink task     PartitionedSink      partitions that come and go, offsets kept outside of Kafka
                  StagingSink          rows that stay invisible until `commit`
                  BufferingSink        rows held over several batches
                  PreviewedSink        what it would write, without writing it
    any task      Measured             metrics of its own
    converter     TopicEncoding        bytes that depend on the topic
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.contracts import ArrowReader, ArrowWriter, Encoded, TaskContext
from headrace.plugins.offsets import (
    Deliveries,
    PartitionResult,
    SourceOffset,
    SourcePartition,
    TopicPartition,
)
from headrace.plugins.records import Records
from headrace.plugins.samples import Sample
from headrace.plugins.schema import Schema
from headrace.plugins.stopping import StopToken

Extension = TypeVar("Extension")


def extension(plugin: object, interface: type[Extension]) -> Extension:
    """Return the plugin if it has this interface, else the interface's defaults."""
    return plugin if isinstance(plugin, interface) else interface()


def check_extensions(task: object, interfaces: Sequence[type]) -> None:
    """Refuse a task with a method of an interface that it does not inherit: nobody would call it. Errors: TypeError."""
    for interface in interfaces:
        names = [name for name in vars(interface) if not name.startswith("_") and hasattr(task, name)]
        if names and not isinstance(task, interface):
            kind, wanted = type(task).__qualname__, interface.__name__
            raise TypeError(
                f"{kind} has {', '.join(names)}, but does not inherit {wanted} (headrace.plugins.extensions), so that "
                f"it would never be used. Write `class {kind}({type(task).__bases__[0].__name__}, {wanted})`, or "
                "choose other names."
            )


class Measured:
    """Extension of a task with metrics of its own."""

    def samples(self) -> Iterable[Sample]:
        """Return the task's own metrics; called for scrapes, on other threads, while the task runs."""
        return ()


# -- sources -----------------------------------------------------------------------------------------------------------


class PacedSource:
    """Extension of a source task that knows when `plan` is worth a call."""

    waits_for_news: bool = False
    """True if `plan` itself waits for new data, for at most half a second; it is then called again without a pause."""
    coalesces: bool = False
    """True if the next plan covers everything that arrives meanwhile.

    Between small batches in quick succession the task then pauses for 5 to 100 ms, so that batches are fewer.
    """

    @property
    def tells_of_news(self) -> bool:
        """True if it calls `context.wake` once there is new data; read after each `plan` that found nothing.

        The next `plan` then comes after five seconds, unless something wakes the task earlier.
        """
        return False


class SourceProgress:
    """Extension of a source task that follows how far its batches got; called on the task's thread."""

    wants_deliveries: Deliveries = Deliveries.NONE
    """Rows whose position in Kafka is reported to `delivered` and `offsets_reached`; set before `start` returns."""
    rows_share_offsets: bool = False
    """True if consecutive rows may have equal offsets; such rows count only all together."""

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Receive how far the last plan got; called once, before its offsets are stored, unless the plan failed."""

    def undelivered(self) -> None:
        """Close what is open for the last plan, which failed or will never be read. Errors are logged."""

    def offsets_reached(self, reached: PartitionResult) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Return the offsets to store for this result; by default the last row's offset for its partition.

        For a source whose rows are in one order but belong to several source partitions: there `source_offset` only
        names a row. An offset of None forgets its partition. Called once for each split of a batch, after `delivered`.
        """
        if reached.source_partition is None or reached.source_offset is None:
            return ()
        return ((reached.source_partition, reached.source_offset),)

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Receive offsets that are now stored; called in the order of batches, before a later plan or the end.

        A RetriableError has the worker pause; it does not call again for the same offsets. Results have no
        `acknowledged` rows here: `delivered` had them.
        """


class RowsOfSeveralTypes(ABC):
    """Extension of a source task whose rows are of several types, such as those of several tables.

    Splits name their type in `Split.shape`. The two methods replace `row_type` and `records`.
    """

    @abstractmethod
    def row_type_of(self, shape: str) -> pa.Schema:
        """Return the columns of rows of this shape, as `SourceTask.row_type`; called when a batch of it is read."""

    @abstractmethod
    def records_of(self, frame: DataFrame, shape: str) -> Records:
        """Turn the rows of this shape into records, as `SourceTask.records`."""


class PreviewedSource(ABC):
    """Extension of a source task that can be read without an effect outside, for a preview.

    A preview makes a task of its own and calls, on one thread and in this order: `start_preview` in place of `start`,
    `partitions`, `plan` until it finds something, for some seconds at most, `reader` and `read` until there are enough
    rows, and at last `stop`, also after an error. It stores no offset and calls no hook of `SourceProgress`.
    """

    @abstractmethod
    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to plan, with the connector's config; may call `start` if that changes nothing.

        Errors: as `start`; NotImplementedError if reading with this config would change something: its text says what.
        """


class HeaderValues(ABC):
    """Extension of a source task whose records have headers that are values, which the header converter writes."""

    @abstractmethod
    def header_values(self, records: Records) -> Mapping[str, tuple[Column, Schema]]:
        """Return headers by name, with their values' schemas, of what `SourceTask.records` returned."""


@runtime_checkable
class FrameReader(ArrowReader, Protocol):
    """Reads through the JVM: in a job Spark itself reads; inline `read` may work in the driver's JVM."""

    def frame(self, session: SparkSession, split: int) -> DataFrame:
        """Return what `read` of this split yields, as a frame; called in the driver, for a job, once for each split.

        Rows with equal offsets must not span partitions. Partitions run in any order; one counts only after all before
        it.
        """

    def translate_error(self, error: Exception) -> Exception:
        """Return the error behind the failure of a job that read such frames: another one, or `error` itself."""


@runtime_checkable
class CopyingReader(ArrowReader, Protocol):
    """Copies splits to Kafka unchanged, as Kafka's own batches, if its connector changes no record.

    Used in place of `read` if the connector has no transforms, its converters keep bytes as they are
    (`Converter.keeps_bytes`), and nothing asks for failed records.
    """

    def can_copy(self, target: ClientConfig) -> bool:
        """Return True if the splits can be copied unchanged to this producer's cluster; otherwise they are read.

        Called for each plan, before any of it is written. Errors: ConfigError if nothing may go to this cluster.
        """

    def copy(self, splits: Sequence[int], target: ClientConfig, stop: StopToken) -> Mapping[int, PartitionResult]:
        """Copy these splits of the plan; return the result of each one that made progress or was stopped.

        Called on the task's thread. All up to a result must be durable and in the partition's order. A split that
        cannot go on ends with RETRY or AS_RECORDS.

        Errors: RetriableError if none can go on.
        """


# -- sinks -------------------------------------------------------------------------------------------------------------


class PartitionedSink:
    """Extension of a sink task that keeps something for each partition, such as its offset in the outside system."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take these partitions; return offsets for those that the outside system knows better than Kafka.

        Called at each assignment with the new partitions only, before their records are fetched. Returned offsets
        override those committed in Kafka; they may be lower, for example after a restore from a backup.

        Errors: RetriableError, then it is called again.
        """
        return {}

    def recover(self) -> Mapping[TopicPartition, int]:
        """Fence the writers of a failed job, which may still be running; return as `open`, for all partitions.

        Called once after each such batch, before the next.
        """
        return {}

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Learn that everything before these positions is done, including records that the writer never got.

        Called every `offset.flush.interval.ms` and when partitions are revoked, before the positions are committed to
        Kafka. Return the offsets that may be committed now, if rows become durable later than their batch. A partition
        left out is not committed and comes again in the next call. None, the default: all may be committed.

        Errors: RetriableError, then Kafka gets the positions later.
        """
        return None

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up these partitions; called once for each, after their writers have ended. Errors are logged."""


class StagingSink(ABC):
    """Extension of a sink task that writes a partition in parts, and the next batch while this one is committed.

    It must not bind anything to a thread: a thread that several tasks share writes its small batches.
    """

    @abstractmethod
    def staging_writer(self, attempt: str) -> ArrowWriter | None:
        """Return a writer whose rows stay invisible until `commit`, so that a partition can be written in parts.

        Called before each job. The next job may get one and write while the commit of this one is pending, but never a
        third. None: `writer` writes each partition as a whole.
        """


class BufferingSink(ABC):
    """Extension of a sink task that collects rows over several inline batches, such as for whole files.

    Rows are held in the task, not in its writers. They are durable once `commit` no longer returns their offset. Held
    rows are thrown away if the task fails, ends or continues by jobs: Kafka still has them. Jobs do not overlap.
    """

    @abstractmethod
    def due_s(self) -> float | None:
        """Return in how many seconds a batch without rows would make something durable; None: only rows can."""

    @abstractmethod
    def drop(self) -> None:
        """Throw away all held rows; they come again."""

    @abstractmethod
    def job_ranges(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the offset ranges, end excluded, that a job is to read; empty if the job would make nothing durable.

        A range may be shorter, if a job would throw the rest away, or extend up to `ends`, if less is of no use.
        """

    def job_step(self) -> int | None:
        """Return the offset multiples at which a job may cut a partition's range to write its parts in parallel.

        `commit` then gets one part for each piece. It takes those up to the first that holds rows, and returns the
        offset of that one. None: one writer writes the whole partition.
        """
        return None

    def discard(self, parts: Sequence[bytes]) -> None:  # noqa: B027 - most have nothing to remove
        """Remove staged rows that come after the row at which their partition stopped; they come again.

        Called before the `commit` of the same batch. Errors: as `commit`.
        """


@dataclass(frozen=True)
class Effect:
    """One thing that a sink would do outside."""

    action: str
    """A verb of the outside system, such as `insert`, `append` or `POST`."""
    target: str
    """The name of what it is done to, such as a table or a file, without secrets."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """The rest, such as the statement and its parameters; values that JSON lacks are shown as text."""
    row: int | None = None
    """The index of the record among the rows of `preview`; None: done for several records, such as a new table."""


class PreviewedSink(ABC):
    """Extension of a sink task that says what it would write.

    A preview makes a task of its own and calls, on one thread and in this order: `start_preview` in place of `start`,
    `columns` of `SinkTask`, `preview`, `preview_notes`, and at last `stop`, also after an error. It calls no writer and
    no other method. All of these change nothing outside: no row, file, topic, offset, lock or login state.
    """

    @abstractmethod
    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare for `columns` and `preview`; may be `start` itself if that changes nothing. Errors: as `start`."""

    @abstractmethod
    def preview(self, batches: Sequence[pa.RecordBatch]) -> Iterator[Effect]:
        """Yield what a writer would do with these rows, in its order; called once.

        Shape: as `ArrowWriter.write`, mostly one batch; a row's index is counted over all of them.

        Errors: RecordsFailed, last, for rows that a writer would refuse, their indexes as in `Effect.row`; the effects
        yielded before are those of all other rows. RetriableError, or any other, if a writer would fail with it.
        """

    def preview_notes(self) -> Sequence[str]:
        """Return what a reader of the effects has to know beside them, a sentence each."""
        return ()


# -- converters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegisteredSchema:
    """The schema with which a registry's converter writes."""

    subject: str
    text: str
    id: int | None
    """None if the registry does not have it yet."""
    refusal: str | None = None
    """The reason that the registry would not take it; None if it has or would take it."""


class TopicEncoding(ABC):
    """Extension of a converter whose bytes depend on the topic that a record goes to."""

    only_asks: bool | None = None
    """Set to True before `configure` for a preview: `learn` then changes nothing, such as by registering a schema.

    None on a class that cannot promise this: its values are not converted in previews.
    """

    def registered(self, topic: str, schema: Schema | None) -> RegisteredSchema | None:
        """Return what `learn` found out for this topic and schema; None without a registry."""
        return None

    @abstractmethod
    def encode_for(self, topic: Column, value: Column, schema: Schema | None) -> Encoded:
        """Return the encoded values by topic; called instead of `Converter.encode`."""

    @abstractmethod
    def learn(self, topic: str, schema: Schema | None) -> None:
        """Find out how values of this schema are encoded for this topic, or why they cannot be; may ask a server.

        Called on the task's thread, once for each pair that `Encoded.unknown` marked.

        Errors: RetriableError, ConfigError.
        """

    def refresh(self) -> bool:
        """Learn again what was learned too long ago; return True if bytes are now written differently.

        Called before each batch of a source. Errors: ConfigError.
        """
        return False


class HeaderFraming(ABC):
    """Extension of a converter whose records may name their schema in a header."""

    @abstractmethod
    def framed(self, data: Column, headers: Column) -> Column:
        """Return the bytes as all other methods of the converter get them; null for null bytes without such a header.

        Shape: `headers` as in `Records`.
        """


OF_SOURCES: Final = (PacedSource, SourceProgress, RowsOfSeveralTypes, PreviewedSource, HeaderValues, Measured)
OF_SINKS: Final = (PartitionedSink, StagingSink, BufferingSink, PreviewedSink, Measured)
"""The extensions that the worker looks for in source tasks and in sink tasks."""
