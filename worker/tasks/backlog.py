"""The backlog of a sink task, worked through by Spark jobs while its consumer stays in the group.

The partitions are held meanwhile. The next job begins while the one ahead of it runs, so that cores do not wait for
plans (`pipeline/sink_jobs.py`).

Decided: ranges of jobs that ran out of memory, or with which the engine was lost, are read inline, because records that
are larger than Spark's memory once decompressed would end it again and again, with all jobs of the worker; inline they
fail their own task or fit; loses: some ten seconds of jobs' work are done at the pace of small batches.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Collection
from typing import Final

from headrace.plugins.contracts import SinkTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import PartitionedSink, extension
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import EngineLost
from headrace.worker.pipeline.executor import Ranges
from headrace.worker.pipeline.job import JobCancelled, OutOfMemory
from headrace.worker.pipeline.sink import SinkPipeline
from headrace.worker.tasks.held_rows import HeldRows
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.load import Load
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.sink_consumer import SinkConsumer
from headrace.worker.tasks.sink_loop import SinkLoop
from headrace.worker.tasks.waiting_age import WaitingAge

log = logging.getLogger(__name__)

REVOKE_WAIT_S: Final = 20.0
"""The time that a running job has left when its partitions are taken away; then it is cancelled."""


class Backlog:
    """The jobs of one sink task; for the task's own thread, except `cancel_soon`."""

    def __init__(
        self,
        loop: SinkLoop,
        host: TaskHost,
        plugin: SinkTask,
        pipeline: SinkPipeline,
        held: HeldRows,
        load: Load,
        age: WaitingAge,
    ) -> None:
        self._loop = loop
        self._host = host
        self._plugin = plugin
        self._pipeline = pipeline
        self._held = held
        self._load = load
        self._age = age
        self._jobs = pipeline.jobs
        self._must_recover = False
        self._has_begun = False
        """True once this round may have dropped held rows, or begun a job: the consumer then has to seek back."""
        self._whole: dict[TopicPartition, tuple[int, float]] = {}
        """The end of each partition that a job reads as a whole, and when that was its end."""
        self._inline_to: dict[TopicPartition, int] = {}
        """The ends of the ranges of jobs that ran out of memory, or with which the engine was lost."""

    def work(self, consumer: SinkConsumer, positions: Positions) -> None:
        """Run jobs for as long as enough records wait. Errors: those of jobs, and of plans."""
        self._has_begun, ranges = False, self._jobs.ends
        try:
            while self._begin_jobs(consumer, positions):
                ranges = self._jobs.ends
                with self._host.metrics.attempt():
                    self._await(consumer)
                    self._settle()
                self._loop.commit_when_due()
        except RetriableError as error:
            if isinstance(error, (EngineLost, OutOfMemory)):
                self._inline_to.update(ranges)
            self._drop()
            self._must_recover = self._has_begun
            self.recover(consumer, positions)
            raise
        finally:
            self._drop()
            if self._has_begun and not self._host.stop.is_set():
                consumer.partitions.seek()  # it has gone past the rows that were held (Invariant 3)

    def recover(self, consumer: SinkConsumer, positions: Positions) -> None:
        """After a failed job, go on after the rows that it made durable all the same; called before any other write."""
        if not self._must_recover:
            return
        mine = set(consumer.partitions.assigned)
        known = extension(self._plugin, PartitionedSink).recover()
        positions.go_on_at_least({p: offset for p, offset in known.items() if p in mine})
        consumer.partitions.seek()
        self._must_recover = False

    def end(self, lost: bool) -> None:
        """End all jobs; their outcomes count unless the partitions are lost."""
        self._jobs.cancel(first_after_s=0 if lost else REVOKE_WAIT_S)
        if lost:
            self._jobs.forget()
        while self._jobs:
            self._settle()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all about these partitions: their topic may have been made again."""
        for partition in partitions:
            self._inline_to.pop(partition, None)
        self._pipeline.read_anew()

    def cancel_soon(self) -> None:
        """End all jobs soon, without waiting; any thread may call."""
        self._jobs.cancel_soon()

    def close(self) -> None:
        """End all jobs; their outcomes count no more."""
        self._jobs.cancel()

    def _begin_jobs(self, consumer: SinkConsumer, positions: Positions) -> bool:
        """Begin jobs while there is room and enough records wait; True if any job runs."""
        while not self._jobs.are_enough and self._loop.may_take():
            try:
                ranges = self.next_ranges(consumer, positions)
            except RetriableError as error:
                if not self._jobs:
                    raise
                log.warning("The next job cannot be planned yet: %s", error)
                break
            if ranges is None:
                break
            self._has_begun = True  # before the held rows are gone, whatever fails
            consumer.partitions.hold()
            self._held.drop()
            self._jobs.begin(ranges, self._load.large_bytes)
        return bool(self._jobs)

    def next_ranges(self, consumer: SinkConsumer, positions: Positions) -> Ranges | None:
        """Plan the ranges of the next job, after the running ones; None if too few records wait.

        Errors: RetriableError.
        """
        if not self._pipeline.may_be_job or not self._host.spark.is_ready:
            return None
        begins = self._begins(consumer)
        if any(begin < self._inline_to.get(p, begin) for p, begin in begins.items()):
            return None
        waiting = {p: high - begin for p, begin in begins.items() if (high := consumer.partitions.high(p)) > begin}
        total, again = sum(waiting.values()), self._held.repeated(begins)
        # Rows that the sink holds come again with a job: worth it only if at least as many are new.
        if not self._load.is_worth_a_job(total - again) or total < 2 * again:
            return None
        limit = self._jobs.size.limit
        most = max(1, int(min(limit.rows, limit.bytes / self._load.mean_bytes)) // max(1, len(waiting)))
        if consumer.offsets.restart_remade({partition.topic for partition in waiting}):
            return None
        ranges = {}
        for partition in waiting:
            low, high = consumer.partitions.watermarks(partition)
            begin = positions.in_topic(partition, begins[partition], low, high)
            if high > begin:
                ranges[partition] = begin, min(high, begin + most)
            if high <= begin + most:
                self._whole[partition] = high, time.monotonic()
        if ranges and self._held.may_be:
            return self._held.job_ranges(ranges, {p: consumer.partitions.high(p) for p in ranges}) or None
        return ranges or None

    def _begins(self, consumer: SinkConsumer) -> dict[TopicPartition, int]:
        """The first offsets of the next job. Errors: RetriableError."""
        taken = self._jobs.ends
        retry = None if self._pipeline.retry is None else self._pipeline.retry.name
        known = {
            p: taken[p] if p in taken else consumer.partitions.begin(p)
            for p in consumer.partitions.assigned
            if p.topic != retry
        }
        return {partition: begin for partition, begin in known.items() if begin is not None}

    def _await(self, consumer: SinkConsumer) -> None:
        """Poll on until the first job has ended; a rebalance within a poll may end all of them."""
        while not self._jobs.first_is_done:
            consumer.stay(0.1)
            self._loop.measure()
            if self._host.stop.is_set():
                self._jobs.cancel()
            elif self._loop.is_paused:
                self._jobs.cancel_following()

    def _settle(self) -> None:
        """Note the outcome of the first job. Errors: those of the job, except JobCancelled."""
        if not self._jobs:
            return
        try:
            outcome = self._jobs.take()
        except JobCancelled:
            return
        self._host.retry_budget.succeeded()
        self._loop.reached(outcome)
        for partition, one in outcome.of.items():
            end, at = self._whole.get(partition, (math.inf, 0.0))
            if one.upto is not None and one.upto + 1 >= end:
                self._age.had_all([partition], at)

    def _drop(self) -> None:
        """End all jobs; one that ended before it could be cancelled counts."""
        self._jobs.cancel()
        while self._jobs:
            with contextlib.suppress(RetriableError):
                self._settle()
