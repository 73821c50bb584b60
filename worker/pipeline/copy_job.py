"""A source's batch that its reader copies to Kafka as it is, as a Spark job: one split in each Python worker.

range(splits) -> mapInArrow(CopyingReader.copy)
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.contracts import CopyingReader, Plan
from headrace.plugins.offsets import PartitionResult
from headrace.worker.pipeline.executors import CopyTo
from headrace.worker.pipeline.job import Job
from headrace.worker.pipeline.job_answer import ANSWER
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_job import by_split


class CopyJob(Job):
    """Copies a plan's splits."""

    def __init__(self, scope: TaskScope, plan: Plan, reader: CopyingReader, target: ClientConfig) -> None:
        super().__init__(scope)
        self._plan = plan
        self._copy = CopyTo(reader, target)

    def run(self) -> dict[int, PartitionResult]:
        """How far each split got. Errors: JobCancelled, EngineLost, RetriableError; whatever Spark raises."""
        return by_split(self._answers(row_bytes=1))

    def _frame(self, session: SparkSession) -> DataFrame:
        splits = len(self._plan.splits)
        return session.range(0, splits, 1, splits).mapInArrow(self._copy, ANSWER)
