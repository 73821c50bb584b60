"""A sink task: a real member of the consumer group `connect-<name>`; fetch, write, commit; over and over.

One thread owns the consumer and never runs Spark itself. While a batch is small it is handled *here*; behind a backlog
the partitions are paused, the range goes *there*, and the consumer is polled on so that it stays in its group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.contracts import Reached, RetriableError, SinkTask, Stop, TaskContext, TopicPartition
from headrace.worker.consume import to_arrow
from headrace.worker.errors import RecordError
from headrace.worker.herder import State
from headrace.worker.spark import EngineLost
from headrace.worker.task import Task, back_off_s
from headrace.worker.there import Job, JobCancelled
from headrace.worker.walk import BATCH, THERE_BYTES, THERE_ROWS, SinkWalk

log = logging.getLogger(__name__)

POLL_S = 0.5
FETCH_ROWS = 10_000
FETCH_BYTES = 4 << 20
REVOKE_WAIT_S = 20.0
"""How long a running job may go on when its partitions are taken away; then it is cancelled."""


class SinkTaskRunner(Task):
    """Runs one sink task."""

    def __init__(
        self,
        plugin: SinkTask,
        config: Mapping[str, str],
        context: TaskContext,
        walk: Callable[[], SinkWalk],
        consumer_config: Mapping[str, Any],
        topics: Sequence[str],
        commit_interval_s: float,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self._plugin = plugin
        self._config = config
        self._context = context
        self._make_walk = walk
        self._consumer_config = consumer_config
        self._topics = topics
        self._interval_s = commit_interval_s
        self._walk: SinkWalk | None = None
        self._consumer: Any = None
        self._started = False
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._assigned: list[TopicPartition] = []
        self._error: Exception | None = None
        self._job: _Running | None = None
        self._held = False
        self._last_commit = time.monotonic()
        self._mean_bytes = 200.0
        self._large_bytes = 200
        self.records = 0

    def _begin(self) -> None:
        self._started = True
        self._plugin.start(self._config, self._context)
        self._walk = self._make_walk()
        self._consumer = Consumer(
            {**self._consumer_config, "on_commit": self._on_commit},
            logger=logging.getLogger("headrace.worker.sink_task.client"),
        )
        self._consumer.subscribe(
            list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _loop(self) -> None:
        failures = 0
        while not self.stopping:
            try:
                self._commit_when_due()
                if self._paused:
                    self._hold()
                    self._set(State.PAUSED)
                    self._poll_only(POLL_S)
                else:
                    self._set(State.RUNNING)
                    self._move()
                failures = 0
            except EngineLost:
                self._wait_polling(0.2)
            except RetriableError as error:
                failures += 1
                log.warning("attempt %d of a batch failed, it will be tried again: %s", failures, error)
                self._wait_polling(back_off_s(failures))

    def _move(self) -> None:
        """One batch *here*; and, if much more waits, one *there*."""
        assert self._walk is not None
        self._release()
        self._walk.prepare()
        rows, full = self._fetch()
        if rows is not None:
            self._here(rows)
        if full and (ranges := self._backlog()):
            self._there(ranges)

    # -- fetching ------------------------------------------------------------------------------------------------------

    def _fetch(self) -> tuple[pa.RecordBatch | None, bool]:
        """What is there now, waiting a little for the first record; and whether there is likely much more."""
        first = self._consumer.poll(self._poll_s())
        self._raise_pending()
        if first is None:
            return None, False
        most = max(1, min(FETCH_ROWS, int(FETCH_BYTES / self._mean_bytes)))
        messages = [first, *(self._consumer.consume(most - 1, 0) if most > 1 else ())]
        self._raise_pending()
        good = [message for message in messages if message.error() is None]
        for message in messages:
            if message.error() is not None:
                self._judge(message.error())
        if not good:
            return None, False
        rows = self._not_behind(to_arrow(good))
        self._mean_bytes = max(50.0, 0.8 * self._mean_bytes + 0.2 * rows.nbytes / max(1, rows.num_rows))
        largest = max((len(message) for message in good), default=0)
        self._large_bytes = max(largest, int(0.9 * self._large_bytes))
        return (rows if rows.num_rows else None), len(messages) >= most or len(messages) >= THERE_ROWS // 20

    def _poll_s(self) -> float:
        """Until the next commit is due, at most."""
        return max(0.01, min(POLL_S, self._last_commit + self._interval_s - time.monotonic()))

    def _not_behind(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Without what was handled already (the client may still give what it had fetched before a seek)."""
        for partition, first in _firsts(rows):
            known = self._next.get(partition)
            if known is None or first >= known:
                continue
            if self._was_remade(partition, known):
                del self._next[partition]
                continue
            of_it = pc.and_(pc.equal(rows["topic"], partition.topic), pc.equal(rows["partition"], partition.partition))
            rows = rows.filter(pc.invert(pc.and_(of_it, pc.less(rows["offset"], known))))
        return rows

    def _was_remade(self, partition: TopicPartition, known: int) -> bool:
        """Whether the topic now ends before what was read of it: it was deleted and made again (Invariant 2)."""
        _, high = self._watermarks(partition)
        if high >= known:
            return False
        log.error(
            "%s-%d now ends at offset %d, but was read up to %d: the topic was deleted and made again; going on from "
            "its beginning, what was not read of the former topic is lost",
            *partition, high, known,
        )  # fmt: skip
        return True

    def _judge(self, error: KafkaError) -> None:
        passing = error.retriable() or error.code() in _PASSING
        if error.fatal() or not passing:
            raise KafkaException(error)
        log.warning("Kafka: %s; waiting", error.str())

    # -- here ----------------------------------------------------------------------------------------------------------

    def _here(self, rows: pa.RecordBatch) -> None:
        assert self._walk is not None
        failures = 0
        while not self.stopping:
            try:
                reached = self._walk.here(rows)
            except EngineLost:
                self._wait_polling(0.2)
            except RetriableError as error:
                failures += 1
                log.warning("attempt %d to write a batch failed, it will be tried again: %s", failures, error)
                self._wait_polling(back_off_s(failures))
            else:
                self._reached(reached)
                break
            rows = self._still_mine(rows)
            if not rows.num_rows:
                break
        if not self._paused:
            self._release()

    def _wait_polling(self, seconds: float) -> None:
        self._hold()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stopping:
            self._poll_only(min(left, POLL_S))

    def _still_mine(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        mine = pa.array([False] * len(rows))
        for topic, partition in self._assigned:
            mine = pc.or_(mine, pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], partition)))
        return rows.filter(mine)

    def _reached(self, reached: Sequence[Reached]) -> None:
        """Invariant 1: these rows are durable, so their offsets may be committed."""
        self.uses(one.partition.topic for one in reached if one.partition is not None)
        for one in reached:
            self.records += one.written
            if one.partition is not None and one.upto is not None and not self._abandoned:
                self._next[one.partition] = one.upto + 1
        for one in reached:
            if one.bad:
                log.warning("%d records of %s-%d were left out (errors.tolerance=all)", one.bad, *(one.partition or ()))
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)

    # -- there ---------------------------------------------------------------------------------------------------------

    def _backlog(self) -> dict[TopicPartition, tuple[int, int]] | None:
        """The ranges of a job, if so much waits that a job is worth it."""
        assert self._walk is not None
        if not self._walk.engine.may_go_there(self._plugin.place) or not self._spark.is_ready:
            return None
        waiting = {}
        for partition in self._assigned:
            _, high = self._consumer.get_watermark_offsets(Position(*partition), cached=True)
            known = self._next.get(partition)
            if known is not None and high > known:
                waiting[partition] = high - known
        total = sum(waiting.values())
        if total < THERE_ROWS and total * self._mean_bytes < THERE_BYTES:
            return None
        most = max(1, int(min(BATCH.rows, BATCH.bytes / self._mean_bytes)) // max(1, len(waiting)))
        ranges = {}
        for partition in waiting:
            low, high = self._watermarks(partition)
            begin = self._from(partition, low, high)
            if high > begin:
                ranges[partition] = begin, min(high, begin + most)
        return ranges or None

    def _from(self, partition: TopicPartition, low: int, high: int) -> int:
        """Where to read on; what retention removed, or a topic made again, is said (Invariants 2 and 3)."""
        begin = self._next[partition]
        if begin < low:
            log.error(
                "%s-%d: the records %d to %d were deleted by the topic's retention before they were read; "
                "going on from %d", *partition, begin, low - 1, low,
            )  # fmt: skip
            return low
        if begin > high and self._was_remade(partition, begin):
            return low
        return begin

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """First and next offset, asked of the broker under the consumer's isolation level."""
        try:
            low, high = self._consumer.get_watermark_offsets(Position(*partition), timeout=10)
        except KafkaException as error:
            raise RetriableError(f"the offsets of {partition.topic}-{partition.partition}: {error}") from error
        return low, high

    def _there(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        assert self._walk is not None
        self._hold()
        walk, job = self._walk, self._walk.job()
        running = self._job = _Running(job, lambda: walk.there(ranges, job, self._large_bytes))
        while not running.done():
            self._poll_only(0.1)
            if self.stopping:
                running.cancel_after(0)
        self._settle_job()
        if not self.stopping:
            self._seek()
            if not self._paused:
                self._release()

    def _settle_job(self) -> None:
        """Take over what the job reached; its failure is tried again, unless it is the task's."""
        running, self._job = self._job, None
        if running is None:
            return
        try:
            reached = running.result()
        except JobCancelled:
            return
        mine = set(self._assigned)
        self._reached([one for one in reached if one.partition in mine])

    def _seek(self) -> None:
        """The consumer goes on behind what was reached."""
        for partition in self._assigned:
            if partition in self._next:
                try:
                    self._consumer.seek(Position(*partition, self._next[partition]))
                except KafkaException as error:
                    raise RetriableError(f"cannot go on in {partition}: {error}") from error

    # -- the group -----------------------------------------------------------------------------------------------------

    def _poll_only(self, seconds: float) -> None:
        """Stay in the group; nothing is fetched while the partitions are held."""
        message = self._consumer.poll(seconds)
        self._raise_pending()
        if message is not None and message.error() is not None:
            self._judge(message.error())

    def _hold(self) -> None:
        if not self._held and self._assigned:
            self._consumer.pause([Position(*partition) for partition in self._assigned])
        self._held = True

    def _release(self) -> None:
        if self._held and self._assigned:
            self._consumer.resume([Position(*partition) for partition in self._assigned])
        self._held = False

    def _on_assign(self, consumer: Any, positions: list[Any]) -> None:
        try:
            new = [TopicPartition(p.topic, p.partition) for p in positions]
            known = self._plugin.open(new)
            for position in consumer.committed(positions, timeout=30):
                partition = TopicPartition(position.topic, position.partition)
                if position.offset >= 0:
                    self._next[partition] = self._committed[partition] = position.offset
            self._next.update(known)
            self._assigned = new
            consumer.assign([Position(*p, self._next[p]) if p in self._next else Position(*p) for p in new])
            if self._held:
                consumer.pause([Position(*partition) for partition in new])
        except Exception as error:  # raised in the task's loop: the client's callback cannot
            self._error = error

    def _on_revoke(self, _consumer: Any, positions: list[Any]) -> None:
        try:
            if self._job is not None:
                self._job.cancel_after(REVOKE_WAIT_S)
                self._settle_job()
        except Exception as error:
            self._error = error
        try:
            self._commit(wait=True)
            self._give_up([TopicPartition(p.topic, p.partition) for p in positions])
        except Exception as error:
            self._error = error

    def _on_lost(self, _consumer: Any, positions: list[Any]) -> None:
        try:
            if self._job is not None:
                self._job.cancel_after(0)
                self._job = None
            self._give_up([TopicPartition(p.topic, p.partition) for p in positions])
        except Exception as error:
            self._error = error

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        partitions = [partition for partition in partitions if partition in self._assigned]
        self._plugin.close(partitions)
        for partition in partitions:
            self._next.pop(partition, None)
            self._committed.pop(partition, None)
        self._assigned = [p for p in self._assigned if p not in partitions]

    def _raise_pending(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _commit_when_due(self) -> None:
        if time.monotonic() - self._last_commit >= self._interval_s:
            self._commit(wait=False)

    def _commit(self, wait: bool) -> None:
        """Invariant 1: only what is durable is committed."""
        self._last_commit = time.monotonic()
        new = {p: offset for p, offset in self._next.items() if self._committed.get(p) != offset}
        if not new or self._abandoned:
            return
        try:
            positions = [Position(*partition, offset) for partition, offset in new.items()]
            self._consumer.commit(offsets=positions, asynchronous=not wait)
            self._committed.update(new)
        except KafkaException as error:
            log.warning("offsets could not be committed, they will be again: %s", error)

    def _on_commit(self, error: KafkaError | None, positions: list[Any]) -> None:
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            log.warning("offsets could not be committed, they will be again: %s", error.str())
            for position in positions:
                self._committed.pop(TopicPartition(position.topic, position.partition), None)

    def _cancel(self) -> None:
        if (running := self._job) is not None:
            running.cancel_after(0)

    def _end(self, failed: bool) -> None:
        try:
            if self._consumer is not None:
                if self._job is not None:
                    self._job.cancel_after(0)
                self._commit(wait=True)
                self._consumer.close()  # revokes, which closes the partitions
        finally:
            if self._started:
                self._plugin.stop()


_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._PARTITION_EOF,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
"""What passes by itself, or is waited for: a broker away, a topic not made yet."""


def _firsts(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int]]:
    """Each partition with its first offset in these rows."""
    topic, partition = rows["topic"], rows["partition"]
    if pc.all(pc.equal(partition, partition[0])).as_py() and pc.all(pc.equal(topic, topic[0])).as_py():
        yield TopicPartition(topic[0].as_py(), partition[0].as_py()), rows["offset"][0].as_py()
        return
    table = pa.Table.from_batches([rows.select(["topic", "partition", "offset"])])
    for row in table.group_by(["topic", "partition"]).aggregate([("offset", "min")]).to_pylist():
        yield TopicPartition(row["topic"], row["partition"]), row["offset_min"]


class _Running:
    """A job on a thread of its own, so that the consumer's thread can poll on."""

    def __init__(self, job: Job, work: Callable[[], list[Reached]]) -> None:
        self._job = job
        self._answer: list[Reached] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(work,), name="there", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        return not self._thread.is_alive()

    def cancel_after(self, seconds: float) -> None:
        """The job has ended, by itself within the time or else because it was cancelled."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._job.cancel()
            self._thread.join(30)

    def result(self) -> list[Reached]:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answer

    def _work(self, work: Callable[[], list[Reached]]) -> None:
        try:
            self._answer = work()
        except BaseException as error:
            self._error = error
