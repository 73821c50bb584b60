"""A sink task: fetch, write, commit; over and over.

One thread owns the consumer and never runs Spark itself. A small batch is handled *here*; for a backlog the partitions
are held, ranges of offsets go *there*, and the consumer is polled on so that it stays in its group. While many tasks
have many small batches, one thread takes those of all (`shared_thread.py`) and each task's own only waits.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.contracts import GroupMember, HoldingSink, SinkTask
from headrace.plugins.conversion.kafka_rows import to_arrow
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.deadletters.retry_topic import RetryTopic
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import RecordError
from headrace.worker.kafka.topic_ids import TopicIds
from headrace.worker.model import State
from headrace.worker.pipeline.background_job import BackgroundJob, Ranges
from headrace.worker.pipeline.job import JobCancelled, OutOfMemory
from headrace.worker.pipeline.placement import FEW, THERE_ROWS, is_few, is_worth_a_job
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.pipeline.sink_jobs import SinkJobs
from headrace.worker.tasks.builder import PipelineBuilder
from headrace.worker.tasks.fetched import Fetched, sizes
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.positions import Positions, ends
from headrace.worker.tasks.shared_thread import Next, SharedThread
from headrace.worker.tasks.sink_consumer import SinkConsumer, StableOffsets
from headrace.worker.tasks.static_member import Fenced
from headrace.worker.tasks.subscription import TopicSubscription
from headrace.worker.tasks.task import BACKOFF, Task

log = logging.getLogger(__name__)

POLL_S = 0.5
IDLE_S = 5.0
"""How long a task sleeps at most for which nothing comes."""
_LAG_S, _NO_LAG_S = 0.4, 1.0
"""How old the figures may be while records wait, which are soon handled and then nothing more comes, and else."""
FETCH_ROWS = 10_000
FETCH_BYTES = 4 << 20
_MEASURED_ROWS, _MEASURED_BYTES = 32, 64 << 10
"""The least batch whose size is told: how large records are counts only where many wait."""
_ROW_BYTES = 50
"""What a row takes besides the bytes of its record."""
REVOKE_WAIT_S = 20.0
"""How long a running job may go on when its partitions are taken away; then it is cancelled."""
FENCED_WAIT_S = 10.0
"""How soon a worker that lost its membership knows it; only where it did not is a fenced task started again."""


@dataclass(frozen=True)
class SinkInput:
    """Where a sink task's records come from, and how often what became of them is committed."""

    consumer: Callable[[], Mapping[str, Any]] = field(repr=False)
    """The librdkafka configuration of its consumer, as the topics are when it begins."""
    subscription: TopicSubscription
    positions: Positions
    topic_ids: TopicIds
    commit_interval_s: float
    largest_record: int
    """The most bytes of a record."""
    stable_offsets: StableOffsets
    """For a sink that commits offsets itself."""
    expel: Callable[[GroupMember], None]
    """`group_member.expel` with the task's admin client."""


