"""*There*: a batch as a Spark job, for more than about a second of work.

    source:  range(splits) -> mapInArrow(reader) -> records, transforms, encode -> mapInArrow(KafkaWriter)
             (or the frame that a FrameReader gives, which may cut a split into parts)
    sink:    Kafka source -> decode, transforms, project -> mapInArrow(WritablePrefix over the sink's writer)

Only what was reached comes back to the driver. A split, and a Kafka partition, is one Spark task: its order is kept,
while Python reads, the JVM converts and Python writes side by side.

After a job failed on the driver its Python writers may go on for a moment. What they then still write is written again
by the next attempt, which starts from the stored offset: it can repeat records, never reorder first arrivals.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.plugins.catalyst.liveness import report_liveness
from headrace.plugins.contracts import ArrowReader, ArrowWriter, FrameReader, Plan
from headrace.plugins.errors import RecordsFailed, RetriableError
from headrace.plugins.offsets import Reached, SourcePartition, Stop, TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.failed_records import Reported
from headrace.worker.deadletters.reporting import DeadLetterError, Reporter, Reporting
from headrace.worker.deadletters.source_records import report_rows
from headrace.worker.engine.driver import EngineLost, Spark
from headrace.worker.engine.plan_cache import NOTHING_LEFT_OUT, CachedPlan, Rows, Whole
from headrace.worker.kafka.writer import MOST_BYTES, KafkaWriter, ProduceError, discard_producer, kept_producer
from headrace.worker.logs import context, set_up_child
from headrace.worker.pipeline.sink_prefix import Reports, WritablePrefix

_REACHED = (
    "split int, topics array<string>, topic string, partition int, upto long, source_offset string, "
    "written long, dropped long, bad long, stop string, reason string, part binary, first long, reported string"
)
_LOGS_OF = "headrace.log.context"
_jobs = itertools.count(1)
_Judge = Callable[[Exception], Exception]


def rows_at_once(row_bytes: int) -> int:
    """How many rows travel in one Arrow batch, so that a batch stays in the order of 16 MB."""
    return max(1, min(20_000, (16 << 20) // max(1, row_bytes)))


class JobCancelled(RetriableError):
    """The job was cancelled from here."""


class Written(NamedTuple):
    """What a sink's job did."""

    reached: list[Reached]
    parts: list[bytes]
    """What its writers staged."""


class Job:
    """One Spark job, which another thread may cancel."""

    def __init__(self, spark: Spark, about: str, stop: StopToken, tell: Callable[[Reported], None]) -> None:
        """`tell` is told what the job's Python workers reported of records, also where the job failed."""
        self._spark = spark
        self._about = about
        self._tell = tell
        self._name = f"headrace-{next(_jobs)}"
        self.cancelled = False
        self.turn = stop.child()
        """Set once the job need not wait for its turn any more."""

    def cancel(self) -> None:
        """The job ends soon, with JobCancelled."""
        self.cancelled = True
        self.turn.set()
        with contextlib.suppress(EngineLost), self._spark.using() as session:
            # PySpark's cancelJobGroup is forgotten where the job, still being planned, has not begun.
            session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._name)

    def source(
        self,
        plan: Plan,
        reader: ArrowReader,
        rows: Callable[[str], StructType],
        encoded: Callable[[str], CachedPlan],
        to: ProduceTo,
    ) -> dict[int, Reached]:
        """Read the plan's splits, encode and send them; how far each split got.

        `rows`, `encoded`: by the shape of a split.
        """

        def build(session: Any) -> DataFrame:
            ready = _read(session, plan, reader, rows, encoded)
            return ready.travelling().mapInArrow(replace(to, whole=ready.whole), _REACHED)

        judge = reader.translate_error if isinstance(reader, FrameReader) else None
        return _by_split(self._collect(build, plan.bytes // max(1, plan.rows), judge))

    def sink(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        options: Mapping[str, str],
        prepared: CachedPlan,
        to: WriteTo,
        row_bytes: int,
    ) -> Written:
        """Read these offsets `[from, to)`, decode and write them.

        `row_bytes`: how large a record may be, for bounding what is in memory.
        """

        def build(session: Any) -> DataFrame:
            # What is staged can be written in parts: then one partition keeps all cores busy.
            split = {"minPartitions": str(session.sparkContext.defaultParallelism)} if to.staged else {}
            decoded = prepared.over(kafka_rows(session, ranges, {**options, **split}))
            return decoded.travelling().mapInArrow(replace(to, whole=decoded.whole), _REACHED)

        rows = self._collect(build, row_bytes)
        failed = next((row for row in rows if row.topic is None and row.stop), None)
        if failed is not None:
            kind = DeadLetterError if failed.stop == Stop.FATAL else RetriableError
            raise kind(failed.reason or "a writer failed")
        reached, parts = _in_order(rows)
        ends = [_to_the_end(p, end, reached.get(p)) for p, (_, end) in ranges.items()]
        return Written(ends, parts)

    def _collect(self, build: Callable[[Any], DataFrame], row_bytes: int, judge: _Judge | None = None) -> list[Any]:
        """Shape: `_REACHED`. What the rows say of failed records is told. `judge`: what a failure means."""
        rows = self._run(build, row_bytes, judge)
        for row in rows:
            if row.reported is not None:
                self._tell(Reported.of_json(row.reported))
        return rows

    def _run(self, build: Callable[[Any], DataFrame], row_bytes: int, judge: _Judge | None) -> list[Any]:
        with self._spark.using() as shared:
            session = shared.newSession()
            session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows_at_once(row_bytes)))
            session.sparkContext.setJobGroup(self._name, self._about, interruptOnCancel=True)
            session.sparkContext.setLocalProperty(_LOGS_OF, context())
            try:
                frame = build(session)
                if self.cancelled:  # Spark knows of no job yet that it could cancel
                    raise JobCancelled(self._about)
                return frame.collect()
            except Exception as error:
                judged = self._judged(error)
                if judged is error and judge is not None:
                    judged = judge(error)
                if judged is error:
                    raise
                raise judged from error

    def _judged(self, error: Exception) -> Exception:
        text = str(error)
        if self.cancelled:
            return JobCancelled(self._about)
        if any(sign in text for sign in _PASSING):
            return RetriableError(f"the Spark job failed: {_essence(text)}")
        return error


