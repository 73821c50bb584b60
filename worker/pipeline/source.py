"""The path of a source's batch: to find out where a record is, read this file.

    plan → read → transform → encode → produce → store offsets

`SourcePipeline.batch` plans, and hands the plan to an executor for the next four steps: `source_inline.py` runs them in
the worker, `source_job.py` as a Spark job, with the same expressions (`source_expressions.py`) and the same writer. If
nothing changes the source's bytes, the reader copies them. What `batch` returns is durable in Kafka, visible or in an
open transaction; the task then stores its offsets (`tasks/source.py`, Invariant 1). Beside it: the choice of inline or
job (`placement.py`), expressions compiled and cached (`encoding.py`), a chain with a Java stage, whose batches are
always inline (`java_stage.py`), producer and topics (`source_producer.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.plugins.contracts import Plan, SourceTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import SourceProgress, extension
from headrace.plugins.offsets import PartitionResult, SourceOffset, Stop, TransactionEnd
from headrace.worker.errors import RecordError
from headrace.worker.kafka.writer import discard_producer
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executor import Executor, PlannedBatch
from headrace.worker.pipeline.placement import SourcePlacement
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_inline import CopiedSource, InlineSource
from headrace.worker.pipeline.source_job import SourceJobs
from headrace.worker.pipeline.source_producer import SourceProducer

log = logging.getLogger(__name__)


class SourceBatch(NamedTuple):
    """The result of a batch that was moved."""

    outcome: Outcome[int]
    """By split that had rows."""
    bytes: int
    """An estimate."""
    ends_transaction: TransactionEnd | None
    """The plan's, if all of it was sent."""
    caught_up: bool
    """The plan's, if all of it was sent."""

    @property
    def is_empty(self) -> bool:
        """True if the plan yielded no row and nothing stopped it; its offsets may have moved all the same."""
        return not self.outcome.rows and not self.outcome.stops


@dataclass
class SourcePipeline:
    """Moves one source task's batches to Kafka; for the task's own thread, except `cancel`."""

    scope: TaskScope
    task: SourceTask
    encoding: SourceEncoding
    producer: SourceProducer
    placement: SourcePlacement
    copies: CopiedSource
    inline: Executor[PlannedBatch, int]
    jobs: SourceJobs

    @classmethod
    def of(
        cls,
        scope: TaskScope,
        task: SourceTask,
        encoding: SourceEncoding,
        producer: SourceProducer,
        placement: SourcePlacement,
    ) -> SourcePipeline:
        """Build the pipeline from these parts."""
        parts = scope, task, encoding, producer
        return cls(*parts, placement, CopiedSource(*parts), InlineSource(*parts), SourceJobs(*parts, placement))

    @property
    def progress(self) -> SourceProgress:
        """The task, if it follows how far its batches got."""
        return extension(self.task, SourceProgress)

    def batch(self, after: Sequence[SourceOffset | None]) -> SourceBatch | None:
        """Move the rows that follow these offsets; None if the source has nothing new.

        Errors: StoppedError if the task was asked to end before anything was read; those of every step.
        """
        timed = self.scope.stages.timed
        with timed("read"):
            plan = self.task.plan(after, self.placement.limit)
        if plan is None:
            return None
        try:
            self.scope.stop.raise_if_set("planning a batch")  # the planned rows may long be another worker's to read
            self.encoding.refresh()
            with timed("read"):
                work = PlannedBatch(plan, self.task.reader(plan))
            outcome = self._executor(work).run(work)
            self._refuse_parts_of_groups(outcome)
        except BaseException:
            self._undelivered()
            raise
        return self._moved(plan, outcome)

    def _executor(self, work: PlannedBatch) -> Executor[PlannedBatch, int]:
        if self.copies.takes(work.reader):
            return self.copies
        return self.jobs if self.placement.is_job(work.plan) else self.inline

    def _moved(self, plan: Plan, outcome: Outcome[int]) -> SourceBatch:
        """Report how far the plan's splits got to all that have to know."""
        self._add_empty(plan, outcome)
        for number, one in outcome.of.items():
            outcome.of[number] = replace(one, source_partition=plan.splits[number].partition)
        self._note_refusals(outcome)
        self.producer.topics.written({topic for one in outcome if one.written for topic in one.topics})
        self.progress.delivered(list(outcome))
        # A stop may have come before anything of a split was read.
        is_whole = len(outcome.of) == len(plan.splits) or not self.scope.stop.is_set()
        is_sent = is_whole and not outcome.stops
        ends_transaction = plan.ends_transaction if is_sent else None
        return SourceBatch(outcome, plan.bytes, ends_transaction, is_sent and plan.caught_up)

    def _refuse_parts_of_groups(self, outcome: Outcome[int]) -> None:
        """Refuse an outcome in which a split sent rows that it does not count.

        Rows with equal offsets count together. If a split stopped between them, the first ones were sent: they would be
        committed with a transaction, and come again. So none of the batch is committed.

        Errors: RecordError, RetriableError.
        """
        if self.producer.transactions is None or not self.progress.rows_share_offsets:
            return
        for one in outcome:
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)
            if one.stop is not None:
                self._note_refusals(outcome)
                raise RetriableError(one.reason)

    def _note_refusals(self, outcome: Outcome[int]) -> None:
        """Make the next batch small if Kafka refused records; missing topics are created and need no search."""
        misses_topics = self.producer.misses_topics(list(outcome))
        if Stop.RETRY not in outcome.stops:
            self.placement.batch_done()
        elif not misses_topics:
            self.placement.batch_refused()

    def _add_empty(self, plan: Plan, outcome: Outcome[int]) -> None:
        """Add the offsets of splits that yielded no row, unless the stop may have broken off their reading."""
        if self.scope.stop.is_set():
            return
        for number, split in enumerate(plan.splits):
            if split.offset_if_empty is not None:
                outcome.of.setdefault(number, PartitionResult(source_offset=split.offset_if_empty))

    def _undelivered(self) -> None:
        """Tell the plugin that its plan failed; an error in doing so is only logged."""
        try:
            self.progress.undelivered()
        except Exception as error:
            log.warning("%s: what was open for a failed batch could not be closed: %s", self.scope.about, error)

    def warm_up(self) -> None:
        """Compile the first program if this is the worker's first source: that warms the JVM up."""
        self.encoding.warm_up()

    def listen(self) -> None:
        """Note what the producer reports; called also while the source gives nothing."""
        self.producer.listen()

    def cancel(self) -> None:
        """End the running job, if any, soon; any thread may call."""
        self.jobs.cancel()

    def close(self) -> None:
        """Send nothing more."""
        self.producer.close()
        discard_producer(self.scope.reporting.producer)
