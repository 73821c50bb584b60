"""The walk of one batch. Whoever asks where a record is reads this file.

    source: plan → read → transform → encode → produce → store offsets
    sink:   fetch → decode → transform → write → commit offsets

Offsets are stored and committed by the tasks (`source_task`, `sink_task`), after what is returned here says that the
rows are durable (Invariant 1). A batch runs *here*, in the worker, while it is small, and *there*, as a Spark job, when
it is more than about a second of work; both do the same expressions and the same writers.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.plugins.contracts import ArrowReader, FrameReader, Limit, Place, Plan, SinkTask, SourceTask
from headrace.plugins.conversion.decode import Side, to_records
from headrace.plugins.conversion.encode import UNKNOWN_TOPIC, learn_topics, refresh_topics, to_bytes
from headrace.plugins.conversion.source_rows import reader_type, records_of
from headrace.plugins.errors import RetriableError, StoppedError
from headrace.plugins.offsets import Reached, SourceOffset, Stop
from headrace.plugins.records import Records
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.deadletters.failed_records import Reported
from headrace.worker.deadletters.reporting import Reporter, Reporting
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.deadletters.source_records import Before, report_rows
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.inline import Program
from headrace.worker.engine.plan_cache import CachedPlan
from headrace.worker.engine.programs import Engine, JobProgram
from headrace.worker.kafka.librdkafka import Producer
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.writer import (
    BATCH_SIZE,
    MOST_BYTES,
    OVERHEAD_BYTES,
    KafkaWriter,
    discard_producer,
    open_producer,
)
from headrace.worker.pipeline.background_job import Ranges, RunningJob
from headrace.worker.pipeline.decoding import Decoding
from headrace.worker.pipeline.job import Job, JobCancelled, ProduceTo, WriteTo, with_split
from headrace.worker.pipeline.job_size import JobSize
from headrace.worker.pipeline.sink_bisect import Piece, SinkWriting
from headrace.worker.pipeline.sink_prefix import stop_of
from headrace.worker.pipeline.transforms import Transforms

log = logging.getLogger(__name__)

THERE_BYTES = 8 << 20
"""From here on a batch is a Spark job: about half a second of work *here*, where a job costs about a third."""
THERE_ROWS = 50_000
SMALL = Limit(rows=20_000, bytes=2 << 20)
"""The most that is taken at once where each record has to be looked at, and of what can only be read *here*."""
MOST_PROGRAMS = 256
"""So many shapes of a source's rows have their programs kept, beside one for each topic."""
_MOST_PREPARED = 16
"""So many shapes of a source's rows have what a job does to them kept."""
_MOST_HERE = 64
"""So many batches of a sink are *here* before a job is tried again, at most."""
_RAW = ("timestamp", "headers", "key", "value")
"""What a dead letter has of its record."""