_PASSING = (
    "RetriableError:",
    "NotSentYet:",
    "Python worker exited unexpectedly",
    "Python worker process terminated",
    "PYTHON_WORKER",
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
"""Signs, in the text of a failed job, of what may pass: a worker that died or was killed for hanging, Kafka away."""


def _essence(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(line for line in lines if any(sign in line for sign in _PASSING))[:300]


def _read(
    session: Any,
    plan: Plan,
    reader: ArrowReader,
    rows: Callable[[str], StructType],
    encoded: Callable[[str], CachedPlan],
) -> Rows:
    """The plan's rows encoded; an ArrowReader's splits are of one shape."""
    if isinstance(reader, FrameReader):
        parts = [
            encoded(split.shape).over(reader.frame(session, number).withColumn("split", F.lit(number)))
            for number, split in enumerate(plan.splits)
        ]
        return parts[0] if len(parts) == 1 else Rows(reduce(DataFrame.union, (part.frame for part in parts)))
    count, shape = len(plan.splits), plan.splits[0].shape
    return encoded(shape).over(session.range(0, count, 1, count).mapInArrow(_Read(reader), rows(shape)))


def _begin() -> None:
    """This Python worker shows that it lives, and logs as the thread that runs its job."""
    report_liveness()
    task = TaskContext.get()
    assert task is not None, "only Spark's Python workers begin so"
    set_up_child(task.getLocalProperty(_LOGS_OF) or "")


@dataclass(frozen=True)
class _Read:
    reader: ArrowReader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _begin()
        for batch in batches:
            for split in batch.column(0).to_pylist():
                for rows in self.reader.read(split):
                    yield with_split(rows, split)


def with_split(rows: pa.RecordBatch, split: int) -> pa.RecordBatch:
    """These rows, each saying which split it is of."""
    column = pa.repeat(pa.scalar(split, pa.int32()), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, column], names=[*rows.schema.names, "split"])


@dataclass(frozen=True)
class ProduceTo:
    """Sends a partition's rows to Kafka from a Python worker."""

    producer: Mapping[str, Any]
    tolerate: bool
    topics: frozenset[str] | None = None
    """Those that are there for certain; rows to others are left to *here*. None: all may be written to."""
    most_bytes: int = MOST_BYTES
    """The largest record batch that the topics take."""
    reporting: Reporting | None = None
    """How bad rows are reported; None: not at all."""
    partitions: tuple[SourcePartition, ...] = ()
    """The source partition of each split."""
    whole: Whole = NOTHING_LEFT_OUT
    offsets_repeat: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Shape: `_REACHED`, a row a split."""
        _begin()
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
                yield _row(reached, split=split, reported=_told(reporter))
                reporter = None
        except (ProduceError, DeadLetterError) as error:
            discard_producer(self.producer)
            yield _row(Reached(stop=Stop.FATAL, reason=str(error)), split=current, reported=_told(reporter))
        except BaseException:
            discard_producer(self.producer)
            raise

    def _may_go_to(self, topics: Collection[str]) -> bool:
        return self.topics is None or self.topics.issuperset(topics)


@dataclass(frozen=True)
class WriteTo:
    """Writes a Kafka partition's rows with a sink's writer from a Python worker."""

    writer: ArrowWriter
    tolerate: bool
    staged: bool = False
    reporting: Reporting | None = None
    """How bad records are reported, whose bytes then are in `_stop`; None: not at all."""
    whole: Whole = NOTHING_LEFT_OUT

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Shape: `_REACHED`, a row a Kafka partition; the first one carries the staged part."""
        _begin()
        reporter = None if self.reporting is None else Reporter(self.reporting)
        prefix, first = WritablePrefix(self.writer, self.tolerate, Reports(reporter)), None
        try:
            for rows in batches:
                first = rows["_offset"][0].as_py() if first is None and rows.num_rows else first
                prefix.write(self.whole.rows(rows))
            part: bytes | None = prefix.finish()
        except (RetriableError, RecordsFailed, DeadLetterError) as error:
            # Which records failed is for *here* to find out, where all of them are at hand.
            self.writer.abort()
            stop = Stop.FATAL if isinstance(error, DeadLetterError) else Stop.RETRY
            yield _row(Reached(stop=stop, reason=str(error)), reported=_told(reporter))
            return
        except BaseException:
            self.writer.abort()
            raise
        for reached in prefix.reached():
            yield _row(reached, part=part, first=first, reported=_told(reporter))
            part = reporter = None


def _by_split(rows: list[Any]) -> dict[int, Reached]:
    """How far each split got: what its parts, in their order, reached together up to the first that stopped."""
    together: dict[int, Reached] = {}
    for row in rows:  # collected in the order of Spark's partitions
        before, now = together.get(row.split), _reached(row)
        if before is None:
            together[row.split] = now
        elif before.stop is None:
            topics = tuple(sorted({*before.topics, *now.topics}))
            offset = before.source_offset if now.source_offset is None else now.source_offset
            together[row.split] = replace(before.then(now), topics=topics, source_offset=offset)
    return together


def _in_order(rows: list[Any]) -> tuple[dict[TopicPartition, Reached], list[bytes]]:
    """What the parts of each partition reached together, up to the first that stopped; and what they staged."""
    together: dict[TopicPartition, Reached] = {}
    parts = []
    for row in sorted(rows, key=lambda row: (row.topic, row.partition, row.first)):
        now = _reached(row)
        assert now.partition is not None
        before = together.get(now.partition)
        if before is not None and before.stop is not None:
            continue
        together[now.partition] = now if before is None else before.then(now)
        if row.part is not None:
            parts.append(bytes(row.part))
    return together, parts


def _told(reporter: Reporter | None) -> str | None:
    return None if reporter is None else reporter.reported.to_json()


def _row(
    reached: Reached,
    split: int | None = None,
    part: bytes | None = None,
    first: int | None = None,
    reported: str | None = None,
) -> pa.RecordBatch:
    topic, partition = reached.partition or (None, None)
    offset = None if reached.source_offset is None else json.dumps(reached.source_offset)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([split], pa.int32()),
            pa.array([list(reached.topics)], pa.list_(pa.string())),
            pa.array([topic], pa.string()),
            pa.array([partition], pa.int32()),
            pa.array([reached.upto], pa.int64()),
            pa.array([offset], pa.string()),
            pa.array([reached.written], pa.int64()),
            pa.array([reached.dropped], pa.int64()),
            pa.array([reached.bad], pa.int64()),
            pa.array([reached.stop.value if reached.stop else None], pa.string()),
            pa.array([reached.reason], pa.string()),
            pa.array([part], pa.binary()),
            pa.array([first], pa.int64()),
            pa.array([reported], pa.string()),
        ],
        names=[column.split()[0] for column in _REACHED.split(", ")],
    )