class SinkTaskRunner(Task):
    """Runs one sink task."""

    def __init__(
        self, host: TaskHost, plugin: SinkTask, builder: PipelineBuilder, records: SinkInput, shared: SharedThread
    ) -> None:
        super().__init__(host)
        self._shared = shared
        self._plugin = plugin
        self._builder = builder
        self._input = records
        self._positions = records.positions
        self._opened: tuple[SinkPipeline, SinkConsumer] | None = None
        self._started = False
        self._holding = plugin if isinstance(plugin, HoldingSink) else None
        self._taken: dict[TopicPartition, int] = {}
        """The next record to fetch, of partitions of which a `HoldingSink` holds rows."""
        # A job of a sink that holds rows ends before its range does, so that none can be planned after it.
        self._jobs = SinkJobs(THERE_ROWS) if self._holding is None else SinkJobs(THERE_ROWS, most=1)
        self._must_recover = False
        self._here_to: dict[TopicPartition, int] = {}
        """Where the ranges end of jobs that ran out of memory, or that the engine was lost with."""
        self._failures = 0
        """How often batches failed since rows became durable; to fetch none, or only to hold some, is no success."""
        # Tasks that begin together do not all commit at once, which would hold up each other's records.
        self._last_commit = time.monotonic() - random.uniform(0.0, records.commit_interval_s)
        self._measured = 0.0
        self._lag = 0
        """The records that waited when it was measured last."""
        self._small_batches = 0
        """Those since it was measured last."""
        self._lends = False
        """Whether the next batches are for the shared thread."""
        self._lent = False
        """Whether this is the shared thread."""
        self._mean_bytes = 200.0
        self._large_bytes = 200
        self.records = 0

    def _begin(self) -> None:
        records, host = self._input, self._host
        self._builder.check_reach()
        context = replace(host.context, topic_ids=records.topic_ids.ids, group_member=lambda: self._consumer.member)
        self._started = True
        self._plugin.start(host.config, context)
        pipeline = self._builder.sink(self._plugin)
        self._until_done(self._builder.create_topics)
        consumer = SinkConsumer(
            records.consumer(),
            records.subscription,
            records.topic_ids,
            self._positions,
            self,
            records.largest_record,
            records.stable_offsets if self._plugin.commits_offsets else None,
        )
        self._opened = pipeline, consumer

    @property
    def _pipeline(self) -> SinkPipeline:
        assert self._opened is not None
        return self._opened[0]

    @property
    def _retry(self) -> RetryTopic | None:
        return self._pipeline.retry

    @property
    def _consumer(self) -> SinkConsumer:
        assert self._opened is not None
        return self._opened[1]

    def _rouse(self) -> None:
        super()._rouse()
        if self._opened is not None:
            self._consumer.interrupt()

    def _loop(self) -> None:
        while not self.stop.is_set():
            try:
                self._step()
            except Fenced as error:  # also from where another error is handled
                self._end_fenced(error)

    def _step(self) -> None:
        """One batch, or a moment in which none may be. Errors: Fenced; what fails the task."""
        try:
            self._commit_when_due()
            self._grant_wishes()
            self._measure()
            if self._paused:
                self._consumer.hold()
                self._set(State.PAUSED)
                self._batch(None)  # as in Kafka Connect, the clock goes on for what the sink has
                self._consumer.stay(POLL_S)
            elif not self._host.may_move():
                self._stay(0.2)
            else:
                self._set(State.RUNNING)
                self._move()
        except EngineLost:
            self._stay(0.2)
        except RetriableError as error:
            self._failures += 1
            self._stay_after(error, self._failures, "of a batch")

    def _end_fenced(self, error: Fenced) -> None:
        """Wait for the end, where another worker runs this task now. Errors: RetriableError once this one does."""
        said = False
        while not self.stop.wait(FENCED_WAIT_S):
            if self._host.may_move():
                raise RetriableError(str(error)) from error  # a new consumer takes the place back
            if not said:
                log.warning("The task was taken over by another worker, and writes nothing any more")
                said = True

    def _stay_after(self, error: RetriableError, failures: int, what: str) -> None:
        """Wait before the next try. Errors: ConverterTimeout."""
        if isinstance(error, ConverterAway):
            seconds = self._host.retry_budget.failed(error)
            log.warning("A converter cannot learn what it needs yet, it asks again in %.1f s: %s", seconds, error)
        else:
            seconds = BACKOFF.pause(failures)
            log.warning("Attempt %d %s failed, it will be tried again: %s", failures, what, error)
        self._stay(seconds)
        self._builder.create_missing_topics()

    def _move(self) -> None:
        """One batch *here*, or many on the shared thread; and, if much more waits, one *there*."""
        self._recover()
        self._consumer.release()
        self._pipeline.warm_up()
        if self._lends:
            self._lend()
        elif self._take_batch(self._waits_s()):
            self._there()

    @property
    def _may_lend(self) -> bool:
        waits_for_java = self._pipeline.section is not None
        return self._plugin.shares_thread and self._holding is None and self._retry is None and not waits_for_java

    def _lend(self) -> None:
        """Let the shared thread take batches, until one is for this thread. Errors: as `_take_batch`."""
        self._lent = True
        try:
            self._shared.lend(self._take_shared, self._consumer.news)
        finally:
            self._lent = self._lends = False

    def _take_shared(self) -> Next:
        """One batch of what is there now, waiting for nothing."""
        self._commit_when_due()
        self._measure()
        if not (self._lends and self.may_take()):
            return Next.OWN
        return Next.OWN if self._take_batch(0.0) else Next.WAIT

    def _take_batch(self, wait_s: float) -> bool:
        """One batch *here*, for whose first record it waits so long; whether many more records are likely."""
        fetched = self._fetch(wait_s)
        self._take(self._rows(fetched))
        return fetched.is_full

    def _take(self, rows: pa.RecordBatch | None) -> None:
        self._small_batches += rows is not None and rows.num_rows <= FEW.rows
        if self._batch(rows):
            self._consumer.pass_ends(self._taken)

    def _batch(self, rows: pa.RecordBatch | None) -> bool:
        """Whether nothing of these rows is left to do, or of what is due without any."""
        try:
            return self._all_done(rows) if rows is not None else self._all_due()
        except RetriableError:
            self._drop_held()
            self._consumer.seek()  # what is left of these rows comes again (Invariant 3)
            raise

    def _all_done(self, rows: pa.RecordBatch) -> bool:
        """Whether nothing of these rows is left to do."""
        again = None
        if self._retry is not None:
            rows, again = self._retry.split(rows)
        done = not rows.num_rows or self._here(rows, self._pipeline.here)
        if done and again is not None and again.num_rows:
            done = self._again(self._still_mine(again))
        return done

    def _waits_s(self) -> float:
        """In how many seconds something has to be done without new records."""
        waits = [
            _NO_LAG_S if self._lag else IDLE_S,
            self._last_commit + self._input.commit_interval_s - time.monotonic(),
            self._consumer.wake(),
            None if self._holding is None else self._holding.due_s(),
        ]
        return max(0.01, min(seconds for seconds in waits if seconds is not None))

    def _all_due(self) -> bool:
        """Let a sink that holds rows make durable what is due without new ones; True."""
        if self._holding is not None and (due_s := self._holding.due_s()) is not None and due_s <= 0:
            with self.metrics.attempt():
                self._reached(self._pipeline.without_rows())
            self._go_on_held({})
        return True

    def _go_on_held(self, taken: Mapping[TopicPartition, int]) -> None:
        """Note how far a sink that holds rows has `taken` them: where it holds none, so far it has got."""
        # Rows that came again, from the first held one on, may be fewer than were taken before.
        self._taken.update({p: max(end, self._taken.get(p, end)) for p, end in taken.items()})
        held = self._pipeline.held
        done = {p: end for p, end in self._taken.items() if p not in held}
        if done and not self._abandoned:
            self._positions.go_on(done)
            self._done_at_last()
        self._taken = {p: end for p, end in self._taken.items() if p in held}

    def _done_at_last(self) -> None:
        self._recovered(self._failures)
        self._failures = 0

    def _drop_held(self) -> None:
        """Throw away what the sink holds: it comes again."""
        if self._holding is not None:
            self._holding.drop()
            self._taken.clear()

    def _commit_when_due(self) -> None:
        now = time.monotonic()
        if now - self._last_commit < self._input.commit_interval_s:
            return
        if not self._lent:
            self._consumer.commit(wait=False)
        elif not self._consumer.commit_in_passing():
            return  # others' records wait for this thread
        self._last_commit = now

    def _grant_wishes(self) -> None:
        """Do what the sink asks for. Errors: those that it met while no batch was there."""
        wishes = self._plugin.wishes()
        if not any(wishes):
            return
        mine = set(self._consumer.assigned)
        if offsets := {p: offset for p, offset in wishes.offsets.items() if p in mine}:
            log.info("The sink goes on with other records: %s", ", ".join(f"{p} {at}" for p, at in offsets.items()))
            self._positions.go_on(offsets)
            self._consumer.seek()
        for partition, seconds in wishes.rests.items():
            if partition in mine:
                self._consumer.rest(partition, time.monotonic() + seconds)
        if wishes.commit:
            self._consumer.commit(wait=False)

    def _measure(self) -> None:
        """Now and then: where the task stands."""
        now = time.monotonic()
        if (since_s := now - self._measured) >= (_LAG_S if self._lag else _NO_LAG_S):
            pace, self._small_batches, self._measured = self._small_batches / since_s, 0, now
            self._lag = self._consumer.lag()
            self.metrics.stands(len(self._consumer.assigned), self._positions.ahead(), self._lag)
            self._lends = self._may_lend and self._shared.is_worth(self.id, pace)

    def _stay(self, seconds: float) -> None:
        """Wait, while the consumer stays a member of its group."""
        self._consumer.hold()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stop.is_set():
            self._consumer.stay(min(left, POLL_S))

    def _reached(self, reached: Sequence[PartitionResult], there: bool = False) -> None:
        """Invariant 1: these rows are durable, so their offsets may be committed."""
        self._host.uses(one.partition.topic for one in reached if one.partition is not None)
        self._moved(reached, there)
        for one in reached:
            self.records += one.written
            if one.partition is not None and one.upto is not None and not self._abandoned:
                self._positions.go_on({one.partition: one.upto + 1})
                self._done_at_last()
        self._tell(reached)

    @staticmethod
    def _tell(reached: Sequence[PartitionResult]) -> None:
        """Errors: RecordError for what stopped for good."""
        for one in reached:
            if one.bad:
                log.warning("%d records of %s-%d were left out (errors.tolerance=all)", one.bad, *(one.partition or ()))
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)

    # -- here ----------------------------------------------------------------------------------------------------------

    def _fetch(self, wait_s: float) -> Fetched:
        """Fetch what there is now, and wait so long for the first."""
        most = max(1, min(FETCH_ROWS, int(FETCH_BYTES / self._mean_bytes)))
        messages = self._consumer.fetch(wait_s, most, FETCH_BYTES)
        if not messages:
            return Fetched((), True, False)
        taken, largest = sizes(messages)
        self._large_bytes = max(largest, int(0.9 * self._large_bytes))
        if len(messages) >= _MEASURED_ROWS or taken >= _MEASURED_BYTES:
            self._mean_bytes = 0.8 * self._mean_bytes + 0.2 * (taken / len(messages) + _ROW_BYTES)
        full = len(messages) >= min(most, THERE_ROWS // 20) or taken >= FETCH_BYTES
        # From brokers that are far away little comes at once, however much waits.
        full = full or is_worth_a_job(self._lag, self._lag * self._mean_bytes)
        few = is_few(len(messages), taken)
        return Fetched(self._positions.new_of(messages) if few else messages, few, full)

    def _rows(self, fetched: Fetched) -> pa.RecordBatch | None:
        """The rows that were not handled already."""
        if not fetched.messages:
            return None
        rows = to_arrow(fetched.messages)
        rows = rows if fetched.are_few else self._positions.not_handled(rows)
        return rows if rows.num_rows else None

    def _here(self, rows: pa.RecordBatch, work: Callable[[pa.RecordBatch, bool], list[PartitionResult]]) -> bool:
        """Whether nothing of these rows is left to do."""
        failures = 0
        while not self.stop.is_set():
            try:
                with self.metrics.attempt():
                    reached = work(rows, failures > 0)
            except EngineLost:
                if self._lent:
                    raise  # this thread does not wait
                self._stay(0.2)
            except RetriableError as error:
                away = isinstance(error, ConverterAway)
                if self._lent or (self._holding is not None and not away):
                    raise  # also what earlier batches left with the sink comes again
                failures += not away
                self._stay_after(error, failures, "to write a batch")
            else:
                self._recovered(failures)
                failures = 0
                self._host.retry_budget.succeeded()
                self._reached(reached)
                if self._holding is not None:
                    self._go_on_held(ends(rows))
                    break
                # Each kernel costs a part of what a small batch does, and most are handled as a whole.
                if not reached or sum(one.rows for one in reached) == rows.num_rows:
                    break
                rows = self._positions.not_handled(rows)
                if not rows.num_rows:
                    break
                # A search that took too long has left them.
                self._commit_when_due()
                self._consumer.hold()
                self._consumer.stay(0)
            rows = self._still_mine(rows)
            if not rows.num_rows:
                break
        else:
            return False
        if not self._paused:
            self._consumer.release()
        return True

    def _again(self, rows: pa.RecordBatch) -> bool:
        """Whether nothing is left to do of these rows of the retry topic, but to wait for what is not due."""
        retry = self._retry
        assert retry is not None
        due, rests, others = retry.due(rows)
        if others:
            log.warning("%d records in %s are other connectors'; a retry topic should be one's own", others, retry.name)
            self.metrics.moved([PartitionResult(dropped=others)])
        handled = ends(rows) | {partition: rest.offset for partition, rest in rests.items()}
        if due.num_rows and not self._here(due, self._write_again):
            return False
        kept = self._consumer.kept
        self._positions.go_on({p: end for p, end in handled.items() if p in kept and not self._abandoned})
        for partition, rest in rests.items():
            if partition in kept:
                self._consumer.rest(partition, time.monotonic() + (rest.until_ms - retry.clock_ms()) / 1000)
        return True

    def _write_again(self, rows: pa.RecordBatch, failed_before: bool) -> list[PartitionResult]:
        reached = self._pipeline.again(rows, failed_before)
        self._moved(reached, there=False)
        self._tell(reached)
        return []  # these partitions' offsets are long committed

    def _still_mine(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of partitions that the task has kept since they were fetched; others come again."""
        mine = pa.array([False] * len(rows), pa.bool_())
        for topic, partition in self._consumer.kept:
            mine = pc.or_(mine, pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], partition)))
        return rows.filter(mine)

    # -- there ---------------------------------------------------------------------------------------------------------

    def _there(self) -> None:
        """Work through the backlog by jobs; the next one begins meanwhile, so that cores do not wait for plans.

        Decided: the ranges of jobs that ran out of memory, or that the engine was lost with, are read *here*, because
        records that once decompressed are larger than Spark's memory would end it again and again, with all jobs of
        the worker, and here fail their own task or fit; loses: some ten seconds of jobs' work are done at the pace of
        *here*.
        """
        begun, ranges = False, self._jobs.ends
        try:
            while self._begin_jobs():
                begun, ranges = True, self._jobs.ends
                with self.metrics.attempt():
                    self._await(self._jobs.first)
                    self._settle_job()
                self._commit_when_due()
        except RetriableError as error:
            if isinstance(error, (EngineLost, OutOfMemory)):
                self._here_to.update(ranges)
            self._drop_jobs()
            self._must_recover = begun
            self._recover()
            raise
        finally:
            self._drop_jobs()
            if begun and not self.stop.is_set():
                self._consumer.seek()

    def _begin_jobs(self) -> bool:
        """Whether a job runs, begun now if there was room and so much waits that a job is worth it."""
        while not self._jobs.are_enough and self.may_take():
            try:
                ranges = self._backlog()
            except RetriableError as error:
                if not self._jobs:
                    raise
                log.warning("The next job cannot be planned yet: %s", error)
                break
            if ranges is None:
                break
            self._consumer.hold()
            self._drop_held()
            self._jobs.begin(self._pipeline.job(ranges, self._large_bytes, self._jobs.last))
        return bool(self._jobs)

    def _backlog(self) -> Ranges | None:
        """The ranges of the next job, after those that run; None where too few records wait."""
        if not self._pipeline.may_go_there or not self._host.spark.is_ready:
            return None
        consumer = self._consumer
        begins = self._begins()
        if any(begin < self._here_to.get(p, begin) for p, begin in begins.items()):
            return None
        waiting = {p: high - begin for p, begin in begins.items() if (high := consumer.high(p)) > begin}
        total = sum(waiting.values())
        again = sum(max(0, end - begins.get(p, end)) for p, end in self._taken.items())
        # What the sink holds comes again with a job: worth it only where at least as much is new.
        if not is_worth_a_job(total - again, (total - again) * self._mean_bytes) or total < 2 * again:
            return None
        limit = self._jobs.size.limit
        most = max(1, int(min(limit.rows, limit.bytes / self._mean_bytes)) // max(1, len(waiting)))
        if consumer.restart_remade({partition.topic for partition in waiting}):
            return None
        ranges = {}
        for partition in waiting:
            low, high = consumer.watermarks(partition)
            begin = self._positions.in_topic(partition, begins[partition], low, high)
            if high > begin:
                ranges[partition] = begin, min(high, begin + most)
        if self._holding is not None and ranges:
            ranges = dict(self._holding.job_ranges(ranges, {p: consumer.high(p) for p in ranges}))
        return ranges or None

    def _begins(self) -> dict[TopicPartition, int]:
        """Where the next job begins in each partition. Errors: RetriableError."""
        taken = self._jobs.ends
        retry = None if self._retry is None else self._retry.name
        consumer = self._consumer
        known = {p: taken[p] if p in taken else consumer.begin(p) for p in consumer.assigned if p.topic != retry}
        return {partition: begin for partition, begin in known.items() if begin is not None}

    def _await(self, running: BackgroundJob) -> None:
        while not running.done():
            self._consumer.stay(0.1)
            self._measure()
            if self.stop.is_set():
                self._jobs.cancel()
            elif self._paused:
                self._jobs.cancel_following()

    def _recover(self) -> None:
        """After a job failed: go on after the rows that it made durable all the same; nothing is written before."""
        if not self._must_recover:
            return
        mine = set(self._consumer.assigned)
        known = self._plugin.recover()
        self._positions.go_on_at_least({p: offset for p, offset in known.items() if p in mine})
        self._consumer.seek()
        self._must_recover = False

    def _settle_job(self) -> None:
        """Take over what the first job reached. Errors: those of the job, but for JobCancelled."""
        if not self._jobs:
            return
        try:
            reached = self._jobs.take()
        except JobCancelled:
            return
        self._host.retry_budget.succeeded()
        mine = set(self._consumer.assigned)
        self._reached([one for one in reached if one.partition in mine], there=True)

    def _drop_jobs(self) -> None:
        """End all jobs; one that ended before it could be cancelled counts."""
        self._jobs.cancel()
        while self._jobs:
            with contextlib.suppress(RetriableError):
                self._settle_job()

    # -- what the consumer calls (`sink_consumer.Owner`) ---------------------------------------------------------------

    @property
    def abandoned(self) -> bool:
        """Whether the task may commit nothing any more."""
        return self._abandoned

    def may_take(self) -> bool:
        """Whether records may be taken now."""
        return not (self._paused or self.stop.is_set()) and self._host.may_move()

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Open these partitions; where to go on in those for which the outside system knows better."""
        for partition in partitions:  # also of a topic that was made again (Invariant 2)
            self._taken.pop(partition, None)
            self._here_to.pop(partition, None)
        self._pipeline.read_anew()
        return self._plugin.open(self._of_plugin(partitions))

    def pre_commit(self, positions: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int] | None:
        """Let the outside system have these positions, too, before Kafka has them; those to commit, None: all."""
        given = {partition: positions[partition] for partition in self._of_plugin(list(positions))}
        released = self._plugin.pre_commit(given)
        if released is None:
            return None
        return {p: released.get(p, -1) if p in given else at for p, at in positions.items()}

    def end_batch(self, lost: bool) -> None:
        """End all jobs; what they reached counts unless the partitions are lost."""
        self._jobs.cancel(first_after_s=0 if lost else REVOKE_WAIT_S)
        if lost:
            self._jobs.forget()
        while self._jobs:
            self._settle_job()

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Close these partitions."""
        for partition in partitions:
            self._taken.pop(partition, None)
        self._plugin.close(self._of_plugin(partitions))

    def _of_plugin(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those that the sink knows of: the retry topic is the worker's own."""
        return [p for p in partitions if self._retry is None or p.topic != self._retry.name]

    # -- the end -------------------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        self._jobs.cancel_soon()

    def abandon(self) -> None:
        """Abandon it as any task, and remove it from its group, so that others get its partitions soon."""
        super().abandon()
        if self._opened is not None and (member := self._consumer.joined_as) is not None:
            name, run = f"leave-group-{self.id}", copy_context().run
            threading.Thread(target=run, args=(self._leave_group, member), name=name, daemon=True).start()

    def _leave_group(self, member: GroupMember) -> None:
        try:
            self._input.expel(member)
        except Exception as error:
            log.warning("The abandoned task keeps its place in its group, until its session ends: %s", error)

    def _end(self, failed: bool) -> None:
        self._shared.forget(self.id)
        try:
            if self._opened is not None:
                self._jobs.cancel()
                try:
                    self._consumer.close()
                finally:
                    self._pipeline.close()
        finally:
            if self._started:
                self._plugin.stop()
