"""A source's batch as a Spark job.

range(splits) -> mapInArrow(reader) -> records, transforms, encode -> mapInArrow(KafkaWriter)
(or the frame that a FrameReader gives, which may cut a split into parts)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowReader, FrameReader, Plan
from headrace.plugins.offsets import PartitionResult
from headrace.worker.engine.plan_cache import Rows
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executors import ProduceTo, ReadFrom
from headrace.worker.pipeline.job import Job
from headrace.worker.pipeline.job_answer import ANSWER, reached_of
from headrace.worker.pipeline.scope import TaskScope


class SourceJob(Job):
    """Reads a plan's splits, encodes and sends them."""

    def __init__(
        self, scope: TaskScope, plan: Plan, reader: ArrowReader, encoding: SourceEncoding, to: ProduceTo
    ) -> None:
        super().__init__(scope)
        self._plan = plan
        self._reader = reader
        self._encoding = encoding
        self._to = to

    def run(self) -> dict[int, PartitionResult]:
        """How far each split got. Errors: JobCancelled, EngineLost, RetriableError; whatever Spark raises."""
        return by_split(self._answers(self._plan.bytes // max(1, self._plan.rows)))

    def _frame(self, session: SparkSession) -> DataFrame:
        encoded = self._encoded(session)
        return encoded.travelling().mapInArrow(replace(self._to, whole=encoded.whole), ANSWER)

    def _encoded(self, session: SparkSession) -> Rows:
        """The plan's rows read and encoded."""
        rows = self._frames(session) if isinstance(self._reader, FrameReader) else self._read_in_python(session)
        parts = [self._encoding.cached_plan(shape).over(frame) for shape, frame in rows]
        return parts[0] if len(parts) == 1 else Rows(reduce(DataFrame.union, (part.frame for part in parts)))

    def _frames(self, session: SparkSession) -> Iterator[tuple[str, DataFrame]]:
        """Shape and rows of each split."""
        assert isinstance(self._reader, FrameReader)
        for number, split in enumerate(self._plan.splits):
            yield split.shape, self._reader.frame(session, number).withColumn("split", F.lit(number))

    def _read_in_python(self, session: SparkSession) -> Iterator[tuple[str, DataFrame]]:
        """Each shape, and the rows of its splits, which are read side by side."""
        splits = self._plan.splits
        numbers = session.range(0, len(splits), 1, len(splits))
        for shape in dict.fromkeys(split.shape for split in splits):
            its = [number for number, split in enumerate(splits) if split.shape == shape]
            chosen = numbers if len(its) == len(splits) else numbers.where(F.col("id").isin(its))
            read = ReadFrom(self._reader, self._encoding.declared(shape))
            yield shape, chosen.mapInArrow(read, self._encoding.row_type(shape))

    def _judged(self, error: Exception) -> Exception:
        return self._reader.translate_error(error) if isinstance(self._reader, FrameReader) else error


def by_split(rows: list[Any]) -> dict[int, PartitionResult]:
    """How far each split got: what its parts, in their order, reached together up to the first that stopped."""
    together: dict[int, PartitionResult] = {}
    for row in rows:  # collected in the order of Spark's partitions
        before, now = together.get(row.split), reached_of(row)
        together[row.split] = now if before is None else before.then(now)
    return together
