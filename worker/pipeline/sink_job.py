"""A sink's batch as a Spark job, on a thread of its own, so that the thread that owns the consumer can poll on.

    Kafka source -> decode, transforms, project -> mapInArrow(PartitionGate over the sink's writer) -> commit

A job may be planned, and write if its sink stages, before the job ahead of it is committed. It becomes visible only
after all ahead of it was done (Invariant 4). If that failed or stopped, the job is discarded and its rows come again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from headrace.plugins.contracts import ArrowWriter, SinkTask
from headrace.plugins.errors import RetriableError, StoppedError
from headrace.plugins.extensions import BufferingSink, StagingSink
from headrace.plugins.offsets import Stop, TopicPartition
from headrace.worker.deadletters.reporting import DeadLetterError
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.plan_cache import CachedPlan
from headrace.worker.outcome import Outcome, hold, read_to
from headrace.worker.pipeline.decoding import Decoding
from headrace.worker.pipeline.executor import Ranges
from headrace.worker.pipeline.executors import WriteTo
from headrace.worker.pipeline.job import Job, JobCancelled, rows_at_once
from headrace.worker.pipeline.job_answer import ANSWER, reached_of
from headrace.worker.pipeline.kafka_frames import HEADERS, KafkaReaders, in_parts, kafka_rows
from headrace.worker.pipeline.placement import SinkPlacement
from headrace.worker.pipeline.scope import TaskScope

log = logging.getLogger(__name__)

_CANCEL_S: Final = 30.0
"""The time in which a cancelled job should end."""


@dataclass(frozen=True)
class SinkJobParts:
    """The parts that all jobs of one sink task use."""

    scope: TaskScope
    task: SinkTask
    decoding: Decoding
    placement: SinkPlacement
    attempts: Iterator[str]
    """Names, one for each attempt."""
    readers: KafkaReaders


class Written(NamedTuple):
    """The result of a job before it is committed."""

    outcome: Outcome[TopicPartition]
    parts: list[bytes]
    """The parts that its writers staged."""
    in_vain: Sequence[bytes] = ()
    """Parts after the row at which their partition stopped."""


class SinkJob(Job):
    """Reads these offsets, decodes and writes them; commits after the job ahead. Begins with `start`.

    A partition that stops at an unknown schema goes on in a later job.
    """

    def __init__(self, parts: SinkJobParts, ranges: Ranges, row_bytes: int, ahead: SinkJob | None) -> None:
        """`row_bytes`: the largest size of a record, to bound the rows in memory."""
        super().__init__(parts.scope)
        self.ranges = ranges
        self.began = monotonic()
        self._parts = parts
        self._row_bytes = row_bytes
        self._ahead = ahead
        self._attempt = next(parts.attempts)
        self._turn = parts.scope.stop.child()
        self._outcome = Outcome[TopicPartition]()
        self._error: BaseException | None = None
        # In its task's context, so that the log's lines name the task.
        work = copy_context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name="sink-job", daemon=True)

    # -- for the task's thread -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; called once."""
        self._thread.start()

    def done(self) -> bool:
        """True once the job has ended."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """As `Job.cancel`; also ends the wait for its turn. Nothing is committed unless the commit has begun."""
        self._turn.set()
        super().cancel()

    def cancel_after(self, seconds: float) -> None:
        """Wait `seconds` for the job to end, then cancel it and wait again.

        A job that does not end in time still runs: `result` waits for it, however long, because nobody else may write
        its rows while it may.
        """
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.cancel()
            self._thread.join(_CANCEL_S)

    def result(self) -> Outcome[TopicPartition]:
        """Wait until the job has ended and return its outcome. Errors: those of `run`."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._outcome

    # -- for its own thread --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._outcome = self.run()
        except BaseException as error:
            self._error = error

    def run(self) -> Outcome[TopicPartition]:
        """Move the ranges. Errors: JobCancelled if this job is discarded; else those of its steps.

        A discarded job fails because it was cancelled, or as the job ahead did; that one's retry covers both.
        """
        try:
            return self._run()
        except (JobCancelled, StoppedError):
            raise JobCancelled(self.scope.about) from None
        except Exception as error:
            if self._is_discarded():
                log.info("A discarded job failed: %s", error)
                raise JobCancelled(str(error)) from error
            if isinstance(error, RetriableError) and not isinstance(error, EngineLost):
                self._parts.placement.job_failed()
            raise
        finally:
            self._ahead = None  # or each job would keep all before it

    def _run(self) -> Outcome[TopicPartition]:
        overtakes = self._may_overtake
        if not overtakes:
            self._wait_for_job_ahead()
        with self.scope.engine.jobs.take(1, self._turn):
            self._turn.raise_if_set("waiting for a turn")
            written = self._read_and_write()
        if overtakes:
            self._wait_for_job_ahead()
        task = self._parts.task
        if written.in_vain and isinstance(task, BufferingSink):
            task.discard(written.in_vain)
        hold(written.outcome, task.commit(written.parts) or {})
        self._learn(written.outcome)
        return written.outcome

    # -- the steps -----------------------------------------------------------------------------------------------------

    @property
    def _may_overtake(self) -> bool:
        """True if it may write before the job ahead ends: it stages, and no dead letter may outrun a failure."""
        return self._staging_writer is not None and (self.scope.tolerate or not self.scope.reporting.wanted)

    def _wait_for_job_ahead(self) -> None:
        """Errors: JobCancelled if this job is discarded."""
        if self._is_discarded():
            raise JobCancelled(self.scope.about)

    def _is_discarded(self) -> bool:
        """True if nothing of this job may become visible; waits for the job ahead."""
        return (self._ahead is not None and not self._ahead._did_all()) or self.cancelled

    def _did_all(self) -> bool:
        """Wait until the job has ended; true if it did the whole of its ranges."""
        self._thread.join()
        return self._error is None and not self._outcome.stops

    def _read_and_write(self) -> Written:
        """Errors: JobCancelled, EngineLost, RetriableError, DeadLetterError; whatever Spark raises."""
        rows = self._answers(self._row_bytes)
        failed = next((row for row in rows if row.topic is None and row.stop), None)
        if failed is not None:
            kind = DeadLetterError if failed.stop == Stop.FATAL else RetriableError
            raise kind(failed.reason or "a writer failed")
        return written(self.ranges, rows)

    def _learn(self, outcome: Outcome[TopicPartition]) -> None:
        """Resolve the schemas that stopped this job for the next batch, and tell the placement how the job went."""
        placement = self._parts.placement
        self.scope.engine.ran(self.scope.about, outcome)
        placement.job_done()
        if Stop.UNKNOWN in outcome.stops:
            placement.job_met_unknown_schema()
        try:
            self._parts.decoding.learn(outcome)
        except RetriableError as error:
            # The outcome counts; the next batch, inline, asks again and knows for how long.
            log.warning("The schemas that stopped the job cannot be learned yet: %s", error)
            placement.job_failed()

    # -- what Spark does -----------------------------------------------------------------------------------------------

    def _frame(self, session: SparkSession) -> DataFrame:
        # A partition that can be written in parts keeps all cores busy.
        task, cores = self._parts.task, session.sparkContext.defaultParallelism
        step = task.job_step() if isinstance(task, BufferingSink) else None
        cut = [self.ranges] if step is None else in_parts(self.ranges, step, cores)
        options = self._parts.readers.options(rows_at_once(self._row_bytes))
        if self._write_to.staged:
            options["minPartitions"] = str(cores)
        decoded = self._plan.over(kafka_rows(session, cut, options))
        if HEADERS in decoded.unread:
            decoded = self._plan.over(kafka_rows(session, cut, options, headers=False))
        return decoded.travelling().mapInArrow(replace(self._write_to, whole=decoded.whole), ANSWER)

    @cached_property
    def _plan(self) -> CachedPlan:
        """Errors: JobCancelled if the schemas that the job ahead met need several programs."""
        plan = self._parts.decoding.cached_plan()
        if plan is None:
            raise JobCancelled(self.scope.about)
        return plan

    @cached_property
    def _staging_writer(self) -> ArrowWriter | None:
        task = self._parts.task
        return task.staging_writer(self._attempt) if isinstance(task, StagingSink) else None

    @cached_property
    def _write_to(self) -> WriteTo:
        """Made when the job's turn has come: a writer that does not stage may depend on what was committed before."""
        writer, reporting = self._staging_writer or self._parts.task.writer(self._attempt), self.scope.reporting
        reported = reporting if reporting.wanted else None
        return WriteTo(writer, self.scope.tolerate, self._staging_writer is not None, reported)


def written(ranges: Ranges, rows: list[Any]) -> Written:
    """Merge the answers (shape: `ANSWER`): how far each partition got, to its first stop, and what was staged."""
    outcome = Outcome[TopicPartition](by_job=True)
    parts: list[bytes] = []
    in_vain: list[bytes] = []
    for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.first)):
        partition = TopicPartition(row.topic, row.partition)
        if row.part is not None:
            before = outcome.of.get(partition)
            (parts if before is None or before.stop is None else in_vain).append(bytes(row.part))
        outcome.add(partition, reached_of(row))
    read_to(outcome, {partition: end for partition, (_, end) in ranges.items()})
    return Written(outcome, parts, in_vain)
