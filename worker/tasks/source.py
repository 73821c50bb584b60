"""A source task: plan, read, produce, remember offsets; over and over."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.plugins.contracts import SourceTask, TaskContext
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import Reached, SourceOffset, Stop
from headrace.worker.deadletters.converter_retry import ConverterAway, RetryBudget
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import RecordError
from headrace.worker.model import State
from headrace.worker.pipeline.walk import SourceWalk
from headrace.worker.storage.offset_file import SourceOffsets
from headrace.worker.tasks.poll_interval import FIRST_S, PollInterval
from headrace.worker.tasks.task import BACKOFF, Task

log = logging.getLogger(__name__)


class SourceTaskRunner(Task):
    """Runs one source task."""

    def __init__(
        self,
        plugin: SourceTask,
        config: Mapping[str, str],
        context: TaskContext,
        walk: Callable[[], SourceWalk],
        offsets: SourceOffsets,
        pace: PollInterval,
        patience: RetryBudget | None = None,
        make_topics: Callable[[], None] = lambda: None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self._plugin = plugin
        self._config = config
        self._context = context
        self._make_walk = walk
        self._offsets = offsets
        self._pace = pace
        self._patience = patience or RetryBudget(0, 0)
        self._make_topics = make_topics
        self._walk: SourceWalk | None = None
        self._started = False
        self._unconfirmed: deque[tuple[int, list[Reached]]] = deque()
        self._storing = threading.Lock()
        self.records = 0

    def _begin(self) -> None:
        self._started = True
        self._plugin.start(self._config, self._context)
        self._walk = self._make_walk()
        self._until_done(self._make_topics)
        self._until_done(self._offsets.refresh)

    def ask_to_stop(self) -> None:
        """As `Task.ask_to_stop`; what it reads it need not wait for."""
        super().ask_to_stop()
        self.interrupts.begin()

    def abandon(self) -> None:
        """As `Task.abandon`; another worker may begin where the stored offsets are, from now on."""
        with self._storing:
            super().abandon()
            self._release()

    def _loop(self) -> None:
        with self._pace.source():
            self._ask()

    def _ask(self) -> None:
        assert self._walk is not None
        failures, idle_s = 0, FIRST_S
        while not self.stopping:
            self._confirm()
            if self._paused:
                self._set(State.PAUSED)
                self.wait(1.0)
                continue
            self._set(State.RUNNING)
            if not self._may_move():
                self.wait(0.2)
                continue
            try:
                self._walk.prepare()
                with self.metrics.attempt():
                    moved = self._batch()
            except EngineLost:
                self.wait(0.2)
                continue
            except RetriableError as error:
                if self.stop_token.is_set():  # not `stopping`, which mypy takes for what it was when the loop began
                    log.info("what was asked for when the task was stopped was broken off: %s", error)
                    break
                failures += 1
                seconds = self._patience.failed(error) if isinstance(error, ConverterAway) else BACKOFF.pause(failures)
                log.warning("attempt %d of a batch failed, it will be tried again: %s", failures, error)
                self.wait(seconds)
                continue
            failures = 0
            self._patience.succeeded()
            idle_s = FIRST_S if moved else min(idle_s * 2, self._pace.longest_s)
            if not moved:
                self.wait(idle_s)

    def _batch(self) -> bool:
        """Whether there was anything new."""
        assert self._walk is not None
        after: list[SourceOffset | None] = [
            self._offsets.get(self.id.connector, partition) for partition in self._plugin.partitions()
        ]
        answer = self._walk.batch(after)
        if answer is None:
            return False
        reached, was_large = answer
        self.metrics.moved(reached)
        self._store(reached, was_large)
        for one in reached:
            if one.stop is Stop.FATAL:
                raise RecordError(f"{one.reason} (behind {dict(one.source_offset or {})} of {one.source_partition})")
        return True

    def _store(self, reached: list[Reached], flush: bool) -> None:
        """Invariant 1: these rows are acknowledged by Kafka, so their offsets may be stored."""
        with self._storing:
            if self._abandoned:
                return
            number = 0
            for one in reached:
                self.uses(one.topics)
                self.records += one.written
                if one.source_offset is not None and one.source_partition is not None:
                    number = self._offsets.set(self.id.connector, one.source_partition, one.source_offset)
            if number:
                self._unconfirmed.append((number, reached))
        if flush:
            self._offsets.flush()

    def _confirm(self) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= self._offsets.durable:
            self._plugin.committed(self._unconfirmed.popleft()[1])

    def _cancel(self) -> None:
        if self._walk is not None:
            self._walk.cancel()

    def _end(self, failed: bool) -> None:
        try:
            if self._walk is not None:
                self._walk.close()
            if not self._abandoned:
                self._store_last()
        finally:
            if self._started:
                self._plugin.stop()

    def _store_last(self) -> None:
        try:
            self._offsets.flush()
            self._confirm()
        finally:
            self._release()

    def _release(self) -> None:
        unstored = [one.source_partition for _, reached in list(self._unconfirmed) for one in reached]
        if self._offsets.release(self.id.connector, [partition for partition in unstored if partition is not None]):
            log.warning("the last offsets could not be stored: what was read since the ones before will be read again")
