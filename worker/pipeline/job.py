"""A batch as a Spark job, for more than about half a second of work.

    source_job.py:  plan's splits -> reader -> records, transforms, encode -> Kafka writer
    sink_job.py:    Kafka's offsets -> decode, transforms, project -> the sink's writer

Only the outcome comes back to the driver. A split, or a Kafka partition, is one Spark task: its order is kept, while
Python reads, the JVM converts and Python writes in parallel.

After a job failed on the driver its Python writers may go on for a moment. The next attempt starts from the stored
offset and writes the same rows again: it can repeat records, never reorder first arrivals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from headrace.plugins.errors import RetriableError
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.engine.bounds import TooSlow
from headrace.worker.engine.job_group import JobGroup
from headrace.worker.engine.job_watch import JobWatch
from headrace.worker.logging.logs import context
from headrace.worker.pipeline.executors import LOGS_OF
from headrace.worker.pipeline.scope import TaskScope

_RETRIABLE: Final = (
    "RetriableError:",
    "NotSentYet:",
    "TopicMissing:",
    "Python worker exited unexpectedly",
    "Python worker process terminated",
    "PYTHON_WORKER",
    "ExecutorLostFailure",
    "TaskResultLost",
    "FetchFailed",
    "Failed to get broadcast_",
    "Master removed our application",
    "Connection reset",
    "Broken pipe",
    "cancelled",
    "KafkaConsumer",
    "TimeoutException",
    "OffsetOutOfRange",
    "DATA_LOSS",
    "data loss",
    "data may have been lost",
)
"""Signs of a retriable error in the text of a failed job: a Python worker or an executor that died, Kafka away."""
_OUT_OF_MEMORY: Final = "OutOfMemory"
"""Part of the names of Java's error and of Arrow's."""


class JobCancelled(RetriableError):
    """The job was cancelled by its task."""


class OutOfMemory(RetriableError):
    """Spark's memory did not suffice for the job's records."""


class Job(ABC):
    """One Spark job of a task, which another thread may cancel."""

    def __init__(self, scope: TaskScope) -> None:
        self.scope = scope
        self.cancelled = False
        self._group: JobGroup | None = None

    @abstractmethod
    def _frame(self, session: SparkSession) -> DataFrame:
        """The whole work of the job as a frame. Shape: `ANSWER`."""

    def _judged(self, error: Exception) -> Exception:
        """Translate an error that is not retriable for Spark's reasons; returns it unchanged if nothing is known."""
        return error

    def cancel(self) -> None:
        """End the job soon, with JobCancelled."""
        self.cancelled = True
        if self._group is not None:  # else it ends before it begins
            self._group.cancel()

    def _answers(self, row_bytes: int) -> list[Any]:
        """Run the job, and tell the failed records that its Python workers reported. Shape: `ANSWER`.

        `row_bytes`: the largest size of a row, to bound the rows in memory.
        """
        rows = self._collected(row_bytes)
        for row in rows:
            if row.reported is not None:
                self.scope.tell(FailureReport.of_json(row.reported))
        return rows

    def _collected(self, row_bytes: int) -> list[Any]:
        scope, projections = self.scope, self.scope.engine.projections
        with projections.spark.using() as shared:
            session = shared.newSession()
            session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows_at_once(row_bytes)))
            group = self._group = JobGroup(session, scope.about)
            work, left = partial(self._collect, session, group), partial(projections.given_up.add_job, group)
            try:
                return scope.bounds.call(work, JobWatch(group, scope.bounds).look, left)
            except Exception as error:
                if (meant := self._meaning(error)) is error:
                    raise
                raise meant from error

    def _collect(self, session: SparkSession, group: JobGroup) -> list[Any]:
        with self.scope.engine.projections.given_up.starting(group):
            session.sparkContext.setLocalProperty(LOGS_OF, context())
            frame = self._frame(session)
            if self.cancelled:  # perhaps before there was a group
                raise JobCancelled(self.scope.about)
            return frame.collect()

    def _meaning(self, error: Exception) -> Exception:
        if isinstance(error, TooSlow):
            return error
        text = str(error)
        if self.cancelled:
            return JobCancelled(self.scope.about)
        if lacks := self.scope.engine.projections.spark.executors.doubt(text):
            return RetriableError(f"the Spark job failed, an executor lacks something: {lacks}")
        if _OUT_OF_MEMORY in text:
            return OutOfMemory("the Spark job failed: its records need more memory than Spark has")
        if any(sign in text for sign in _RETRIABLE):
            return RetriableError(f"the Spark job failed: {_essence(text)}")
        return self._judged(error)


def rows_at_once(row_bytes: int) -> int:
    """The rows of one Arrow batch, so that it stays in the order of 16 MB."""
    return max(1, min(20_000, (16 << 20) // max(1, row_bytes)))


def _essence(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(line for line in lines if any(sign in line for sign in _RETRIABLE))[:300]
