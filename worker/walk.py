"""The walk of one batch. Whoever asks where a record is reads this file.

    source: plan → read → transform → encode → produce → store offsets
    sink:   fetch → decode → transform → write → commit offsets

Offsets are stored and committed by the tasks (`source_task`, `sink_task`), after what is returned here says that the
rows are durable (Invariant 1). A batch runs *here*, in the worker, while it is small, and *there*, as a Spark job, when
it is more than about a second of work; both do the same expressions and the same writers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.plugins.contracts import (
    Limit,
    Place,
    Plan,
    Reached,
    SinkTask,
    SourceOffset,
    SourceTask,
    Stop,
    TopicPartition,
)
from headrace.plugins.decode import Side, to_bytes, to_records
from headrace.worker.decoding import Decoding
from headrace.worker.engine import Engine, JobProgram
from headrace.worker.here import Program
from headrace.worker.librdkafka import Producer
from headrace.worker.prefix import Prefix, stop_of
from headrace.worker.produce import BATCH_SIZE, MOST_BYTES, OVERHEAD_BYTES, KafkaWriter, open_producer
from headrace.worker.there import Job, ProduceTo, WriteTo, with_split
from headrace.worker.topics import SourceTopics

THERE_BYTES = 8 << 20
"""From here on a batch is a Spark job: about half a second of work *here*, where a job costs about a third."""
THERE_ROWS = 50_000
BATCH = Limit(rows=3_000_000, bytes=256 << 20)
"""The most that one job takes."""
SMALL = Limit(rows=20_000, bytes=2 << 20)
"""The most that is taken at once where each record has to be looked at, and of what can only be read *here*."""


@dataclass
class SourceWalk:
    """A source task's way of a batch."""

    engine: Engine
    task: SourceTask
    key: Side
    value: Side
    producer_config: Mapping[str, Any]
    tolerate: bool
    about: str
    stopping: Callable[[], bool]
    topics: SourceTopics
    _limit: Limit = BATCH
    _wanted: frozenset[str] = frozenset()
    _job: Job | None = None
    _producer: Producer | None = None
    _opened: Mapping[str, Any] | None = None
    _program: Program | JobProgram | None = None

    def __post_init__(self) -> None:
        rows = [*self.task.row_type.fields, StructField("source_offset", self.task.offset_type)]
        self._rows = StructType([*rows, StructField("split", IntegerType())])

    def batch(self, after: Sequence[SourceOffset | None]) -> tuple[list[Reached], bool] | None:
        """One batch from these offsets: how far each split got, and whether it ran *there*.

        None when nothing is new.
        """
        plan = self.task.plan(after, SMALL if self.task.place is Place.WORKER_PROCESS else self._limit)
        if plan is None:
            return None
        there = self._is_large(plan)
        reached = self._there(plan) if there else self._here(plan)
        self._adapt([r for r in reached.values() if r.stop is Stop.RETRY])
        return [replace(r, source_partition=plan.splits[split].partition) for split, r in reached.items()], there

    def _adapt(self, stopped: Sequence[Reached]) -> None:
        """The next batch is small after Kafka refused something of a large one, then each is twice as large.

        A small batch looks at each record that is refused. Where topics were missing that now will be made, there is
        nothing to look at.
        """
        known = self.topics.known
        self._wanted = frozenset(t for one in stopped for t in one.topics if known is not None and t not in known)
        if not stopped:
            self._limit = Limit(min(2 * self._limit.rows, BATCH.rows), min(2 * self._limit.bytes, BATCH.bytes))
        elif not self._wanted:
            self._limit = SMALL

    def prepare(self) -> None:
        """The first of a worker's sources warms the JVM up while nothing waits for it."""
        if self.engine.lanes.spark.is_ready and self.engine.lanes.first("source"):
            self._compiled()

    def close(self) -> None:
        """Nothing more is sent."""
        if self._producer is not None:
            self._producer.purge()

    def _is_large(self, plan: Plan) -> bool:
        large = plan.bytes >= THERE_BYTES or plan.rows >= THERE_ROWS
        return large and self._limit != SMALL and self.engine.may_go_there(self.task.place)

    def _here(self, plan: Plan) -> dict[int, Reached]:
        reader = self.task.reader(plan)
        program = self._compiled()
        config, most = self._for_topics()
        if self._producer is None or self._producer.fatal or self._opened != config:
            self._producer, self._opened = open_producer(config), config
        may = self.topics.ensure
        kafka = KafkaWriter(self._producer, tolerate=self.tolerate, exact=True, may_go_to=may, most_bytes=most)
        for split in range(len(plan.splits)):
            for rows in reader.read(split):
                with self.engine.memory.take(rows.nbytes, self.stopping):
                    encoded = program.run(with_split(rows, split))
                    kafka.write(encoded, self.stopping)
        return kafka.finish(self.stopping)

    def _there(self, plan: Plan) -> dict[int, Reached]:
        job = self._job = Job(self.engine.lanes.spark, self.about)
        config, most = self._for_topics()
        to = ProduceTo(config, self.tolerate, self.topics.known, most)
        with self.engine.jobs.take(1, self.stopping):
            reached = job.source(plan, self.task.reader(plan), self._rows, self._encode, to)
        self.engine.ran(self.about, reached.values())
        return reached

    def _for_topics(self) -> tuple[Mapping[str, Any], int]:
        """The producer's config, and the largest batch that it may send, for the topics that are known beforehand.

        A broker that refuses a batch for its size refuses all records in it, and what follows overtakes them
        (Invariant 4).
        """
        self.topics.ensure({*self.task.topics(), *self._wanted})
        config = self.producer_config
        most = min(self.topics.most_bytes(self.task.topics()), config.get("message.max.bytes", MOST_BYTES))
        size = min(config.get("batch.size", BATCH_SIZE), max(1, most - OVERHEAD_BYTES))
        return {**config, "batch.size": size}, most

    def cancel(self) -> None:
        """The job that runs, if any, ends soon."""
        if self._job is not None:
            self._job.cancel()

    def _encode(self, rows: DataFrame) -> DataFrame:
        return to_bytes(self.task.records(rows), self.key, self.value)

    def _compiled(self) -> Program | JobProgram:
        program = self._program
        if program is None or program.generation != self.engine.lanes.spark.generation:
            program = self._program = self.engine.program(self._rows, self._encode, self.about, self.stopping)
        return program