def _reached(row: Any) -> Reached:
    return Reached(
        partition=None if row.topic is None else TopicPartition(row.topic, row.partition),
        upto=row.upto,
        source_offset=None if row.source_offset is None else json.loads(row.source_offset),
        topics=tuple(row.topics),
        written=row.written,
        dropped=row.dropped,
        bad=row.bad,
        stop=None if row.stop is None else Stop(row.stop),
        reason=row.reason,
    )


def _to_the_end(partition: TopicPartition, end: int, reached: Reached | None) -> Reached:
    """A partition that did not stop was read to its end: what lies behind its last row are gaps and markers."""
    if reached is None:
        return Reached(partition, end - 1)
    if reached.stop is not None:
        return reached
    return replace(reached, upto=end - 1)


def kafka_rows(session: Any, ranges: Mapping[TopicPartition, tuple[int, int]], options: Mapping[str, str]) -> DataFrame:
    """Shape: as `to_records` takes it. What is the same in all rows is a constant, so that it need not travel."""
    assign: dict[str, list[int]] = defaultdict(list)
    begin: dict[str, dict[str, int]] = defaultdict(dict)
    end: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), (first, stop) in ranges.items():
        assign[topic].append(partition)
        begin[topic][str(partition)] = first
        end[topic][str(partition)] = stop
    reader = session.read.format("kafka").options(**options).option("includeHeaders", "true")
    reader = reader.option("failOnDataLoss", "true").option("assign", json.dumps(assign))
    reader = reader.option("startingOffsets", json.dumps(begin)).option("endingOffsets", json.dumps(end))
    stamp = F.unix_millis("timestamp").alias("timestamp")
    frame: DataFrame = reader.load()
    (topic, *others), numbers = {p.topic for p in ranges}, {p.partition for p in ranges}
    place = [
        F.col("topic") if others else F.lit(topic).alias("topic"),
        F.lit(*numbers).alias("partition") if len(numbers) == 1 else F.col("partition"),
    ]
    return frame.select(*place, "offset", stamp, "headers", "key", "value")
