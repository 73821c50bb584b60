"""The part of a job in Spark's Python workers: reads splits, sends rows to Kafka, writes rows with a sink.

It is pickled in the driver, and a Python worker imports this module with it, so nothing that only the driver needs
belongs here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from headrace.config.worker.internal_topics import ALL_OPEN, InternalTopics
from headrace.plugins.contracts import ArrowReader, ArrowWriter
from headrace.plugins.errors import RecordsFailed, RetriableError
from headrace.plugins.interop.catalyst.liveness import report_liveness
from headrace.plugins.offsets import Deliveries, PartitionResult, SourcePartition, Stop
from headrace.plugins.source_rows import DeclaredRows
from headrace.worker.deadletters.reporting import DeadLetterError, Reporter, Reporting
from headrace.worker.deadletters.source_records import report_rows
from headrace.worker.engine.plan_cache import NOTHING_LEFT_OUT, Whole
from headrace.worker.kafka.writer import (
    MOST_BYTES,
    KafkaWriter,
    ProduceError,
    check_open,
    discard_producer,
    kept_producer,
)
from headrace.worker.logging.logs import set_up_child
from headrace.worker.machine.kept_memory import keep_freed_memory
from headrace.worker.pipeline.job_answer import answer
from headrace.worker.pipeline.partition_gate import PartitionGate, Reports

LOGS_OF: Final = "headrace.log.context"
"""The local property of a job that names its task in the log lines of its Python workers."""


@dataclass(frozen=True)
class ReadFrom:
    """Reads the splits with the given numbers in a Python worker."""

    reader: ArrowReader
    declared: DeclaredRows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these splits, each with its split's number."""
        _begin()
        for batch in batches:
            for split in batch.column(0).to_pylist():
                for rows in self.reader.read(split):
                    yield with_split(self.declared.checked(rows), split)


def with_split(rows: pa.RecordBatch, split: int) -> pa.RecordBatch:
    """Add the column `split` (int32) to these rows."""
    column = pa.repeat(pa.scalar(split, pa.int32()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, column], names=[*rows.schema.names, "split"])


@dataclass(frozen=True)
class ProduceTo:
    """Sends a partition's rows to Kafka from a Python worker."""

    producer: Mapping[str, Any]
    """The librdkafka configuration."""
    tolerate: bool
    topics: frozenset[str] | None = None
    """Topics that exist for certain; rows to others are left to an inline batch. None: all may be written to."""
    closed: InternalTopics = ALL_OPEN
    """The topics that no row may go to."""
    most_bytes: int = MOST_BYTES
    """The largest record batch that the topics take."""
    reporting: Reporting | None = None
    """Reports bad rows; None: not at all."""
    partitions: tuple[SourcePartition, ...] = ()
    """The source partition of each split."""
    whole: Whole = NOTHING_LEFT_OUT
    rows_share_offsets: bool = False
    wants_deliveries: Deliveries = Deliveries.NONE

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send the rows. Shape: `ANSWER`, a row a split."""
        _begin()
        reporter = None if self.reporting is None else Reporter(self.reporting)
        writer = KafkaWriter(
            kept_producer(self.producer, self.wants_deliveries),
            tolerate=self.tolerate,
            exact=False,
            may_go_to=self._may_go_to,
            most_bytes=self.most_bytes,
            report=None if reporter is None else partial(report_rows, reporter, self.partitions),
            rows_share_offsets=self.rows_share_offsets,
        )
        current = 0
        try:
            for batch in batches:
                rows = self.whole.rows(batch)
                current = rows["split"][0].as_py() if rows.num_rows else current
                writer.write(rows)
            for split, reached in writer.finish().items():
                yield answer(reached, reporter, split=split)
                reporter = None
        except (ProduceError, DeadLetterError) as error:
            discard_producer(self.producer)
            yield answer(PartitionResult(stop=Stop.FATAL, reason=str(error)), reporter, split=current)
        except BaseException:
            discard_producer(self.producer)
            raise

    def _may_go_to(self, topics: Collection[str]) -> bool:
        check_open(self.closed, topics)
        return self.topics is None or self.topics.issuperset(topics)


@dataclass(frozen=True)
class WriteTo:
    """Writes a Kafka partition's rows with a sink's writer from a Python worker."""

    writer: ArrowWriter
    tolerate: bool
    staged: bool = False
    reporting: Reporting | None = None
    """Reports bad records, whose bytes then are in `_stop`; None: not at all."""
    whole: Whole = NOTHING_LEFT_OUT

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows. Shape: `ANSWER`, a row a Kafka partition; the first one carries the staged part."""
        _begin()
        reporter = None if self.reporting is None else Reporter(self.reporting)
        gate, first = PartitionGate(self.writer, self.tolerate, Reports(reporter)), None
        try:
            for rows in batches:
                first = rows["_offset"][0].as_py() if first is None and rows.num_rows else first
                gate.write(self.whole.rows(rows))
            part: bytes | None = gate.finish()
        except (RetriableError, RecordsFailed, DeadLetterError) as error:
            # An inline batch finds out which records failed: it has all of them at hand.
            self.writer.abort()
            stop = Stop.FATAL if isinstance(error, DeadLetterError) else Stop.RETRY
            yield answer(PartitionResult(stop=stop, reason=str(error)), reporter)
            return
        except BaseException:
            self.writer.abort()
            raise
        for reached in gate.reached():
            yield answer(reached, reporter, part=part, first=first)
            part = reporter = None


def _begin() -> None:
    """Report liveness, keep freed memory, and log in the context of the thread that runs the job."""
    report_liveness()
    keep_freed_memory()
    task = TaskContext.get()
    assert task is not None, "only Spark's Python workers begin so"
    if task.attemptNumber():
        # Spark repeats the work of an executor with a lost host, whatever it wrote; the worker knows where to go on.
        raise RetriableError("an executor was lost with its host, and the batch begins anew")
    set_up_child(task.getLocalProperty(LOGS_OF) or "")
