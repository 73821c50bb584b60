"""The loop of a sink task: poll, decode and transform, write, commit; over and over.

One thread owns the consumer and never runs Spark jobs itself. The steps of a batch are in `pipeline/sink.py`. Beside
this loop:

    inline.py         a batch in the worker, written until nothing of it is left
    backlog.py        a backlog, worked through by Spark jobs while the consumer keeps polling
    rebalances.py     calls of the sink for partitions that come and go, and for commits
    held_rows.py      rows that a sink holds over several batches
    load.py           the waiting records, the size of records, the number of small batches
    waiting_age.py    how long the oldest of the waiting records has waited
    shared_thread.py  one thread that takes the small batches of many tasks, while each task's own only waits
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from headrace.plugins.contracts import SinkTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import OF_SINKS, check_extensions, extension
from headrace.plugins.interop.conversion.kafka_rows import to_arrow
from headrace.plugins.offsets import Stop, TopicPartition
from headrace.plugins.sink_requests import RequestingSink
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import RecordError
from headrace.worker.model import State
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.tasks.backlog import Backlog
from headrace.worker.tasks.builder import PipelineBuilder
from headrace.worker.tasks.held_rows import HeldRows
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.inline import InlineBatches
from headrace.worker.tasks.load import FETCH_BYTES, NO_LAG_S, Load
from headrace.worker.tasks.rebalances import Rebalances
from headrace.worker.tasks.shared_thread import Next, SharedThread, may_lend
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.sink_input import SinkInput
from headrace.worker.tasks.static_member import Fenced, end_fenced
from headrace.worker.tasks.task import BACKOFF, Task
from headrace.worker.tasks.waiting_age import WaitingAge

log = logging.getLogger(__name__)

POLL_S = 0.5
IDLE_S = 5.0
"""The longest sleep of a task without new records."""


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
        self._requesting = extension(plugin, RequestingSink)
        self._builder = builder
        self._input = records
        self._positions = records.positions
        self._held = HeldRows(plugin)
        self._load = Load()
        self._age = WaitingAge()
        self._opened: _Opened | None = None
        self._started = False
        self._failures = 0
        """Failed batches since rows last became durable; to fetch none, or only to hold some, is no success."""
        # Staggered, so that tasks that begin together do not commit at once and hold up each other's records.
        self._last_commit = time.monotonic() - random.uniform(0.0, records.commit_interval_s)
        self._lends = False
        """True if the next batches are for the shared thread."""
        self.is_lent = False
        """True on the thread that takes many tasks' batches, which waits for nothing."""
        self.records = 0

    def begin(self) -> None:
        records, host, plugin = self._input, self._host, self._plugin
        check_extensions(plugin, OF_SINKS)
        self._builder.check_reach()
        context = replace(
            host.context, topic_ids=records.topic_ids.ids, group_member=lambda: self._consumer.membership.member
        )
        self._started = True
        plugin.start(host.config, context)
        pipeline = self._builder.sink(plugin)
        self._until_done(self._builder.create_topics)
        backlog = Backlog(self, host, plugin, pipeline, self._held, self._load, self._age)
        consumer = SinkConsumer(
            records.consumer(),
            records.subscription,
            records.topic_ids,
            self._positions,
            host,
            self,
            Rebalances(plugin, pipeline, self._held, backlog),
            records.largest_record,
            records.stable_offsets if self._requesting.commits_offsets else None,
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

    def loop(self) -> None:
        while not self._host.stop.is_set():
            try:
                self._step()
            except Fenced as error:  # also if raised while another error is handled
                end_fenced(error, self._host)

    def _step(self) -> None:
        """Move one batch, or pass a moment in which none may be. Errors: Fenced; what fails the task."""
        try:
            self.commit_when_due()
            self._grant_requests()
            self.measure()
            if self.is_paused:
                self._consumer.partitions.hold()
                self._set(State.PAUSED)
                self._parts.inline.run(None)  # as in Kafka Connect, the clock of a sink's held rows goes on
                self._consumer.stay(POLL_S)
            elif not self._host.membership_ok():
                self.stay(0.2)
            else:
                self._set(State.RUNNING)
                self.process()
        except EngineLost:
            self.stay(0.2)
        except RetriableError as error:
            self._failures += 1
            self.stay_after(error, self._failures, "of a batch")

    def process(self) -> None:
        """Move one batch inline, or many on the shared thread; then run jobs if many more records wait."""
        self._parts.backlog.recover(self._consumer, self._positions)
        self._consumer.partitions.release()
        self._parts.pipeline.warm_up()
        if self._lends:
            self._lend()
        elif self.process_batch(self._waits_s()):
            self._parts.backlog.work(self._consumer, self._positions)

    def _lend(self) -> None:
        """Let the shared thread process batches until it returns the task. Errors: as `process_batch`."""
        self.is_lent = True
        try:
            self._shared.lend(self._process_shared, self._consumer.news)
        finally:
            self.is_lent = self._lends = False

    def _process_shared(self) -> Next:
        self.commit_when_due()
        self.measure()
        if not (self._lends and self.may_take()):
            return Next.OWN
        return Next.OWN if self.process_batch(0.0) else Next.WAIT

    def process_batch(self, wait_s: float) -> bool:
        """Poll, and write the rows inline; True if many more records are likely.

        `wait_s`: the longest wait for the first record.
        """
        rows, are_more = self.poll(wait_s)
        self._load.took(rows)
        if self._parts.inline.run(rows):
            self._consumer.partitions.pass_ends(self._held.partitions)
        return are_more

    def poll(self, wait_s: float) -> tuple[pa.RecordBatch | None, bool]:
        """Fetch rows that were not handled already, None for none; True if many more are likely."""
        self.metrics.stages.take_batch()  # what was read last became no batch
        messages = self._consumer.fetch(wait_s, self._load.most_rows, FETCH_BYTES)
        if not messages:
            return None, False
        came = self._load.of(messages)
        self.metrics.fetched(came.bytes)
        new = self._positions.new_of(messages) if came.are_few else messages
        if not new:
            return None, came.is_full
        with self.metrics.stages.timed("read"):
            rows = to_arrow(new) if came.are_few else self._positions.not_handled(to_arrow(new))
        if not rows.num_rows:
            return None, came.is_full
        self._age.took(rows)
        return rows, came.is_full

    # -- reached, committed --------------------------------------------------------------------------------------------

    def reached(self, outcome: Outcome[TopicPartition]) -> None:
        """Note durable offsets of partitions that are still the task's (Invariant 1). Errors: RecordError."""
        mine = set(self._consumer.partitions.assigned)
        outcome = Outcome({p: one for p, one in outcome.of.items() if p in mine}, outcome.by_job)
        self._host.uses(partition.topic for partition in outcome.of)
        self.records += sum(one.written for one in outcome)
        if outcome.by_job:
            self.metrics.fetched(self._load.estimated_bytes(outcome.rows))
        if done := {partition: one.upto + 1 for partition, one in outcome.of.items() if one.upto is not None}:
            self.go_on(done)
        self.count(outcome)

    def go_on(self, done: Mapping[TopicPartition, int]) -> None:
        """Note that all records before these offsets are done with."""
        if not self.abandoned:
            self._positions.go_on(done)
            self.recovered(self._failures)
            self._failures = 0

    def count(self, outcome: Outcome[TopicPartition]) -> None:
        """Count a batch's records. Errors: RecordError if a partition stopped for good."""
        self._moved(outcome)
        for partition, one in outcome.of.items():
            if one.bad:
                log.warning("%d records of %s-%d were left out (errors.tolerance=all)", one.bad, *partition)
            if one.stop is Stop.FATAL:
                raise RecordError(one.reason)

    def commit_when_due(self) -> None:
        """Commit the reached offsets if the commit interval has passed."""
        now = time.monotonic()
        if now - self._last_commit < self._input.commit_interval_s:
            return
        if not self.is_lent:
            self._consumer.offsets.commit(wait=False)
        elif not self._consumer.offsets.commit_in_passing():
            return  # others' records wait for this thread
        self._last_commit = now

    def _grant_requests(self) -> None:
        """Grant the sink's requests for partitions that the task has. Errors: those that it met between batches."""
        requests, partitions = self._requesting.requests(), self._consumer.partitions
        if not any(requests):
            return
        mine = set(partitions.assigned)
        if offsets := {p: offset for p, offset in requests.offsets.items() if p in mine}:
            log.info("The sink goes on with other records: %s", ", ".join(f"{p} {at}" for p, at in offsets.items()))
            self._positions.go_on(offsets)
            partitions.seek()
        for partition, seconds in requests.rests.items():
            if partition in mine:
                partitions.rest(partition, time.monotonic() + seconds)
        if requests.commit:
            self._consumer.offsets.commit(wait=False)

    # -- between batches -----------------------------------------------------------------------------------------------

    def may_take(self) -> bool:
        """True if records may be taken now."""
        return not (self.is_paused or self._host.stop.is_set()) and self._host.membership_ok()

    def measure(self) -> None:
        """Measure partitions, uncommitted records and lag, if that is due."""
        partitions = self._consumer.partitions
        if (pace := self._load.measure(partitions.waiting)) is None:
            return
        age_s = self._age.measure(self._load.waiting, partitions.are_held)
        self.metrics.stands(len(partitions.assigned), self._positions.ahead(), self._load.lag, age_s)
        pipeline = self._parts.pipeline
        waits = self._held.may_be or pipeline.retry is not None or pipeline.java_stage is not None
        self._lends = may_lend(self._plugin) and not waits and self._shared.is_worth(self.id, pace)

    def _waits_s(self) -> float:
        """The seconds until something has to be done without new records."""
        waits = [
            NO_LAG_S if self._load.lag else IDLE_S,
            self._last_commit + self._input.commit_interval_s - time.monotonic(),
            self._consumer.partitions.wake(),
            self._held.due_s(),
        ]
        return max(0.01, min(seconds for seconds in waits if seconds is not None))

    def stay(self, seconds: float) -> None:
        """Wait while the consumer stays a member of its group."""
        self._consumer.partitions.hold()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._host.stop.is_set():
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

    def cancel(self) -> None:
        if self._opened is not None:
            self._parts.backlog.cancel_soon()

    def abandon(self) -> None:
        """Abandon the task, and remove it from its group so that others get its partitions soon."""
        super().abandon()
        if self._opened is not None and (member := self._consumer.membership.joined_as) is not None:
            self._input.expel_soon(member, self.id)

    def end(self, failed: bool) -> None:
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
