"""The loop of a sink task: poll, decode and transform, write, commit; over and over.

One thread owns the consumer and never runs Spark jobs itself. The steps of a batch's way are in `pipeline/sink.py`.
Beside this loop:

    inline.py         a batch in the worker, written until nothing of it is left
    backlog.py        much that waits, worked through by Spark jobs while the consumer is polled on
    rebalances.py     what the sink is told of partitions that come and go, and of commits
    held_rows.py      rows that a sink holds over several batches
    load.py           how much waits, how large records are, how many small batches come
    shared_thread.py  one thread that takes the small batches of many tasks, while each task's own only waits
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from headrace.plugins.contracts import SinkTask
from headrace.plugins.conversion.kafka_rows import to_arrow
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import RecordError
from headrace.worker.model import State
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.tasks.backlog import Backlog
from headrace.worker.tasks.builder import PipelineBuilder
from headrace.worker.tasks.fetched import Fetched
from headrace.worker.tasks.held_rows import HeldRows
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.inline import InlineBatches
from headrace.worker.tasks.load import FETCH_BYTES, NO_LAG_S, Load
from headrace.worker.tasks.rebalances import Rebalances
from headrace.worker.tasks.shared_thread import Next, SharedThread, may_lend
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.sink_input import SinkInput
from headrace.worker.tasks.static_member import Fenced
from headrace.worker.tasks.task import BACKOFF, Task

log = logging.getLogger(__name__)

POLL_S = 0.5
IDLE_S = 5.0
"""How long a task sleeps at most for which nothing comes."""
FENCED_WAIT_S = 10.0
"""How soon a worker that lost its membership knows it; only where it did not is a fenced task started again."""


class _Opened(NamedTuple):
    """The parts of a task that has begun."""

    pipeline: SinkPipeline
    consumer: SinkConsumer
    inline: InlineBatches
    backlog: Backlog


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
        self._held = HeldRows(plugin)
        self._load = Load()
        self._opened: _Opened | None = None
        self._started = False
        self._failures = 0
        """How often batches failed since rows became durable; to fetch none, or only to hold some, is no success."""
        # Tasks that begin together do not all commit at once, which would hold up each other's records.
        self._last_commit = time.monotonic() - random.uniform(0.0, records.commit_interval_s)
        self._lends = False
        """True if the next batches are for the shared thread."""
        self.is_lent = False
        """True on the thread that takes many tasks' batches, which waits for nothing."""
        self.records = 0

    def _begin(self) -> None:
        records, host, plugin = self._input, self._host, self._plugin
        self._builder.check_reach()
        context = replace(host.context, topic_ids=records.topic_ids.ids, group_member=lambda: self._consumer.member)
        self._started = True
        plugin.start(host.config, context)
        pipeline = self._builder.sink(plugin)
        self._until_done(self._builder.create_topics)
        backlog = Backlog(self, host, plugin, pipeline, self._held, self._load)
        consumer = SinkConsumer(
            records.consumer(),
            records.subscription,
            records.topic_ids,
            self._positions,
            self,
            Rebalances(plugin, pipeline, self._held, backlog),
            records.largest_record,
            records.stable_offsets if plugin.commits_offsets else None,
        )
        inline = InlineBatches(self, host, pipeline, consumer, self._positions, self._held)
        self._opened = _Opened(pipeline, consumer, inline, backlog)

    @property
    def _parts(self) -> _Opened:
        assert self._opened is not None, "the task has not begun"
        return self._opened

    @property
    def _consumer(self) -> SinkConsumer:
        return self._parts.consumer

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self.stop.is_set():
            try:
                self._step()
            except Fenced as error:  # also from where another error is handled
                self._end_fenced(error)

    def _step(self) -> None:
        """One batch, or a moment in which none may be. Errors: Fenced; what fails the task."""
        try:
            self.commit_when_due()
            self._grant_wishes()
            self.measure()
            if self._paused:
                self._consumer.hold()
                self._set(State.PAUSED)
                self._parts.inline.run(None)  # as in Kafka Connect, the clock goes on for what the sink has
                self._consumer.stay(POLL_S)
            elif not self._host.may_move():
                self.stay(0.2)
            else:
                self._set(State.RUNNING)
                self._move()
        except EngineLost:
            self.stay(0.2)
        except RetriableError as error:
            self._failures += 1
            self.stay_after(error, self._failures, "of a batch")

    def _move(self) -> None:
        """One batch inline, or many on the shared thread; then jobs, if much more waits."""
        self._parts.backlog.recover(self._consumer, self._positions)
        self._consumer.release()
        self._parts.pipeline.warm_up()
        if self._lends:
            self._lend()
        elif self._take_batch(self._waits_s()):
            self._parts.backlog.work(self._consumer, self._positions)

    def _lend(self) -> None:
        """Let the shared thread take batches, until one is for this thread. Errors: as `_take_batch`."""
        self.is_lent = True
        try:
            self._shared.lend(self._take_shared, self._consumer.news)
        finally:
            self.is_lent = self._lends = False

    def _take_shared(self) -> Next:
        """One batch of what is there now, waiting for nothing."""
        self.commit_when_due()
        self.measure()
        if not (self._lends and self.may_take()):
            return Next.OWN
        return Next.OWN if self._take_batch(0.0) else Next.WAIT

    def _take_batch(self, wait_s: float) -> bool:
        """One batch inline, for whose first record it waits so long; True if many more records are likely."""
        fetched = self._poll(wait_s)
        rows = self._rows(fetched)
        self._load.took(rows)
        if self._parts.inline.run(rows):
            self._consumer.pass_ends(self._held.partitions)
        return fetched.is_full

    # -- poll ----------------------------------------------------------------------------------------------------------

    def _poll(self, wait_s: float) -> Fetched:
        """Fetch what there is now, and wait so long for the first."""
        messages = self._consumer.fetch(wait_s, self._load.most_rows, FETCH_BYTES)
        if not messages:
            return Fetched((), True, False)
        fetched = self._load.of(messages)
        return fetched._replace(messages=self._positions.new_of(messages)) if fetched.are_few else fetched

    def _rows(self, fetched: Fetched) -> pa.RecordBatch | None:
        """The rows that were not handled already."""
        if not fetched.messages:
            return None
        rows = to_arrow(fetched.messages)
        rows = rows if fetched.are_few else self._positions.not_handled(rows)
        return rows if rows.num_rows else None

    # -- reached, committed --------------------------------------------------------------------------------------------

    def reached(self, reached: Sequence[PartitionResult]) -> None:
        """Take over what an inline batch made durable. Errors: RecordError."""
        self._reached(reached, by_job=False)

    def reached_by_job(self, reached: Sequence[PartitionResult]) -> None:
        """Take over what a job made durable in partitions that are still the task's. Errors: RecordError."""
        mine = set(self._consumer.assigned)
        self._reached([one for one in reached if one.partition in mine], by_job=True)

    def _reached(self, reached: Sequence[PartitionResult], by_job: bool) -> None:
        """Invariant 1: these rows are durable, so their offsets may be committed."""
        self._host.uses(one.partition.topic for one in reached if one.partition is not None)
        for one in reached:
            self.records += one.written
            if one.partition is not None and one.upto is not None:
                self.go_on({one.partition: one.upto + 1})
        self.count(reached, by_job)

    def go_on(self, done: Mapping[TopicPartition, int]) -> None:
        """Note that everything before these offsets is done with."""
        if not self.abandoned:
            self._positions.go_on(done)
            self.recovered(self._failures)
            self._failures = 0

    def count(self, reached: Sequence[PartitionResult], by_job: bool = False) -> None:
        """Count what a batch moved. Errors: RecordError for what stopped for good."""
        self._moved(reached, by_job)
        for one in reached:
            if one.bad:
                log.warning("%d records of %s-%d were left out (errors.tolerance=all)", one.bad, *(one.partition or ()))
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)

    def commit_when_due(self) -> None:
        """Commit what was reached, if the commit interval has passed."""
        now = time.monotonic()
        if now - self._last_commit < self._input.commit_interval_s:
            return
        if not self.is_lent:
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

    # -- between batches -----------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """True if an operator has paused it."""
        return self._paused

    @property
    def abandoned(self) -> bool:
        """True once the task may commit nothing any more."""
        return self._abandoned

    def may_take(self) -> bool:
        """True if records may be taken now."""
        return not (self._paused or self.stop.is_set()) and self._host.may_move()

    def measure(self) -> None:
        """Measure where the task stands, if that is due."""
        if (pace := self._load.measure(self._consumer.lag)) is None:
            return
        self.metrics.stands(len(self._consumer.assigned), self._positions.ahead(), self._load.lag)
        pipeline = self._parts.pipeline
        waits = self._held.may_be or pipeline.retry is not None or pipeline.java_stage is not None
        self._lends = may_lend(self._plugin) and not waits and self._shared.is_worth(self.id, pace)

    def _waits_s(self) -> float:
        """In how many seconds something has to be done without new records."""
        waits = [
            NO_LAG_S if self._load.lag else IDLE_S,
            self._last_commit + self._input.commit_interval_s - time.monotonic(),
            self._consumer.wake(),
            self._held.due_s(),
        ]
        return max(0.01, min(seconds for seconds in waits if seconds is not None))

    def stay(self, seconds: float) -> None:
        """Wait, while the consumer stays a member of its group."""
        self._consumer.hold()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stop.is_set():
            self._consumer.stay(min(left, POLL_S))

    def stay_after(self, error: RetriableError, failures: int, what: str) -> None:
        """Wait before the next try. Errors: ConverterTimeout."""
        if isinstance(error, ConverterAway):
            seconds = self._host.retry_budget.failed(error)
            log.warning("A converter cannot learn what it needs yet, it asks again in %.1f s: %s", seconds, error)
        else:
            seconds = BACKOFF.pause(failures)
            log.warning("Attempt %d %s failed, it will be tried again: %s", failures, what, error)
        self.stay(seconds)
        self._builder.create_missing_topics()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _rouse(self) -> None:
        super()._rouse()
        if self._opened is not None:
            self._consumer.interrupt()

    def _cancel(self) -> None:
        if self._opened is not None:
            self._parts.backlog.cancel_soon()

    def _end_fenced(self, error: Fenced) -> None:
        """Wait for the end, where another worker runs this task now. Errors: RetriableError once this one does."""
        said = False
        while not self.stop.wait(FENCED_WAIT_S):
            if self._host.may_move():
                raise RetriableError(str(error)) from error  # a new consumer takes the place back
            if not said:
                log.warning("The task was taken over by another worker, and writes nothing any more")
                said = True

    def abandon(self) -> None:
        """Abandon it as any task, and remove it from its group, so that others get its partitions soon."""
        super().abandon()
        if self._opened is not None and (member := self._consumer.joined_as) is not None:
            self._input.expel_soon(member, self.id)

    def _end(self, failed: bool) -> None:
        self._shared.forget(self.id)
        try:
            if self._opened is not None:
                self._parts.backlog.close()
                try:
                    self._consumer.close()
                finally:
                    self._parts.pipeline.close()
        finally:
            if self._started:
                self._plugin.stop()