@dataclass
class SinkWalk:
    """A sink task's way of a batch."""

    engine: Engine
    task: SinkTask
    key: Side
    value: Side
    kafka_options: Mapping[str, str]
    tolerate: bool
    about: str
    stopping: Callable[[], bool]
    _attempts: int = 0

    def __post_init__(self) -> None:
        self._decoding = Decoding(self.engine, self._decode, self.key, self.value, self.about, self.stopping)

    def here(self, rows: pa.RecordBatch) -> list[Reached]:
        """This batch, decoded and written; nothing is left but what stopped a partition for good."""
        writer = self.task.writer(self._attempt())
        prefix = Prefix(writer, self.tolerate)
        try:
            with self.engine.memory.take(rows.nbytes, self.stopping):
                for decoded in self._decoding.run(rows):
                    prefix.write(decoded)
            part = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self.task.commit([part])
        return prefix.reached()

    def prepare(self) -> None:
        """The first of a worker's sinks warms the JVM up while nothing waits for it."""
        if self.engine.lanes.spark.is_ready and self.engine.lanes.first("sink"):
            self._decoding.prepare()

    @property
    def may_go_there(self) -> bool:
        """Whether a job can do what the last batch needed: one program, and a place among the executors."""
        return self._decoding.alone is not None and self.engine.may_go_there(self.task.place)

    def there(self, ranges: Mapping[TopicPartition, tuple[int, int]], job: Job, row_bytes: int) -> list[Reached]:
        """These offsets, as a Spark job; a partition that stopped at an unknown schema goes on next time."""
        assert self._decoding.alone is not None
        key, value = self._decoding.alone
        attempt = self._attempt()
        stager = self.task.stager(attempt)
        to = WriteTo(stager or self.task.writer(attempt), self.tolerate, staged=stager is not None)
        with self.engine.jobs.take(1, self.stopping):
            reached, parts = job.sink(
                ranges, self.kafka_options, lambda rows: self._decode(rows, key, value), to, row_bytes
            )
        self.engine.ran(self.about, reached)
        self.task.commit(parts)
        self._decoding.learn(reached)
        return reached

    def job(self) -> Job:
        """A job for `there`, which the task may cancel."""
        return Job(self.engine.lanes.spark, self.about)

    def _decode(self, rows: DataFrame, key: Side, value: Side) -> DataFrame:
        records = to_records(rows, key, value)
        stop = stop_of(F.col("error"), F.col("unknown_key"), F.col("unknown_value"))
        control = [F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "drop")]
        return records.frame.select(*control, stop.alias("_stop"), *self.task.project(records))

    def _attempt(self) -> str:
        self._attempts += 1
        return f"{self.about}-{self._attempts}"
