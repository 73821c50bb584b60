"""A source's batch inline: read, transformed, encoded and produced; or copied as it is."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import pyarrow as pa

from headrace.plugins.contracts import ArrowReader, Plan, SourceTask
from headrace.plugins.extensions import CopyingReader, FrameReader, SourceProgress, extension
from headrace.worker.deadletters.reporting import Reporter
from headrace.worker.deadletters.source_records import report_rows
from headrace.worker.kafka.writer import KafkaWriter, TopicMissing
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executor import PlannedBatch
from headrace.worker.pipeline.executors import with_split
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_producer import SourceProducer
from headrace.worker.pipeline.trace import trace_records

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InlineSource:
    """Runs the batches of one source task on the task's own thread."""

    scope: TaskScope
    task: SourceTask
    encoding: SourceEncoding
    producer: SourceProducer

    def run(self, work: PlannedBatch) -> Outcome[int]:
        """Move the plan's splits one after the other. Errors: those of every step."""
        reporter = Reporter(self.scope.reporting, self.scope.stop) if self.scope.reporting.wanted else None
        kafka = self._kafka_writer(work.plan, reporter)
        try:
            for number in range(len(work.plan.splits)):
                self._send(work, number, kafka)
                if self.scope.stop.is_set():
                    break
            with self.scope.stages.timed("write"):
                return Outcome(kafka.finish())
        except BaseException as error:
            self.producer.discard_queued()
            if isinstance(error, TopicMissing):
                raise self.producer.topics.missed(error) from error
            raise
        finally:
            if reporter is not None:
                self.scope.tell(reporter.reported)

    def _send(self, work: PlannedBatch, number: int, kafka: KafkaWriter) -> None:
        scope, split = self.scope, work.plan.splits[number]
        declared = self.encoding.declared(split.shape)
        with contextlib.closing(self._read(work.reader, number)) as batches:
            for rows in self._until_stopped(scope.stages.each("read", batches), kafka, number):
                scope.stages.takes(rows.num_rows)
                with scope.engine.memory.take(rows.get_total_buffer_size(), scope.stop):
                    with scope.stages.timed("convert"):
                        numbered = with_split(declared.checked(rows), number)
                        encoded = self.encoding.encode(numbered, split.shape, split.partition)
                    trace_records(log, encoded)
                    with scope.stages.timed("write"):
                        kafka.write(encoded)

    def _read(self, reader: ArrowReader, split: int) -> Generator[pa.RecordBatch, None, None]:
        """Read the split. Errors: EngineLost if the reader works in the driver's JVM and the driver is lost."""
        in_driver = issubclass(type(reader), FrameReader)  # quick for other classes, unlike isinstance
        with self.scope.engine.projections.spark.using() if in_driver else contextlib.nullcontext():
            yield from reader.read(split)

    def _until_stopped(
        self, batches: Iterator[pa.RecordBatch], kafka: KafkaWriter, split: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the split's rows until the task is asked to stop, which breaks off the reading.

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
            rows_share_offsets=extension(self.task, SourceProgress).rows_share_offsets,
            stop=self.scope.stop,
        )


@dataclass(frozen=True)
class CopiedSource:
    """Has readers copy a source task's batches from Kafka to Kafka, because nothing changes their bytes.

    Decided: never as a job, because the brokers are the bound, and copying takes half a core (6,000,000 records of 170
    bytes by two tasks: 1,250,000 a second inline, 740,000 to 950,000 as jobs, which begin with connections of their
    own; 2 cores, both brokers beside it); loses: a Spark cluster's network, if it is nearer to the brokers.
    """

    scope: TaskScope
    task: SourceTask
    encoding: SourceEncoding
    producer: SourceProducer

    def takes(self, reader: ArrowReader) -> bool:
        """True if this reader can copy, and all its rows go to Kafka as they are. Errors: as `can_copy`."""
        if not issubclass(type(reader), CopyingReader):
            return False
        # Asked in any case: the reader may refuse the cluster, whatever way its rows take.
        can_copy = cast(CopyingReader, reader).can_copy(self.producer.client)
        return can_copy and self.producer.transactions is None and self.encoding.keeps_bytes

    def run(self, work: PlannedBatch) -> Outcome[int]:
        """Have the reader copy the splits."""
        self.producer.topics.ensure(self.task.topics())
        reader, splits = cast(CopyingReader, work.reader), range(len(work.plan.splits))
        with self.scope.stages.timed("copy"):
            outcome = Outcome(reader.copy(splits, self.producer.client, self.scope.stop))
        self.scope.engine.copied(outcome)
        return outcome
