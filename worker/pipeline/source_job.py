"""A source's batch as a Spark job.

    range(splits) -> mapInArrow(reader) -> records, transforms, encode -> mapInArrow(KafkaWriter)

A FrameReader's frame takes the place of the first two; it may cut a split into parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowReader, Plan, SourceTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import FrameReader, SourceProgress, extension
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.plan_cache import Rows
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executor import PlannedBatch
from headrace.worker.pipeline.executors import ProduceTo, ReadFrom
from headrace.worker.pipeline.job import Job, JobCancelled
from headrace.worker.pipeline.job_answer import ANSWER, reached_of
from headrace.worker.pipeline.placement import SourcePlacement
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_producer import SourceProducer


class SourceJob(Job):
    """Reads a plan's splits, encodes and sends their rows."""

    def __init__(
        self, scope: TaskScope, plan: Plan, reader: ArrowReader, encoding: SourceEncoding, to: ProduceTo
    ) -> None:
        super().__init__(scope)
        self._plan = plan
        self._reader = reader
        self._encoding = encoding
        self._to = to

    def run(self) -> Outcome[int]:
        """Move the splits. Errors: JobCancelled, EngineLost, RetriableError; whatever Spark raises."""
        outcome = Outcome[int](by_job=True)
        for row in self._answers(self._plan.bytes // max(1, self._plan.rows)):  # in the order of Spark's partitions
            outcome.add(row.split, reached_of(row))
        return outcome

    def _frame(self, session: SparkSession) -> DataFrame:
        encoded = self._encoded(session)
        return encoded.travelling().mapInArrow(replace(self._to, whole=encoded.whole), ANSWER)

    def _encoded(self, session: SparkSession) -> Rows:
        rows = self._frames(session) if isinstance(self._reader, FrameReader) else self._read_in_python(session)
        parts = [self._encoding.cached_plan(shape).over(frame) for shape, frame in rows]
        return parts[0] if len(parts) == 1 else Rows(reduce(DataFrame.union, (part.frame for part in parts)))

    def _frames(self, session: SparkSession) -> Iterator[tuple[str, DataFrame]]:
        assert isinstance(self._reader, FrameReader)
        for number, split in enumerate(self._plan.splits):
            yield split.shape, self._reader.frame(session, number).withColumn("split", F.lit(number))

    def _read_in_python(self, session: SparkSession) -> Iterator[tuple[str, DataFrame]]:
        """Yield each shape with the rows of its splits, which are read in parallel."""
        splits = self._plan.splits
        numbers = session.range(0, len(splits), 1, len(splits))
        for shape in dict.fromkeys(split.shape for split in splits):
            its = [number for number, split in enumerate(splits) if split.shape == shape]
            chosen = numbers if len(its) == len(splits) else numbers.where(F.col("id").isin(its))
            read = ReadFrom(self._reader, self._encoding.declared(shape))
            yield shape, chosen.mapInArrow(read, self._encoding.row_type(shape))

    def _judged(self, error: Exception) -> Exception:
        return self._reader.translate_error(error) if isinstance(self._reader, FrameReader) else error


class SourceJobs:
    """Runs the large batches of one source task as Spark jobs, one at a time; any thread may call `cancel`."""

    def __init__(
        self,
        scope: TaskScope,
        task: SourceTask,
        encoding: SourceEncoding,
        producer: SourceProducer,
        placement: SourcePlacement,
    ) -> None:
        self._scope = scope
        self._task = task
        self._encoding = encoding
        self._producer = producer
        self._placement = placement
        self._job: SourceJob | None = None

    def run(self, work: PlannedBatch) -> Outcome[int]:
        """Move the plan's splits in parallel. Errors: as `SourceJob.run`; StoppedError."""
        scope = self._scope
        self._job = job = SourceJob(scope, work.plan, work.reader, self._encoding, self._produce_to(work.plan))
        with scope.engine.jobs.take(1, scope.stop):
            scope.stop.raise_if_set("waiting for a turn")
            began = time.monotonic()
            try:
                with scope.stages.timed("job"):
                    outcome = job.run()
            except RetriableError as error:
                if not isinstance(error, EngineLost | JobCancelled):
                    self._placement.job_failed(work.plan)
                raise
        self._placement.job_done(scope.engine.ran(scope.about, outcome), time.monotonic() - began)
        return outcome

    def cancel(self) -> None:
        """End the running job, if any, soon."""
        if self._job is not None:
            self._job.cancel()

    def _produce_to(self, plan: Plan) -> ProduceTo:
        settings, reporting = self._producer.settings(self._task.topics()), self._scope.reporting
        progress = extension(self._task, SourceProgress)
        return ProduceTo(
            settings.config,
            self._scope.tolerate,
            self._producer.topics.known,
            self._producer.topics.closed,
            settings.most_bytes,
            reporting if reporting.wanted else None,
            tuple(split.partition for split in plan.splits),
            rows_share_offsets=progress.rows_share_offsets,
            wants_deliveries=progress.wants_deliveries,
        )
