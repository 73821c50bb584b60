"""The walk of one batch. Whoever asks where a record is reads this file.

    source: plan → read → transform → encode → produce → store offsets
    sink:   fetch → decode → transform → write → commit offsets

Offsets are stored and committed by the tasks (`source_task`, `sink_task`), after what is returned here says that the
rows are durable (Invariant 1). A batch runs *here*, in the worker, while it is small, and *there*, as a Spark job, when
it is more than about a second of work; both do the same expressions and the same writers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Producer
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
from headrace.worker.consume import KAFKA_ROW
from headrace.worker.here import Lanes, Program
from headrace.worker.prefix import Prefix, stop_of
from headrace.worker.produce import BATCH_SIZE, MOST_BYTES, OVERHEAD_BYTES, KafkaWriter, open_producer
from headrace.worker.there import Job, ProduceTo, WriteTo, with_split
from headrace.worker.topics import SourceTopics
from headrace.worker.turns import Turns

log = logging.getLogger(__name__)

THERE_BYTES = 8 << 20
"""From here on a batch is a Spark job: about half a second of work *here*, where a job costs about a third."""
THERE_ROWS = 50_000
BATCH = Limit(rows=3_000_000, bytes=256 << 20)
"""The most that one job takes."""
SMALL = Limit(rows=20_000, bytes=2 << 20)
"""The most that one batch *here* takes."""


@dataclass
class Engine:
    """What all tasks of a worker share."""

    lanes: Lanes
    jobs: Turns
    memory: Turns
    """Bytes of batches that are in memory at once."""
    rows_there: int = 0
    """Rows that jobs have moved. With `lanes.rows`, of those *here*, all rows that ever moved: a test counts them."""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def may_go_there(self, place: Place) -> bool:
        """Whether a task of this place may run in Spark's executors."""
        return place is Place.ANYWHERE or (place is Place.WORKER_HOST and self.lanes.spark.is_local)

    def ran(self, about: str, reached: Iterable[Reached]) -> None:
        """Count what a job has moved."""
        rows = sum(one.written + one.dropped + one.bad for one in reached)
        with self._counting:
            self.rows_there += rows
        log.debug("%s: a job moved %d rows", about, rows)


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
    _careful: int = 0
    _job: Job | None = None
    _producer: tuple[Producer, list[KafkaError]] | None = None
    _opened: Mapping[str, Any] | None = None
    _program: Program | None = None

    def __post_init__(self) -> None:
        rows = [*self.task.row_type.fields, StructField("source_offset", self.task.offset_type)]
        self._rows = StructType([*rows, StructField("split", IntegerType())])

    def batch(self, after: Sequence[SourceOffset | None]) -> tuple[list[Reached], bool] | None:
        """One batch from these offsets: how far each split got, and whether it ran *there*.

        None when nothing is new.
        """
        plan = self.task.plan(after, SMALL if self._careful or self.task.place is Place.WORKER_PROCESS else BATCH)
        if plan is None:
            return None
        there = self._is_large(plan)
        reached = self._there(plan) if there else self._here(plan)
        self._careful = max(0, self._careful - 1)
        if any(r.stop is Stop.RETRY for r in reached.values()):
            self._careful = 50  # Kafka refused something in a large batch: look at small ones, record by record
        return [replace(r, source_partition=plan.splits[split].partition) for split, r in reached.items()], there

    def prepare(self) -> None:
        """The first of a worker's sources warms the JVM up while nothing waits for it."""
        if self.engine.lanes.spark.is_ready and self.engine.lanes.first("source"):
            self._compiled()

    def close(self) -> None:
        """Nothing more is sent."""
        if self._producer is not None:
            self._producer[0].purge()

    def _is_large(self, plan: Plan) -> bool:
        if self._careful or not self.engine.may_go_there(self.task.place):
            return False
        return plan.bytes >= THERE_BYTES or plan.rows >= THERE_ROWS

    def _here(self, plan: Plan) -> dict[int, Reached]:
        reader = self.task.reader(plan)
        program = self._compiled()
        config, most = self._for_topics()
        if self._producer is None or self._opened != config:
            self._producer, self._opened = open_producer(config), config
        may = self.topics.ensure
        kafka = KafkaWriter(*self._producer, tolerate=self.tolerate, exact=True, may_go_to=may, most_bytes=most)
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
        self.topics.ensure(self.task.topics())
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

    def _compiled(self) -> Program:
        program = self._program
        if program is None or program.generation != self.engine.lanes.spark.generation:
            program = self._program = self.engine.lanes.compile(self._rows, self._encode)
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
    _program: Program | None = None
    _attempts: int = 0

    def here(self, rows: pa.RecordBatch) -> list[Reached]:
        """This batch, decoded and written; nothing is left but what stopped a partition for good."""
        writer = self.task.writer(self._attempt())
        total: dict[TopicPartition, Reached] = {}
        try:
            prefix = Prefix(writer, self.tolerate)
            while True:
                with self.engine.memory.take(rows.nbytes, self.stopping):
                    prefix.write(self._compiled().run(rows))
                reached = {r.partition: r for r in prefix.reached() if r.partition is not None}
                total = {p: total[p].then(r) if p in total else r for p, r in reached.items()} | {
                    p: r for p, r in total.items() if p not in reached
                }
                if not self.learn(list(reached.values())):
                    break
                rows, prefix = _behind(rows, total), Prefix(writer, self.tolerate)
            part = writer.finish()
        except BaseException:
            writer.abort()
            raise
        self.task.commit([part])
        return list(total.values())

    def prepare(self) -> None:
        """The first of a worker's sinks warms the JVM up while nothing waits for it."""
        if self.engine.lanes.spark.is_ready and self.engine.lanes.first("sink"):
            self._compiled()

    def there(self, ranges: Mapping[TopicPartition, tuple[int, int]], job: Job, row_bytes: int) -> list[Reached]:
        """These offsets, as a Spark job; a partition that stopped at an unknown schema goes on next time."""
        attempt = self._attempt()
        stager = self.task.stager(attempt)
        to = WriteTo(stager or self.task.writer(attempt), self.tolerate, staged=stager is not None)
        with self.engine.jobs.take(1, self.stopping):
            reached, parts = job.sink(ranges, self.kafka_options, self._decode, to, row_bytes)
        self.engine.ran(self.about, reached)
        self.task.commit(parts)
        self.learn(reached)
        return reached

    def learn(self, reached: Sequence[Reached]) -> bool:
        """Whether a partition stopped at a schema not met before, which is known now."""
        unknown = [r for r in reached if r.stop is Stop.UNKNOWN]
        for name in ("key", "value"):
            met = {
                (bytes.fromhex(r.reason.partition(":")[2]), r.partition.topic)
                for r in unknown
                if r.reason and r.partition and r.reason.startswith(name)
            }
            if met:
                setattr(self, name, getattr(self, name).learned(met))
                self._program = None
        return bool(unknown)

    def job(self) -> Job:
        """A job for `there`, which the task may cancel."""
        return Job(self.engine.lanes.spark, self.about)

    def _decode(self, rows: DataFrame) -> DataFrame:
        records = to_records(rows, self.key, self.value)
        stop = stop_of(F.col("error"), F.col("unknown_key"), F.col("unknown_value"))
        control = [F.col(name).alias(f"_{name}") for name in ("topic", "partition", "offset", "drop")]
        return records.frame.select(*control, stop.alias("_stop"), *self.task.project(records))

    def _compiled(self) -> Program:
        program = self._program
        if program is None or program.generation != self.engine.lanes.spark.generation:
            program = self._program = self.engine.lanes.compile(KAFKA_ROW, self._decode)
        return program

    def _attempt(self) -> str:
        self._attempts += 1
        return f"{self.about}-{self._attempts}"


def _behind(rows: pa.RecordBatch, reached: Mapping[TopicPartition, Reached]) -> pa.RecordBatch:
    """The rows that were not reached, in their order; none of a partition that stopped for good."""
    left = pa.array([False] * len(rows))
    for (topic, partition), one in reached.items():
        if one.stop is not Stop.UNKNOWN:
            continue
        of_it = pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], partition))
        if one.upto is not None:
            of_it = pc.and_(of_it, pc.greater(rows["offset"], one.upto))
        left = pc.or_(left, of_it)
    return rows.filter(left)