@dataclass
class SourceWalk:
    """A source task's way of a batch."""

    engine: Engine
    task: SourceTask
    key: Side
    value: Side
    transforms: Transforms
    producer_config: Mapping[str, Any]
    tolerate: bool
    about: str
    stop: StopToken
    topics: SourceTopics
    reporting: Reporting | None = None
    """How bad records are reported; None: not at all."""
    before: Before | None = None
    """Keeps what dead letters are made of; None where there are none."""
    tell: Callable[[Reported], None] = Reported.tell
    _careful: Limit | None = None
    """The most of a batch for a while after Kafka refused something."""
    _size: JobSize = field(default_factory=lambda: JobSize(THERE_ROWS))
    _wanted: frozenset[str] = frozenset()
    _job: Job | None = None
    _producer: Producer | None = None
    _opened: Mapping[str, Any] | None = None
    _programs: OrderedDict[str, Program | JobProgram] = field(default_factory=OrderedDict)
    """By the shape of the rows, the one used last comes last."""
    _prepared: OrderedDict[str, CachedPlan] = field(default_factory=OrderedDict)
    """Likewise, for jobs."""
    _records: dict[str, Records] = field(default_factory=dict)

    def batch(self, after: Sequence[SourceOffset | None]) -> tuple[list[Reached], bool] | None:
        """One batch from these offsets: how far each split got, and whether it ran *there*.

        None when nothing is new. Errors: StoppedError where the task was asked to end before anything was read.
        """
        usual = SMALL if self.task.place is Place.WORKER_PROCESS else self._size.limit
        plan = self.task.plan(after, self._careful or usual)
        if plan is None:
            return None
        try:
            reached, there = self._planned(plan)
        except BaseException:
            self._undelivered()
            raise
        self.task.delivered(reached)
        return reached, there

    def _undelivered(self) -> None:
        """The task was told that its plan failed; why it did is said by whoever asks, not what that led to."""
        try:
            self.task.undelivered()
        except Exception as error:
            log.warning("%s: what was open for a batch that failed could not be closed: %s", self.about, error)

    def _planned(self, plan: Plan) -> tuple[list[Reached], bool]:
        self.stop.raise_if_set("planning a batch")  # it may long be another's to read
        if refresh_topics(self.key, self.value):
            self._programs.clear()
            self._prepared.clear()
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
        if stopped:
            self._careful = self._careful if self._wanted else SMALL
        elif self._careful is not None:
            twice = Limit(2 * self._careful.rows, 2 * self._careful.bytes)
            self._careful = twice if twice.rows < self._size.limit.rows else None

    def prepare(self) -> None:
        """The first of a worker's sources warms the JVM up while nothing waits for it."""
        known = hasattr(self.task, "row_type")
        if known and self.engine.lanes.spark.is_ready and self.engine.lanes.first("source"):
            self._compiled("")

    def close(self) -> None:
        """Nothing more is sent."""
        if self._producer is not None:
            self._producer.purge()
        if self.reporting is not None:
            discard_producer(self.reporting.producer)

    def _is_large(self, plan: Plan) -> bool:
        large = plan.bytes >= THERE_BYTES or plan.rows >= THERE_ROWS
        return large and self._careful != SMALL and self.engine.may_go_there(self.task.place)

    def _here(self, plan: Plan) -> dict[int, Reached]:
        reader = self.task.reader(plan)
        config, most = self._for_topics()
        if self._producer is None or self._producer.fatal or self._opened != config:
            self._producer, self._opened = open_producer(config), config
        may = self.topics.ensure
        reporter = None if self.reporting is None else Reporter(self.reporting, self.stop)
        report = None if reporter is None else partial(report_rows, reporter, [s.partition for s in plan.splits])
        kafka = KafkaWriter(
            self._producer,
            self.tolerate,
            exact=True,
            may_go_to=may,
            most_bytes=most,
            report=report,
            offsets_repeat=self.task.offsets_repeat,
            stop=self.stop,
        )
        try:
            for number, split in enumerate(plan.splits):
                with contextlib.closing(self._read(reader, number)) as batches:
                    for rows in self._until_stop(batches, kafka, number):
                        with self.engine.memory.take(rows.nbytes, self.stop):
                            kafka.write(self._encoded(with_split(rows, number), split.shape))
                if self.stop.is_set():
                    break
            return kafka.finish()
        except BaseException:
            if self._producer.waiting():
                # What is still queued would come once more, and its refusals be taken for those of the next batch.
                self._producer.purge()
                self._producer = None
            raise
        finally:
            if reporter is not None:
                self.tell(reporter.reported)

    def _read(self, reader: ArrowReader, split: int) -> Generator[pa.RecordBatch, None, None]:
        """The split's rows; a reader that works in the driver's JVM fails as all do that do when the driver is lost."""
        with self.engine.lanes.spark.using() if isinstance(reader, FrameReader) else contextlib.nullcontext():
            yield from reader.read(split)

    def _until_stop(
        self, batches: Iterator[pa.RecordBatch], kafka: KafkaWriter, split: int
    ) -> Iterator[pa.RecordBatch]:
        """These, or those up to where the task was asked to stop, which breaks off what they are read by.

        A split that was read to its end has not stopped, whatever the task was asked: all of it counts.
        """
        try:
            for rows in batches:
                if self.stop.is_set():
                    break
                yield rows
            else:
                return
        except Exception as error:
            if not self.stop.is_set():
                raise
            log.info("%s: reading was broken off by the stop: %s", self.about, error)
        kafka.end(split, "the task was asked to stop")

    def _encoded(self, rows: pa.RecordBatch, shape: str) -> pa.RecordBatch:
        """The rows in bytes; a converter that asks for a topic first is told of it."""
        encoded = self._compiled(shape).run(rows)
        while unknown := _unknown_topics(encoded):
            with _asking():
                learn_topics(unknown, self._records[shape], self.key, self.value)
            del self._programs[shape]
            self._prepared.pop(shape, None)
            encoded = self._compiled(shape).run(rows)
            if again := unknown & _unknown_topics(encoded):
                raise ValueError(f"a converter was told of {sorted(again)} and still does not know what to write")
        return encoded

    def _there(self, plan: Plan) -> dict[int, Reached]:
        job = self._job = Job(self.engine.lanes.spark, self.about, self.stop, self.tell)
        config, most = self._for_topics()
        partitions = tuple(split.partition for split in plan.splits)
        to = ProduceTo(
            config,
            self.tolerate,
            self.topics.known,
            most,
            self.reporting,
            partitions,
            offsets_repeat=self.task.offsets_repeat,
        )
        with self.engine.jobs.take(1, self.stop):
            began = time.monotonic()
            reached = job.source(plan, self.task.reader(plan), self._rows, self._prepared_for, to)
        self._size.took(self.engine.ran(self.about, reached.values()), time.monotonic() - began)
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

    def _rows(self, shape: str) -> StructType:
        return StructType([*reader_type(self.task, shape).fields, StructField("split", IntegerType())])

    def _encode(self, rows: DataFrame, shape: str) -> DataFrame:
        records, before = records_of(self.task, rows, shape), self.before
        if before is not None:
            before, records = before.keep(records)
        self._records[shape] = self.transforms.apply(records)
        encoded = to_bytes(self._records[shape], self.key, self.value)
        return encoded if before is None else before.show(encoded)

    def _prepared_for(self, shape: str) -> CachedPlan:
        prepared = self._prepared.pop(shape, None) or CachedPlan(partial(self._encode, shape=shape))
        self._prepared[shape] = prepared
        if len(self._prepared) > _MOST_PREPARED:
            self._prepared.popitem(last=False)
        return prepared

    def _compiled(self, shape: str) -> Program | JobProgram:
        program, generation = self._programs.pop(shape, None), self.engine.lanes.spark.generation
        if program is None or program.generation != generation:
            encode = partial(self._encode, shape=shape)
            program = self.engine.program(self._rows(shape), encode, self.about, self.stop)
        self._programs[shape] = program
        while len(self._programs) > MOST_PROGRAMS + len(self.task.topics()):
            gone, _ = self._programs.popitem(last=False)
            self._records.pop(gone, None)
        return program


