"""A sink task: a real member of the consumer group `connect-<name>`; fetch, write, commit; over and over.

One thread owns the consumer and never runs Spark itself. While a batch is small it is handled *here*; behind a backlog
the partitions are paused, the range goes *there*, and the consumer is polled on so that it stays in its group.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.contracts import Reached, RetriableError, SinkTask, Stop, TaskContext, TopicPartition
from headrace.worker.consume import to_arrow
from headrace.worker.errors import RecordError
from headrace.worker.generations import Generations
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
        admin_config: Mapping[str, Any],
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
        self._generations = Generations(admin_config)
        self._topics = topics
        self._interval_s = commit_interval_s
        self._walk: SinkWalk | None = None
        self._consumer: Any = None
        self._started = False
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._assigned: list[TopicPartition] = []
        self._ends: dict[TopicPartition, int] = {}
        self._doubted: set[str] = set()
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
        # An offset that is out of range must be told: librdkafka would pass it over in silence (Invariant 3).
        own = {"auto.offset.reset": "error", "enable.partition.eof": True, "on_commit": self._on_commit}
        self._consumer = Consumer(
            {**self._consumer_config, **own},
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
        if rows is None or self._here(rows):
            self._pass_ends()
        while full and not self.stopping and (ranges := self._backlog()):
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
                self._judge(message)
        doubted = self._doubted and self._doubted.intersection(message.topic() for message in good)
        if not good or (doubted and self._restart_remade(doubted)):
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
            if known is not None and first < known:
                topic, number = partition
                of_it = pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], number))
                rows = rows.filter(pc.invert(pc.and_(of_it, pc.less(rows["offset"], known))))
        return rows

    def _pass_ends(self) -> None:
        """Behind the last record of a partition only markers and gaps are left: these are passed, too."""
        for partition, end in self._ends.items():
            if self._next.get(partition, end) < end:
                self._next[partition] = end
        self._ends.clear()

    def _judge(self, message: Any) -> None:
        error: KafkaError = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self._ends[TopicPartition(message.topic(), message.partition())] = message.offset()
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._out_of_range(TopicPartition(message.topic(), message.partition()), error)
        elif not _passes(error):
            raise KafkaException(error)
        else:
            if code in _NO_TOPIC and message.topic() is not None:
                self._doubted.add(message.topic())
            log.warning("Kafka: %s; waiting", error.str())

    # -- here ----------------------------------------------------------------------------------------------------------

    def _here(self, rows: pa.RecordBatch) -> bool:
        """Whether nothing of these rows is left to do."""
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
        else:
            return False
        if not self._paused:
            self._release()
        return True

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
            # While the partitions are held the client learns nothing of their ends.
            _, high = (
                self._watermarks(partition)
                if self._held
                else self._consumer.get_watermark_offsets(Position(*partition), cached=True)
            )
            known = self._next.get(partition)
            if known is not None and high > known:
                waiting[partition] = high - known
        total = sum(waiting.values())
        if total < THERE_ROWS and total * self._mean_bytes < THERE_BYTES:
            return None
        most = max(1, int(min(BATCH.rows, BATCH.bytes / self._mean_bytes)) // max(1, len(waiting)))
        if self._restart_remade({partition.topic for partition in waiting}):
            return None
        ranges = {}
        for partition in waiting:
            low, high = self._watermarks(partition)
            begin = self._from(partition, low, high)
            if high > begin:
                ranges[partition] = begin, min(high, begin + most)
        return ranges or None

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
            self._commit_when_due()

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

    # -- where to go on ------------------------------------------------------------------------------------------------

    def _out_of_range(self, partition: TopicPartition, error: KafkaError) -> None:
        """What is to be read next is not there: retention took it, or the topic was made again."""
        if self._restart_remade({partition.topic}):
            return
        if partition not in self._next or self._policy == "error":
            raise KafkaException(error)
        low, high = self._watermarks(partition)
        self._next[partition] = self._from(partition, low, high)
        self._reassign()

    def _restart_remade(self, topics: Collection[str]) -> bool:
        """Whether one of these topics was deleted and made again, in which case it is read anew (Invariant 2)."""
        remade = self._generations.remade(topics)
        self._doubted.difference_update(topics)
        self._forget(remade)
        if remade:
            self._reassign()
        return bool(remade)

    def _forget(self, remade: Collection[str]) -> None:
        for partition in [partition for partition in self._next if partition.topic in remade]:
            log.error(
                "%s-%d, which was read up to offset %d, was deleted and made again: it is read anew; what was not read "
                "of the former topic is lost", *partition, self._next.pop(partition),
            )  # fmt: skip
            self._committed.pop(partition, None)

    def _from(self, partition: TopicPartition, low: int, high: int) -> int:
        """Where to read on in the topic as it is; what is missing is said (Invariant 3)."""
        begin = self._next[partition]
        if begin < low:
            to = high if self._policy == "latest" else low
            log.error(
                "%s-%d: the records %d to %d were deleted by the topic's retention before they were read; "
                "going on from %d", *partition, begin, low - 1, to,
            )  # fmt: skip
            return to
        if begin > high:
            log.error("%s-%d ends at offset %d, but was read up to %d: its brokers have lost records; going on from "
                      "its end", *partition, high, begin)  # fmt: skip
            return high
        return begin

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """First and next offset, asked of the broker under the consumer's isolation level."""
        try:
            low, high = self._consumer.get_watermark_offsets(Position(*partition), timeout=10)
        except KafkaException as error:
            raise RetriableError(f"the offsets of {partition.topic}-{partition.partition}: {error}") from error
        return low, high

    def _reassign(self) -> None:
        """The consumer reads each of its partitions from where this task has come to."""
        self._consumer.assign([self._position(partition) for partition in self._assigned])
        if self._held and self._assigned:
            self._consumer.pause([Position(*partition) for partition in self._assigned])

    def _position(self, partition: TopicPartition) -> Position:
        return Position(*partition, self._next.get(partition, _STARTS[self._policy]))

    @property
    def _policy(self) -> str:
        policy: str = self._consumer_config["auto.offset.reset"]
        return policy

    # -- the group -----------------------------------------------------------------------------------------------------

    def _poll_only(self, seconds: float) -> None:
        """Stay in the group; nothing is fetched while the partitions are held."""
        message = self._consumer.poll(seconds)
        self._raise_pending()
        if message is not None and message.error() is not None:
            self._judge(message)

    def _hold(self) -> None:
        if not self._held and self._assigned:
            self._consumer.pause([Position(*partition) for partition in self._assigned])
        self._held = True

    def _release(self) -> None:
        if self._held and self._assigned:
            self._consumer.resume([Position(*partition) for partition in self._assigned])
        self._held = False

    def _on_assign(self, _consumer: Any, positions: list[Any]) -> None:
        try:
            new = [TopicPartition(p.topic, p.partition) for p in positions]
            known = self._plugin.open(new)
            while not self._take(positions) and not self.stopping:
                self.wait(1.0)
            self._next.update(known)
            self._assigned = new
            self._reassign()
        except Exception as error:  # raised in the task's loop: the client's callback cannot
            self._error = error

    def _take(self, positions: list[Any]) -> bool:
        """Whether Kafka has told where the group has come to in these partitions."""
        try:
            remade = self._generations.remade({p.topic for p in positions})
            committed = self._consumer.committed(positions, timeout=30)
        except (RetriableError, KafkaException) as error:
            if isinstance(error, KafkaException) and not _passes(error.args[0]):
                raise
            log.warning("the committed offsets cannot be asked for yet: %s", error)
            return False
        self._forget(remade)
        for position in committed:
            if position.offset >= 0 and position.topic not in remade:
                partition = TopicPartition(position.topic, position.partition)
                self._next[partition] = self._committed[partition] = position.offset
        return True

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
        new = {
            p: offset
            for p, offset in self._next.items()
            if self._committed.get(p) != offset and p.topic not in self._doubted
        }
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
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
"""What passes by itself, or is waited for: a broker away, a topic not made yet."""
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_STARTS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END, "error": OFFSET_INVALID}
"""Where a partition begins for which nothing is committed, by `auto.offset.reset`."""


def _passes(error: KafkaError) -> bool:
    return not error.fatal() and (error.retriable() or error.code() in _PASSING)


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
