"""The path of a sink's batch: to find out where a record is, read this file.

    fetch → decode → transform → write → commit offsets

`SinkPipeline` is the inline executor: it takes rows that the task has polled, decodes and transforms them by one set of
expressions (`sink_expressions.py`), compiled as many times as their schemas need (`decoding.py`), and writes them.
`jobs` does the same with ranges of offsets, in Spark jobs (`sink_job.py`), for a backlog. A chain with a Java stage
goes on in `java_stage.py`; its batches are always inline. What the outcome of either counts is durable; the task then
commits its offsets (`tasks/sink.py`, Invariant 1). Beside it: the choice of inline or job (`placement.py`), the rows of
a partition that may be written (`partition_gate.py`), the search for records to blame (`sink_writing.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from headrace.plugins.contracts import SinkTask
from headrace.plugins.extensions import BufferingSink
from headrace.plugins.offsets import TopicPartition
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.kafka.writer import discard_producer
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.decoding import Decoding
from headrace.worker.pipeline.executor import PolledRows
from headrace.worker.pipeline.java_stage import SinkStage
from headrace.worker.pipeline.kafka_frames import KafkaReaders
from headrace.worker.pipeline.placement import SinkPlacement
from headrace.worker.pipeline.scope import TaskScope, asking_converters
from headrace.worker.pipeline.sink_job import SinkJob, SinkJobParts
from headrace.worker.pipeline.sink_jobs import AHEAD, SinkJobs
from headrace.worker.pipeline.sink_writing import Piece, SinkWriting
from headrace.worker.pipeline.trace import trace_records

log = logging.getLogger(__name__)


@dataclass
class SinkPipeline:
    """Moves one sink task's batches to its outside system; for the task's own thread."""

    scope: TaskScope
    decoding: Decoding
    writing: SinkWriting
    placement: SinkPlacement
    readers: KafkaReaders
    jobs: SinkJobs
    retry: RetryTopic | None = None
    java_stage: SinkStage | None = None
    """The Java stage, and what comes after it."""

    @classmethod
    def of(
        cls,
        scope: TaskScope,
        task: SinkTask,
        decoding: Decoding,
        put_class: str,
        kafka_options: Mapping[str, str] | None,
        retry: RetryTopic | None = None,
        java_stage: SinkStage | None = None,
    ) -> SinkPipeline:
        """Build the pipeline from these parts.

        `put_class`: the sink's class, as errors name it; `kafka_options`: of Spark's Kafka source, None if it cannot
        log in.
        """
        attempts = map(f"{scope.about}-{{}}".format, itertools.count(1))
        placement = SinkPlacement(scope.engine, task, kafka_options is not None and java_stage is None)
        writing = SinkWriting(scope, task, put_class, attempts)
        readers = KafkaReaders(kafka_options or {})
        make = partial(SinkJob, SinkJobParts(scope, task, decoding, placement, attempts, readers))
        # A job of a sink that holds rows may end before its range does, so none can be planned after it.
        jobs = SinkJobs(make, scope.stages, most=1 if isinstance(task, BufferingSink) else AHEAD)
        return cls(scope, decoding, writing, placement, readers, jobs, retry, java_stage)

    # -- inline: decode and transform, write ---------------------------------------------------------------------------

    def run(self, work: PolledRows) -> Outcome[TopicPartition]:
        """Write this batch in the worker; rows are left if a partition stopped for good or a search took too long.

        Errors: those of every step.
        """
        if work.rows is None:
            with self.scope.stages.timed("write"):
                return self.writing.write([])
        with self._batch(work.rows, work.failed_before):
            if work.are_retried:
                return self._retried(work.rows)
            outcome = self._written(work.rows, work.failed_before)
        self.placement.batch_done_inline()
        return outcome

    def _written(self, rows: pa.RecordBatch, failed_before: bool) -> Outcome[TopicPartition]:
        trace_records(log, rows)
        later = None if self.retry is None else self.retry.later({})
        pieces = self._decoded(rows)
        with self.scope.stages.timed("write"):
            if failed_before and later is not None:
                return self.writing.write_closely(pieces, later, leave_rest=False)
            return self.writing.write(pieces, later)

    def _retried(self, rows: pa.RecordBatch) -> Outcome[TopicPartition]:
        """Write rows of the retry topic; those that fail with a retriable error return to it."""
        assert self.retry is not None
        originals, attempts = self.retry.originals(rows)
        pieces = self._decoded(originals)
        with self.scope.stages.timed("write"):
            return self.writing.write_closely(pieces, self.retry.later(attempts), leave_rest=True)

    @property
    def held(self) -> Mapping[TopicPartition, int]:
        """The first offset of each partition that the sink holds since the last inline batch."""
        return self.writing.held

    @contextlib.contextmanager
    def _batch(self, rows: pa.RecordBatch, failed_before: bool) -> Iterator[None]:
        """Hold the batch's memory; tell what was reported of its failures, however it ends."""
        with self.scope.engine.memory.take(rows.get_total_buffer_size(), self.scope.stop):
            self.writing.begin(failed_before)
            try:
                yield
            finally:
                self.scope.tell(self.writing.reporter.reported)

    def _decoded(self, rows: pa.RecordBatch) -> list[Piece]:
        """Decode and transform the rows; each part is paired with its raw records. Errors: ConverterAway."""
        with self.scope.stages.timed("convert"):
            with asking_converters():
                decoded = self.decoding.run(rows)
            if self.java_stage is not None:
                decoded = [self.java_stage.run(part) for part in decoded]
        if len(decoded) == 1:
            return [(decoded[0], rows)]
        begins = itertools.accumulate((part.num_rows for part in decoded), initial=0)
        return [(part, rows.slice(begin, part.num_rows)) for part, begin in zip(decoded, begins, strict=False)]

    # -- as Spark jobs -------------------------------------------------------------------------------------------------

    @property
    def may_be_job(self) -> bool:
        """True if a job can do what the last batch needed: one program, and a place among the executors."""
        return self.placement.may_be_job and self.decoding.alone is not None

    def read_anew(self) -> None:
        """Keep later jobs from using what earlier ones fetched: a topic may have been deleted and made again."""
        self.readers.renew()

    # -- before and after all batches ----------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Compile the first program if this is the worker's first sink: that warms the JVM up."""
        pool = self.scope.engine.projections
        if pool.spark.is_ready and pool.is_first("sink"):
            self.decoding.usual_program()

    def close(self) -> None:
        """Send no more dead letters."""
        discard_producer(self.scope.reporting.producer)
