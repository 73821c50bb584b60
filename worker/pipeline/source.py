"""The way of a source's batch. To find out where a record is, read this file.

    plan → read → transform → encode → produce → store offsets

`SourcePipeline.batch` plans; `_here` does the next four steps in the worker, `_there` does them as a Spark job
(`source_job.py`), with the same expressions (`source_expressions.py`) and the same writer. What `batch` returns is
durable in Kafka, visible or in an open transaction; the task then stores its offsets (`tasks/source.py`, Invariant 1).
Beside it: which of the two places (`placement.py`), expressions compiled and cached (`encoding.py`), a chain with a
Java stage, whose batches are always *here* (`java_stage.py`), producer and topics (`source_producer.py`). What a reader
can copy as it is, from Kafka to Kafka, takes none of these steps, and is copied *here* (`_copied`).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeGuard, cast

import pyarrow as pa

from headrace.plugins.contracts import ArrowReader, CopyingReader, FrameReader, Plan, SourceTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, SourceOffset, Stop, TransactionEnd
from headrace.worker.deadletters.reporting import Reporter
from headrace.worker.deadletters.source_records import report_rows
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import RecordError
from headrace.worker.kafka.writer import KafkaWriter, TopicMissing, discard_producer
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executors import ProduceTo, with_split
from headrace.worker.pipeline.job import JobCancelled
from headrace.worker.pipeline.placement import SourcePlacement
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_job import SourceJob
from headrace.worker.pipeline.source_producer import SourceProducer
from headrace.worker.pipeline.trace import trace_records

log = logging.getLogger(__name__)


class SourceBatch(NamedTuple):
    """How far a batch got."""

    reached: list[PartitionResult]
    """Of each split that had rows."""
    was_there: bool
    """Whether it was a Spark job."""
    bytes: int
    """An estimate."""
    ends_transaction: TransactionEnd | None
    """As its plan has it, where all of it was sent."""
    is_all: bool
    """As its plan says, where all of it was sent."""

    @property
    def rows(self) -> int:
        """How many rows were handled."""
        return sum(one.rows for one in self.reached)

    @property
    def is_empty(self) -> bool:
        """Whether the plan yielded no row, and nothing kept it from that; its offsets may have moved all the same."""
        return not self.rows and not any(one.stop for one in self.reached)


@dataclass
class SourcePipeline:
    """Moves one source task's batches to Kafka; for the task's own thread, but for `cancel`."""

    scope: TaskScope
    task: SourceTask
    encoding: SourceEncoding
    producer: SourceProducer
    placement: SourcePlacement
    _job: SourceJob | None = None

    def batch(self, after: Sequence[SourceOffset | None]) -> SourceBatch | None:
        """Move what follows these offsets; None where the source has nothing new.

        Errors: StoppedError where the task was asked to end before anything was read; those of every step.
        """
        plan = self.task.plan(after, self.placement.limit)
        if plan is None:
            return None
        try:
            self.scope.stop.raise_if_set("planning a batch")  # what was planned may long be another worker's to read
            self.encoding.refresh()
            reader = self.task.reader(plan)
            is_there = False
            if self._may_copy(reader):
                by_split = self._copied(plan, reader)
            elif is_there := self.placement.is_there(plan):
                by_split = self._there(plan, reader)
            else:
                by_split = self._here(plan, reader)
        except BaseException:
            self._undelivered()
            raise
        by_split |= self._empty(plan, by_split)
        reached = [replace(one, source_partition=plan.splits[split].partition) for split, one in by_split.items()]
        self._note_refusals(reached)
        self.producer.topics.written({topic for one in reached if one.written for topic in one.topics})
        self.task.delivered(reached)
        # A stop may have come before anything of a split was read.
        is_whole = len(reached) == len(plan.splits) or not self.scope.stop.is_set()
        is_sent = is_whole and not any(one.stop for one in reached)
        ends_transaction = plan.ends_transaction if is_sent else None
        return SourceBatch(reached, is_there, plan.bytes, ends_transaction, is_sent and plan.is_all)

    # -- here: read, transform and encode, produce ---------------------------------------------------------------------

    def _here(self, plan: Plan, reader: ArrowReader) -> dict[int, PartitionResult]:
        """How far each split got."""
        scope, reporter = self.scope, self._reporter()
        kafka = self._kafka_writer(plan, reporter)
        try:
            for number, split in enumerate(plan.splits):
                declared = self.encoding.declared(split.shape)
                with contextlib.closing(self._read(reader, number)) as batches:
                    for rows in self._until_stopped(batches, kafka, number):
                        with scope.engine.memory.take(rows.get_total_buffer_size(), scope.stop):
                            numbered = with_split(declared.checked(rows), number)
                            encoded = self.encoding.encode(numbered, split.shape, split.partition)
                            trace_records(log, encoded)
                            kafka.write(encoded)
                if scope.stop.is_set():
                    break
            return self._whole_groups(kafka.finish())
        except BaseException as error:
            self.producer.discard_queued()
            if isinstance(error, TopicMissing):
                raise self.producer.topics.missed(error) from error
            raise
        finally:
            if reporter is not None:
                scope.tell(reporter.reported)

    def _read(self, reader: ArrowReader, split: int) -> Generator[pa.RecordBatch, None, None]:
        """The split's rows; a reader that works in the driver's JVM fails with EngineLost when the driver is lost."""
        in_driver = issubclass(type(reader), FrameReader)  # unlike isinstance it is quick where that is not so
        with self.scope.engine.projections.spark.using() if in_driver else contextlib.nullcontext():
            yield from reader.read(split)

    def _until_stopped(
        self, batches: Iterator[pa.RecordBatch], kafka: KafkaWriter, split: int
    ) -> Iterator[pa.RecordBatch]:
        """The split's rows up to where the task was asked to stop, which breaks off what they are read by.

        A split that was read to its end counts as a whole, even if the task was asked to stop meanwhile.
        """
        stop = self.scope.stop
        try:
            for rows in batches:
                if stop.is_set():
                    break
                yield rows
            else:
                return
        except Exception as error:
            if not stop.is_set():
                raise
            log.info("%s: the stop broke off reading: %s", self.scope.about, error)
        kafka.end(split, "the task was asked to stop")

    def _whole_groups(self, reached: dict[int, PartitionResult]) -> dict[int, PartitionResult]:
        """How far the splits got, where no split sent rows that it does not count.

        Rows with equal offsets count together. Of a split that stopped between them the first were sent, and would be
        committed with a transaction and come again: none of the batch is.

        Errors: RecordError, RetriableError.
        """
        if self.producer.transactions is None or not self.task.offsets_repeat:
            return reached
        for one in reached.values():
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)
            if one.stop is not None:
                self._note_refusals(list(reached.values()))
                raise RetriableError(one.reason)
        return reached

    def _kafka_writer(self, plan: Plan, reporter: Reporter | None) -> KafkaWriter:
        settings = self.producer.settings(self.task.topics())
        report = None if reporter is None else partial(report_rows, reporter, [s.partition for s in plan.splits])
        return KafkaWriter(
            self.producer.opened(settings),
            self.scope.tolerate,
            exact=True,
            may_go_to=self.producer.topics.ensure,
            atomic=self.producer.transactions is not None,
            most_bytes=settings.most_bytes,
            report=report,
            offsets_repeat=self.task.offsets_repeat,
            stop=self.scope.stop,
        )

    def _reporter(self) -> Reporter | None:
        return Reporter(self.scope.reporting, self.scope.stop) if self.scope.reporting.wanted else None

    # -- there: the same steps as a Spark job --------------------------------------------------------------------------

    def _there(self, plan: Plan, reader: ArrowReader) -> dict[int, PartitionResult]:
        """How far each split got."""
        scope = self.scope
        self._job = job = SourceJob(scope, plan, reader, self.encoding, self._produce_to(plan))
        with scope.engine.jobs.take(1, scope.stop):
            scope.stop.raise_if_set("waiting for a turn")
            began = time.monotonic()
            try:
                reached = job.run()
            except RetriableError as error:
                if not isinstance(error, EngineLost | JobCancelled):
                    self.placement.job_failed(plan)
                raise
        self.placement.job_done(scope.engine.ran(scope.about, reached.values()), time.monotonic() - began)
        return reached

    def _produce_to(self, plan: Plan) -> ProduceTo:
        settings, reporting = self.producer.settings(self.task.topics()), self.scope.reporting
        return ProduceTo(
            settings.config,
            self.scope.tolerate,
            self.producer.topics.known,
            self.producer.topics.closed,
            settings.most_bytes,
            reporting if reporting.wanted else None,
            tuple(split.partition for split in plan.splits),
            offsets_repeat=self.task.offsets_repeat,
            wants_deliveries=self.task.wants_deliveries,
        )

    # -- copied, where nothing changes the source's bytes --------------------------------------------------------------

    def _may_copy(self, reader: ArrowReader) -> TypeGuard[CopyingReader]:
        return (
            self.producer.transactions is None
            and issubclass(type(reader), CopyingReader)
            and self.encoding.keeps_bytes
            and cast(CopyingReader, reader).can_copy(self.producer.client)
        )

    def _copied(self, plan: Plan, reader: CopyingReader) -> dict[int, PartitionResult]:
        """Have the reader copy the splits; how far each got.

        Decided: never as a job, because the brokers are the bound, and copying takes half a core (6,000,000 records of
        170 bytes by two tasks: 1,250,000 a second *here*, 740,000 to 950,000 as jobs, which begin with connections of
        their own; 2 cores, both brokers beside it); loses: a Spark cluster's network, if it is nearer to the brokers.
        """
        self.producer.topics.ensure(self.task.topics())
        reached = dict(reader.copy(range(len(plan.splits)), self.producer.client, self.scope.stop))
        self.scope.engine.copied(reached.values())
        return reached

    # -- before, between and after batches -----------------------------------------------------------------------------

    def _note_refusals(self, reached: Sequence[PartitionResult]) -> None:
        """Let the next batch be small where Kafka refused records; missing topics are created, and need no search."""
        misses_topics = self.producer.misses_topics(reached)
        if not any(one.stop is Stop.RETRY for one in reached):
            self.placement.batch_done()
        elif not misses_topics:
            self.placement.batch_refused()

    def _empty(self, plan: Plan, by_split: Mapping[int, PartitionResult]) -> dict[int, PartitionResult]:
        """How far the splits got that yielded no row; nothing where the stop may have broken off their reading."""
        if self.scope.stop.is_set():
            return {}
        empty = ((number, split.offset_if_empty) for number, split in enumerate(plan.splits) if number not in by_split)
        return {number: PartitionResult(source_offset=offset) for number, offset in empty if offset is not None}

    def _undelivered(self) -> None:
        """Tell the plugin that its plan failed; an error in doing so is logged, the original one raised."""
        try:
            self.task.undelivered()
        except Exception as error:
            log.warning("%s: what was open for a failed batch could not be closed: %s", self.scope.about, error)

    def warm_up(self) -> None:
        """Let the first of a worker's sources warm the JVM up while nothing waits for it."""
        self.encoding.warm_up()

    def listen(self) -> None:
        """Note what the producer reports; to be called also while the source gives nothing."""
        self.producer.listen()

    def cancel(self) -> None:
        """End the job that runs, if any, soon; any thread may call."""
        if self._job is not None:
            self._job.cancel()

    def close(self) -> None:
        """Send nothing more."""
        self.producer.close()
        discard_producer(self.scope.reporting.producer)
