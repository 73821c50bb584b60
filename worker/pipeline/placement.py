"""The size of a task's next batch, and its place: inline, in the worker, or a Spark job."""

from __future__ import annotations

from typing import Final

from headrace.plugins.contracts import Limit, Place, Plan, SinkTask, SourceTask
from headrace.worker.engine.programs import Engine
from headrace.worker.pipeline.job_size import JobSize

JOB_BYTES = 8 << 20
"""A batch from this size on is a Spark job: about half a second of work inline; a job costs about a third."""
JOB_ROWS = 50_000
SMALL: Final = Limit(rows=20_000, bytes=2 << 20)
"""The most taken at once if each record has to be looked at, and for rows that can only be read inline."""
LARGEST_INLINE: Final = Limit(JOB_ROWS, JOB_BYTES)
"""The most of a batch that could be a job but may not: exactly-once sources, chains with a Java stage.

Decided: four times `SMALL`, because each batch of an exactly-once source is a transaction: with a quarter of it a file
took a fifth more time, and more of a core; loses: a transaction has to send 8 MiB within its timeout.
"""
FEW: Final = Limit(rows=100, bytes=64 << 10)
"""A batch of no more than this costs hardly more than a single row."""
_MOST_INLINE: Final = 64
"""The most batches of a sink that run inline before a job is tried again."""


def is_worth_a_job(rows: int, size: float) -> bool:
    """True if so many rows, or so many bytes, are more than half a second of work inline."""
    return rows >= JOB_ROWS or size >= JOB_BYTES


def is_few(rows: int, size: int) -> bool:
    """True if so many rows, and so many bytes, are a small batch."""
    return rows <= FEW.rows and size <= FEW.bytes


class SourcePlacement:
    """Places a source's batches, which are small after a refusal or a failed job, then grow again."""

    def __init__(self, engine: Engine, task: SourceTask, stays_inline: bool = False) -> None:
        """`stays_inline`: no batch may be a job, whatever the task's place."""
        self._engine = engine
        self._task = task
        self._stays_inline = stays_inline
        self._size = JobSize(JOB_ROWS)
        self._careful: Limit | None = None

    @property
    def limit(self) -> Limit:
        """The most that the next plan may cover."""
        if self._careful is not None:
            return self._careful
        if self._task.place is Place.WORKER_PROCESS:
            return SMALL
        if self._stays_inline or self._engine.awaits_executors(self._task.place):  # the latter: jobs may come soon
            return LARGEST_INLINE
        return self._size.limit

    @property
    def _place(self) -> Place:
        return Place.WORKER_PROCESS if self._stays_inline else self._task.place

    def is_job(self, plan: Plan) -> bool:
        """True if this plan runs as a job."""
        large = is_worth_a_job(plan.rows, plan.bytes) and self._careful != SMALL
        return large and self._engine.may_be_job(self._place)

    def job_done(self, rows: int, seconds: float) -> None:
        """Note a job's rows and duration."""
        self._size.took(rows, seconds)

    def job_failed(self, plan: Plan) -> None:
        """Note that a job failed: if executors are lost again and again, only shorter ones end."""
        self._careful = Limit(max(JOB_ROWS, plan.rows // 2), max(JOB_BYTES, plan.bytes // 2))

    def batch_done(self) -> None:
        """Note that Kafka took all of a batch."""
        if self._careful is not None:
            twice = Limit(2 * self._careful.rows, 2 * self._careful.bytes)
            self._careful = twice if twice.rows < self._size.limit.rows else None

    def batch_refused(self) -> None:
        """Note that Kafka refused a part of a batch: a small batch finds out which records."""
        self._careful = SMALL


class SinkPlacement:
    """Places a sink's batches: after a failed job some run inline, twice as many with each failure in a row."""

    def __init__(self, engine: Engine, task: SinkTask, spark_can_read: bool = True) -> None:
        """`spark_can_read`: Spark can log in at the brokers, and run all of the chain."""
        self._engine = engine
        self._task = task
        self._spark_can_read = spark_can_read
        self._inline_batches = 0
        self._penalty = 1

    @property
    def may_be_job(self) -> bool:
        """True if the next batch may be a job."""
        can = self._spark_can_read and self._engine.may_be_job(self._task.place)
        return can and not self._inline_batches

    def batch_done_inline(self) -> None:
        """Note that a batch was written inline."""
        self._inline_batches = max(0, self._inline_batches - 1)

    def job_done(self) -> None:
        """Note that a job succeeded."""
        self._penalty = 1

    def job_failed(self) -> None:
        """Note that a job failed: inline each record can be looked at."""
        self._inline_batches, self._penalty = self._penalty, min(2 * self._penalty, _MOST_INLINE)

    def job_met_unknown_schema(self) -> None:
        """Note that a job stopped at an unknown schema: one batch inline learns all that are nearby."""
        self._inline_batches = 1
