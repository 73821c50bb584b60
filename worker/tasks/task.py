"""A task's thread, states and end: the common part of source and sink tasks.

A task is RUNNING only while it can move. While Spark is away it is shown as RESTARTING, and goes on by itself.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError, StoppedError
from headrace.plugins.offsets import PartitionResult
from headrace.worker.kafka.errors import restart_after
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import trace_of
from headrace.worker.model import AutoRestart, State
from headrace.worker.outcome import Outcome
from headrace.worker.tasks.host import TaskHost

log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(0.1, 10.0)
"""Seconds between the attempts of a task."""


class Task(ABC):
    """One task on its thread `task-thread-<connector>-<n>`."""

    def __init__(self, host: TaskHost) -> None:
        self.id = host.id
        self.metrics = host.metrics
        self._host = host
        self._log = logging.getLogger(type(self).__module__)
        self._wake = threading.Event()
        self.abandoned = False
        self.is_paused = host.paused
        self._lock = threading.Lock()
        self._base: State | None = None
        self._shown: State | None = None
        self._unreported: tuple[State, str | None, AutoRestart] | None = None
        name = f"task-thread-{self.id.connector}-{self.id.task}"
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        """Start the task's thread; a paused task has none before it is resumed."""
        if self.is_paused:
            self._set(State.PAUSED)
        else:
            self._thread.start()

    def pause(self) -> None:
        """Ask the task to stop moving, soon."""
        self.is_paused = True
        self._rouse()

    def resume(self) -> None:
        """Ask the task to go on."""
        self.is_paused = False
        self._rouse()
        if not self._begun and not self._host.stop.is_set():
            self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask the task to end, soon."""
        self._host.stop.set()
        self._rouse()
        self._host.resources.close()

    def join(self, timeout_s: float) -> bool:
        """Wait for the task to end; True if it did within the time."""
        if not self._begun:
            self._set(State.UNASSIGNED)
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """Give up waiting for its thread; from now on it stores no offset and reports no state."""
        self.abandoned = True
        self.ask_to_stop()
        self._host.interrupts.begin()
        self.cancel()

    def engine_changed(self) -> None:
        """Show the task's state after a Spark session came or went, and wake it."""
        self._show()
        self._rouse()

    @property
    def _begun(self) -> bool:
        return self._thread.ident is not None

    def _rouse(self) -> None:
        """End the task's wait; any thread may call."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Sleep until the time is up or the task is woken."""
        self._wake.wait(seconds)
        self._wake.clear()

    def _moved(self, outcome: Outcome[Any]) -> None:
        took_s = self.metrics.moved(list(outcome))
        if self._log.isEnabledFor(logging.DEBUG):
            place = "by a Spark job" if outcome.by_job else "in the worker"
            told = "; ".join(map(_told, outcome)) or "nothing"
            self._log.debug("A batch %s in %.0f ms: %s", place, took_s * 1000, told)

    def recovered(self, failures: int) -> None:
        """Log that a batch succeeded after `failures` failed attempts, if any."""
        if failures:
            self._log.info("The task recovered after %d failed attempts and goes on", failures)

    def _until_done(self, prepare: Callable[[], None]) -> None:
        """Call `prepare` until it meets no retriable error. Errors: StoppedError; those of `prepare`."""
        failures = 0
        while not self._host.stop.is_set():
            try:
                prepare()
                self.recovered(failures)
                return
            except RetriableError as error:
                failures += 1
                log.warning("Attempt %d to begin failed, another one follows: %s", failures, error)
                self.wait(BACKOFF.pause(failures))
        raise StoppedError("the task has not begun")

    @abstractmethod
    def begin(self) -> None:
        """Get ready to move."""

    @abstractmethod
    def loop(self) -> None:
        """Move until `stop` is set."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the task's work in Spark; it ends soon."""

    @abstractmethod
    def end(self, failed: bool) -> None:
        """Close everything, and store the reached offsets unless the task was abandoned."""

    def _run(self) -> None:
        with connector_context(self.id.connector, f"task-{self.id.task}"):
            failed = self._live()
            try:
                self.end(failed)
            except Exception:
                log.exception("The task did not end cleanly")
            self._host.resources.close()
            self._host.at_end.close()
            if not failed:
                self._set(State.UNASSIGNED)
            self._report_at_last()

    def _live(self) -> bool:
        """Run the task; True if it failed."""
        try:
            if self._host.stop.is_set():
                return False
            self.begin()
            self._set(State.RUNNING)
            log.info("The task has started")
            self.loop()
        except StoppedError:
            return False
        except BaseException as error:  # a plugin's SystemExit would end the thread without a word
            if self._host.stop.is_set():
                log.warning("The task failed while it was ending: %s", error)
                return False
            text = trace_of(error, self._host.redaction)
            log.error("The task failed and will not go on until it is restarted: %s", text)
            self._set(State.FAILED, text, restart_after(error))
            return True
        return False

    def _set(self, base: State, text: str | None = None, restart: AutoRestart = AutoRestart.NO) -> None:
        self._base = base
        self._show(text, restart)

    def _show(self, text: str | None = None, restart: AutoRestart = AutoRestart.NO) -> None:
        with self._lock:
            state = self._base
            if state is None or self.abandoned:
                return
            if state is State.RUNNING and not self._host.spark.is_ready:
                state = State.RESTARTING
            if state is not self._shown or text is not None:
                self._shown = state
                self.metrics.is_in(state)
                self._report(state, text, restart)

    def _report(self, state: State, text: str | None, restart: AutoRestart) -> None:
        """Report the state; if that fails it is tried again later, and the task's thread goes on."""
        try:
            self._host.report(state, text, restart)
        except Exception:
            log.exception("The state %s of task %s could not be reported and will be tried again", state, self.id)
            self._unreported = state, text, restart
        else:
            self._unreported = None

    def _report_at_last(self) -> None:
        failures = 0
        while not self.abandoned:
            with self._lock:
                if self._unreported is not None:
                    self._report(*self._unreported)
                if self._unreported is None or self._host.stop.is_set():
                    return
            failures += 1
            self.wait(BACKOFF.pause(failures))


def _told(one: PartitionResult) -> str:
    if one.partition is not None:
        place, upto = f"{one.partition.topic}-{one.partition.partition}", str(one.upto)
    else:
        place, upto = str(dict(one.source_partition or {})), str(dict(one.source_offset or {}))
    counts = f"{one.written} written, {one.dropped} filtered, {one.bad} failed"
    stopped = "" if one.stop is None else f", stopped as {one.stop.name}"
    return f"{place} up to {upto}: {counts}{stopped}"
