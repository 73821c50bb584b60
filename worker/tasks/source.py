"""A source task: plan, read, produce, remember offsets; over and over."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from headrace.plugins.contracts import SourceTask
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import OF_SOURCES, PacedSource, SourceProgress, check_extensions, extension
from headrace.plugins.offsets import Deliveries, PartitionResult, SourceOffset, SourcePartition, Stop
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import ConnectError, RecordError
from headrace.worker.model import State
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.placement import is_few
from headrace.worker.pipeline.source import SourceBatch, SourcePipeline
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.builder import PipelineBuilder, SourceOutput
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.poll_interval import FIRST_S, TOLD_S, Pace, PollInterval
from headrace.worker.tasks.task import BACKOFF, Task
from headrace.worker.tasks.transactional_offsets import TransactionalOffsets

log = logging.getLogger(__name__)


class _Unconfirmed(NamedTuple):
    """The outcome of a batch whose offsets are not stored yet."""

    number: int
    """`SourceOffsets.durable` reaches it once they are."""
    reached: list[PartitionResult]
    partitions: list[SourcePartition]


class SourceTaskRunner(Task):
    """Runs one source task."""

    def __init__(
        self,
        host: TaskHost,
        plugin: SourceTask,
        builder: PipelineBuilder,
        output: SourceOutput,
        offsets: SourceOffsets,
        poll_interval: PollInterval,
    ) -> None:
        """`offsets`: TransactionalOffsets if `output` has transactions."""
        super().__init__(host)
        self._plugin = plugin
        self._paced, self._progress = extension(plugin, PacedSource), extension(plugin, SourceProgress)
        self._builder = builder
        self._output = output
        self._offsets = offsets
        self._exactly_once = offsets if isinstance(offsets, TransactionalOffsets) else None
        self._poll_interval = poll_interval
        self._pipeline: SourcePipeline | None = None
        self._started = False
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self._storing = threading.Lock()
        self.records = 0

    def begin(self) -> None:
        check_extensions(self._plugin, OF_SOURCES)
        self._builder.check_reach()
        self._until_done(self._output.open_transactions)  # before offsets are read, which an older start may yet commit
        self._until_done(self._offsets.refresh)  # a plugin may ask for stored offsets as it starts
        context = replace(self._host.context, wake=self._wake.set, stored_offsets=self._stored)
        self._started = True
        self._plugin.start(self._host.config, context)
        self._check_deliveries()
        self._pipeline = self._builder.source(self._plugin, self._output)
        self._until_done(self._builder.create_topics)

    def _check_deliveries(self) -> None:
        """Check the plugin's `wants_deliveries`. Errors: ConnectError."""
        wanted: object = self._progress.wants_deliveries
        if not isinstance(wanted, Deliveries):
            raise ConnectError(
                f"wants_deliveries of {type(self._plugin).__qualname__} is {wanted!r}. Set it to Deliveries.NONE, to "
                "Deliveries.LAST for the last row of a batch, or to Deliveries.ALL for each row "
                "(headrace.plugins.contracts.Deliveries)."
            )

    def ask_to_stop(self) -> None:
        """As `Task.ask_to_stop`; also interrupts its reading."""
        super().ask_to_stop()
        self._host.interrupts.begin()

    def abandon(self) -> None:
        """As `Task.abandon`; from now on another worker may begin at the stored offsets."""
        with self._storing:
            super().abandon()
            self._release()

    def loop(self) -> None:
        with self._poll_interval.source() as pace:
            self._ask(pace)

    def _ask(self, pace: Pace) -> None:
        assert self._pipeline is not None
        failures, idle_s = 0, FIRST_S
        while not self._host.stop.is_set():
            self._commit_if_due()
            try:
                self._confirm()
                self._pipeline.listen()
                if self.is_paused:
                    self._commit()
                    self._set(State.PAUSED)
                    self.wait(1.0)
                    continue
                self._set(State.RUNNING)
                if not self._host.membership_ok():
                    self.wait(0.2)
                    continue
                self._pipeline.warm_up()
                with self.metrics.attempt():
                    batch = self._batch()
            except EngineLost:
                self.wait(0.2)
                continue
            except RetriableError as error:
                if self._host.stop.is_set():
                    log.info("The stop broke off what the task was doing: %s", error)
                    break
                failures += 1
                self._wait_after(error, failures)
                continue
            self.recovered(failures)
            failures = 0
            self._host.retry_budget.succeeded()
            if batch is not None:
                idle_s = FIRST_S
                if self._paced.coalesces and is_few(rows := batch.outcome.rows, batch.bytes):
                    self._host.stop.wait(pace.small_batch(rows))
                if batch.caught_up:
                    self._wait_for_news(TOLD_S)
                continue
            idle_s = min(idle_s * 2, self._poll_interval.longest_s)
            if not self._paced.waits_for_news:
                self._wait_for_news(TOLD_S if self._paced.tells_of_news else idle_s)

    def _wait_for_news(self, seconds: float) -> None:
        """Wait, unless the plugin tells of something new, or the open transaction is due before."""
        self.wait(seconds if self._exactly_once is None else min(seconds, self._exactly_once.due_s()))

    def _wait_after(self, error: RetriableError, failures: int) -> None:
        """Wait before the next try. Errors: ConverterTimeout."""
        seconds = self._host.retry_budget.failed(error) if isinstance(error, ConverterAway) else BACKOFF.pause(failures)
        log.warning("Attempt %d of a batch failed, it will be tried again: %s", failures, error)
        self.wait(seconds)
        self._builder.create_missing_topics()

    def _batch(self) -> SourceBatch | None:
        """Move a batch; None also if its plan yielded no rows: the source is then polled as if it had nothing new."""
        after: list[SourceOffset | None] = [
            self._offsets.get(self.id.connector, partition) for partition in self._plugin.partitions()
        ]
        batch = self._sent_and_set(after)
        if batch is None:
            return None
        if self._exactly_once is not None and not self.abandoned:
            with self.metrics.stages.timed("commit"):
                self._exactly_once.end_batch(batch.ends_transaction)
        for one in batch.outcome:
            if one.stop is Stop.FATAL:
                raise RecordError(f"{one.reason} (after {dict(one.source_offset or {})} of {one.source_partition})")
        return None if batch.is_empty else batch

    def _sent_and_set(self, after: Sequence[SourceOffset | None]) -> SourceBatch | None:
        """Send the next batch and set its offsets; one that fails leaves nothing in its transaction."""
        assert self._pipeline is not None
        try:
            batch = self._pipeline.batch(after)
            if batch is not None:
                self._moved(batch.outcome)
                with self.metrics.stages.timed("commit"):
                    self._store(batch.outcome)
            return batch
        except BaseException:
            if self._exactly_once is not None:
                self._exactly_once.abort()
            raise

    def _commit_if_due(self) -> None:
        if self._exactly_once is not None:
            self._exactly_once.commit_if_due()

    def _commit(self) -> None:
        if self._exactly_once is not None:
            self._exactly_once.commit()

    def _stored(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [self._offsets.get(self.id.connector, partition) for partition in partitions]

    def _store(self, outcome: Outcome[int]) -> None:
        """Invariant 1: these rows are acknowledged by Kafka, so their offsets may be stored."""
        with self._storing:
            if self.abandoned:
                return
            number, stored = 0, []
            for one in outcome:
                self._host.uses(one.topics)
                self.records += one.written
                for partition, offset in self._progress.offsets_reached(one):
                    number = self._offsets.set(self.id.connector, partition, offset)
                    stored.append(partition)
            if not number and self._exactly_once is not None:
                number = self._exactly_once.number()  # a plugin is told that its records are committed, at least
            if number:
                # Without the receipts of all rows, which would stay in memory until offsets are stored.
                kept = [replace(one, acknowledged=None) for one in outcome]
                self._unconfirmed.append(_Unconfirmed(number, kept, stored))
        if outcome.by_job:  # repeating it would be long work
            self._offsets.flush()

    def _confirm(self) -> None:
        while self._unconfirmed and self._unconfirmed[0].number <= self._offsets.durable:
            self._progress.committed(self._unconfirmed.popleft().reached)

    def cancel(self) -> None:
        if self._pipeline is not None:
            self._pipeline.cancel()

    def end(self, failed: bool) -> None:
        try:
            self._end_transaction(failed)
            if self._pipeline is not None:
                self._pipeline.close()
            if not self.abandoned:
                self._store_last()
        finally:
            if self._started:
                self._plugin.stop()

    def _end_transaction(self, failed: bool) -> None:
        """Finish the transaction, or abort it if the task failed; if neither works it ends with the next start."""
        if self._exactly_once is None:
            return
        try:
            if not self.abandoned:
                (self._exactly_once.give_up if failed else self._exactly_once.finish)()
        except Exception as error:
            log.warning("The last transaction could not be finished: %s", error)
        finally:
            self._output.close_transactions()

    def _store_last(self) -> None:
        try:
            self._offsets.flush()
            self._confirm()
        finally:
            self._release()

    def _release(self) -> None:
        unstored = [partition for one in list(self._unconfirmed) for partition in one.partitions]
        if self._offsets.release(self.id.connector, unstored):
            log.warning("The last offsets could not be stored: what was read since the ones before will be read again")
