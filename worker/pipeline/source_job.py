"""A source's batch as a Spark job.

range(splits) -> mapInArrow(reader) -> records, transforms, encode -> mapInArrow(KafkaWriter)
(or the frame that a FrameReader gives, which may cut a split into parts)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowReader, FrameReader, Plan, SourceTask
from headrace.plugins.conversion.source_rows import DeclaredRows
from headrace.plugins.offsets import Reached, SourcePartition, Stop
from headrace.worker.deadletters.reporting import DeadLetterError, Reporter, Reporting
from headrace.worker.deadletters.source_records import report_rows
from headrace.worker.engine.plan_cache import NOTHING_LEFT_OUT, Rows, Whole
from headrace.worker.kafka.writer import MOST_BYTES, KafkaWriter, ProduceError, discard_producer, kept_producer
from headrace.worker.pipeline.job import Job, begin_in_python_worker
from headrace.worker.pipeline.job_answer import ANSWER, answer, reached_of
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_programs import SourcePrograms


class SourceJob(Job):
    """Reads a plan's splits, encodes and sends them."""

    def __init__(self, scope: TaskScope, task: SourceTask, plan: Plan, programs: SourcePrograms, to: ProduceTo) -> None:
        super().__init__(scope)
        self._task = task
        self._plan = plan
        self._programs = programs
        self._to = to

    def run(self) -> dict[int, Reached]:
        """How far each split got. Errors: JobCancelled, EngineLost, RetriableError; whatever Spark raises."""
        return by_split(self._answers(self._plan.bytes // max(1, self._plan.rows)))

    @cached_property
    def _reader(self) -> ArrowReader:
        return self._task.reader(self._plan)

    def _frame(self, session: SparkSession) -> DataFrame:
        encoded = self._encoded(session)
        return encoded.travelling().mapInArrow(replace(self._to, whole=encoded.whole), ANSWER)

    def _encoded(self, session: SparkSession) -> Rows:
        """The plan's rows read and encoded; an ArrowReader's splits are of one shape."""
        reader, splits, programs = self._reader, self._plan.splits, self._programs
        if isinstance(reader, FrameReader):
            parts = [
                programs.cached_plan(split.shape).over(reader.frame(session, number).withColumn("split", F.lit(number)))
                for number, split in enumerate(splits)
            ]
            return parts[0] if len(parts) == 1 else Rows(reduce(DataFrame.union, (part.frame for part in parts)))
        count, shape = len(splits), splits[0].shape
        read = session.range(0, count, 1, count).mapInArrow(
            ReadFrom(reader, programs.declared(shape)), programs.row_type(shape)
        )
        return programs.cached_plan(shape).over(read)

    def _judged(self, error: Exception) -> Exception:
        return self._reader.translate_error(error) if isinstance(self._reader, FrameReader) else error


@dataclass(frozen=True)
class ReadFrom:
    """Reads splits, whose numbers it is given, in a Python worker."""

    reader: ArrowReader
    declared: DeclaredRows

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of these splits, each with its split."""
        begin_in_python_worker()
        for batch in batches:
            for split in batch.column(0).to_pylist():
                for rows in self.reader.read(split):
                    yield with_split(self.declared.checked(rows), split)


def with_split(rows: pa.RecordBatch, split: int) -> pa.RecordBatch:
    """These rows, each saying which split it is of."""
    column = pa.repeat(pa.scalar(split, pa.int32()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, column], names=[*rows.schema.names, "split"])


@dataclass(frozen=True)
class ProduceTo:
    """Sends a partition's rows to Kafka from a Python worker."""

    producer: Mapping[str, Any]
    """The librdkafka configuration."""
    tolerate: bool
    topics: frozenset[str] | None = None
    """Those that exist for certain; rows to others are left to *here*. None: all may be written to."""
    most_bytes: int = MOST_BYTES
    """The largest record batch that the topics take."""
    reporting: Reporting | None = None
    """How bad rows are reported; None: not at all."""
    partitions: tuple[SourcePartition, ...] = ()
    """The source partition of each split."""
    whole: Whole = NOTHING_LEFT_OUT
    offsets_repeat: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Shape: `ANSWER`, a row a split."""
        begin_in_python_worker()
        reporter = None if self.reporting is None else Reporter(self.reporting)
        writer = KafkaWriter(
            kept_producer(self.producer),
            tolerate=self.tolerate,
            exact=False,
            may_go_to=self._may_go_to,
            most_bytes=self.most_bytes,
            report=None if reporter is None else partial(report_rows, reporter, self.partitions),
            offsets_repeat=self.offsets_repeat,
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
            yield answer(Reached(stop=Stop.FATAL, reason=str(error)), reporter, split=current)
        except BaseException:
            discard_producer(self.producer)
            raise

    def _may_go_to(self, topics: Collection[str]) -> bool:
        return self.topics is None or self.topics.issuperset(topics)


def by_split(rows: list[Any]) -> dict[int, Reached]:
    """How far each split got: what its parts, in their order, reached together up to the first that stopped."""
    together: dict[int, Reached] = {}
    for row in rows:  # collected in the order of Spark's partitions
        before, now = together.get(row.split), reached_of(row)
        if before is None:
            together[row.split] = now
        elif before.stop is None:
            topics = tuple(sorted({*before.topics, *now.topics}))
            offset = before.source_offset if now.source_offset is None else now.source_offset
            together[row.split] = replace(before.then(now), topics=topics, source_offset=offset)
    return together