def _unknown_topics(encoded: pa.RecordBatch) -> set[str]:
    if UNKNOWN_TOPIC not in encoded.schema.names or encoded[UNKNOWN_TOPIC].null_count == len(encoded):
        return set()
    return set(pc.unique(encoded[UNKNOWN_TOPIC].drop_null()).to_pylist())


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """What a converter asks for in vain is ConverterAway."""
    try:
        yield
    except EngineLost:
        raise
    except RetriableError as error:
        raise ConverterAway(str(error)) from error


@dataclass
class SinkWalk:
    """A sink task's way of a batch."""

    engine: Engine
    task: SinkTask
    key: Side
    value: Side
    transforms: Transforms
    kafka_options: Mapping[str, str]
    reporting: Reporting
    about: str
    stop: StopToken
    put_class: str = ""
    """The sink's class, as errors name it."""
    retry: RetryTopic | None = None
    tell: Callable[[Reported], None] = Reported.tell
    _attempts: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _prepared: tuple[Side, Side, CachedPlan] | None = None
    _stay_here: int = 0
    _penalty: int = 1

    def __post_init__(self) -> None:
        self._decoding = Decoding(self.engine, self._decode, self.key, self.value, self.about, self.stop)
        self._writing = SinkWriting(self.task, self.put_class, self.reporting, self._attempt, self.stop)

    def here(self, rows: pa.RecordBatch, failed_before: bool = False) -> list[Reached]:
        """This batch, decoded and written; left is what stopped a partition for good, or took too long to find out.

        `failed_before`: it failed on what may pass, so records to blame may go to the retry topic, if there is one.
        """
        later = None if self.retry is None else self.retry.later({})
        with self.engine.memory.take(rows.nbytes, self.stop), self._reported(failed_before):
            pieces = self._decoded(rows)
            if failed_before and later is not None:
                reached = self._writing.write_closely(pieces, later, leave_rest=False)
            else:
                reached = self._writing.write(pieces, later)
        self._stay_here = max(0, self._stay_here - 1)
        return reached

    def again(self, rows: pa.RecordBatch, failed_before: bool = False) -> list[Reached]:
        """These rows of the retry topic, tried again; what fails on what may pass waits there once more."""
        assert self.retry is not None
        originals, tried = self.retry.originals(rows)
        later = self.retry.later(tried)
        with self.engine.memory.take(rows.nbytes, self.stop), self._reported(failed_before):
            pieces = self._decoded(originals)
            return self._writing.write_closely(pieces, later, leave_rest=True)

    def _decoded(self, rows: pa.RecordBatch) -> list[Piece]:
        """The rows decoded, each part with the same records as they came."""
        with _asking():
            decoded = self._decoding.run(rows)
        begins = itertools.accumulate((part.num_rows for part in decoded), initial=0)
        return [(part, rows.slice(begin, part.num_rows)) for part, begin in zip(decoded, begins, strict=False)]

    @contextlib.contextmanager
    def _reported(self, failed_before: bool) -> Iterator[None]:
        """What is reported of a batch is told at its end, however it ends."""
        self._writing.begin(failed_before)
        try:
            yield
        finally:
            self.tell(self._writing.reporter.reported)

    def prepare(self) -> None:
        """The first of a worker's sinks warms the JVM up while nothing waits for it."""
        if self.engine.lanes.spark.is_ready and self.engine.lanes.first("sink"):
            self._decoding.prepare()

    def close(self) -> None:
        """No dead letter is sent any more."""
        discard_producer(self.reporting.producer)

    @property
    def may_go_there(self) -> bool:
        """Whether a job can do what the last batch needed: one program, and a place among the executors."""
        alone = not self._stay_here and self._decoding.alone is not None
        return alone and self.engine.may_go_there(self.task.place)

    def there(self, ranges: Ranges, job: Job, row_bytes: int, before: RunningJob | None) -> list[Reached]:
        """These offsets, as a Spark job; a partition that stopped at an unknown schema goes on next time.

        After one that failed the next batches are *here*, where each record can be looked at. Nothing is seen of this
        one until the one `before` has done all of its own (Invariant 4). Errors: JobCancelled where it did not.
        """
        if (alone := self._decoding.alone) is None:  # what the one before met needs several programs
            raise JobCancelled(self.about)
        key, value = alone
        attempt = self._attempt()
        stager = self.task.staging_writer(attempt)
        tolerate, wanted = self.reporting.handling.tolerate, self.reporting.wanted
        # A job that may be void must not be seen; nor must its bad records where one of those before ends the task.
        ahead = stager is not None and (tolerate or not wanted)
        if not ahead:
            self._follow(before, job)
        to = WriteTo(
            stager or self.task.writer(attempt), tolerate, stager is not None, self.reporting if wanted else None
        )
        prepared = self._prepared_for(key, value)
        try:
            with self.engine.jobs.take(1, job.turn):
                done = job.sink(ranges, self.kafka_options, prepared, to, row_bytes)
            if ahead:
                self._follow(before, job)
            self.task.commit(done.parts)
        except (EngineLost, JobCancelled):
            raise
        except StoppedError:
            raise JobCancelled(self.about) from None
        except RetriableError:
            # Where the one before failed, too, it was of the same outage: that is one.
            if not job.cancelled and (before is None or before.did_all()):
                self._look_here()
            raise
        self.engine.ran(self.about, done.reached)
        self._penalty = 1
        if any(one.stop is Stop.UNKNOWN for one in done.reached):
            self._stay_here = 1  # all that is odd nearby is learned from one batch, instead of a job for each
        try:
            self._decoding.learn(done.reached)
        except RetriableError as error:
            # What was reached counts; the next batch, here, asks again and knows how long to.
            log.warning("what stopped the job cannot be learned yet: %s", error)
            self._look_here()
        return done.reached

    def _prepared_for(self, key: Side, value: Side) -> CachedPlan:
        """What decodes as these sides do. The job before may use it still: it is made anew, not changed."""
        kept = self._prepared
        if kept is None or kept[:2] != (key, value):
            raw = self.reporting.wants_bytes
            kept = self._prepared = key, value, CachedPlan(lambda rows: self._decode(rows, key, value, raw))
        return kept[2]

    def _follow(self, before: RunningJob | None, job: Job) -> None:
        """All that comes before the job is done. Errors: JobCancelled."""
        if (before is not None and not before.did_all()) or job.cancelled:
            raise JobCancelled(self.about)

    def _look_here(self) -> None:
        """The next batches are *here*, more of them each time in a row."""
        self._stay_here, self._penalty = self._penalty, min(2 * self._penalty, _MOST_HERE)

    def job(self) -> Job:
        """A job for `there`, which the task may cancel."""
        return Job(self.engine.lanes.spark, self.about, self.stop, self.tell)

    def _decode(self, rows: DataFrame, key: Side, value: Side, raw: bool = False) -> DataFrame:
        """`raw`: a bad record's own bytes are wanted, too."""
        if raw:
            rows = rows.withColumns({f"_raw_{name}": F.col(name) for name in _RAW})
        decoded = self.transforms.headers_read(to_records(rows, key, value))
        # A transform may send a record elsewhere; the offset it counts for stays that of where it came from.
        origin = {f"_{name}": F.col(name) for name in ("topic", "partition", "offset")}
        records = self.transforms.apply(decoded.with_frame(decoded.frame.withColumns(origin)))
        came = F.struct(*(F.col(f"_raw_{name}").alias(name) for name in _RAW)) if raw else None
        stop = stop_of(F.col("error"), F.col("unknown_key"), F.col("unknown_value"), came)
        control = [*map(F.col, origin), F.col("drop").alias("_drop"), stop.alias("_stop")]
        return records.frame.select(*control, *self.task.columns(records))

    def _attempt(self) -> str:
        return f"{self.about}-{next(self._attempts)}"
