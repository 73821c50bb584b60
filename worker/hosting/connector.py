"""A connector's instance: a small state machine on its own thread, where all code of the connector runs.

    INIT ──▶ STARTED ◀──▶ PAUSED, STOPPED        any ──▶ FAILED ──▶ STOPPED

At most one transition waits: a newer one replaces an older one that has not begun. The thread starts with the first
transition to STARTED: a connector that never runs has no thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.plugins.errors import LoginRefused
from headrace.plugins.offsets import SourceOffset, SourcePartition
from headrace.worker.errors import ConnectError, Overtaken
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.hosting.ports import Report
from headrace.worker.logging.logs import connector_context
from headrace.worker.logging.redaction import Redaction, take_along, trace_of
from headrace.worker.model import State, TargetState

if TYPE_CHECKING:
    from headrace.plugins.contracts import Connector

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0
"""The longest wait for a connector to end, as in Connect."""


class _At(Enum):
    INIT = "INIT"
    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class WorkerConnector:
    """Runs one connector."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Connector],
        config: Callable[[], Mapping[str, str]],
        report: Report,
        reconfigure: Callable[[], None],
        starts: StartupCounter,
        redaction: Redaction,
        offset_of: Callable[[SourcePartition], SourceOffset | None] = lambda partition: None,
    ) -> None:
        """`report` and `reconfigure` are called from the connector's thread, or a caller's of this object.

        `config` is called for each start, on the connector's thread: an error in it fails the connector. `starts`
        counts the starts. `redaction` applies to all that is reported, logged and raised. `offset_of` reads the stored
        offset of a source's partition.
        """
        self.name = name
        self._make = make
        self._config = config
        self._report = report
        self._reconfigure = reconfigure
        self._starts = starts
        self._redaction = redaction
        self._offset_of = offset_of
        self._connector: Connector | None = None
        self._at = _At.INIT
        self._to_stop = False
        self._waiting: tuple[TargetState, Future[TargetState]] | None = None
        self._work: deque[Callable[[], None]] = deque()
        self._closing = False
        self._abandoned = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name=f"connector-thread-{name}", daemon=True
        )

    @property
    def running(self) -> bool:
        """True if it is started and has not been asked to end."""
        return self._at is _At.STARTED and not self._closing

    def transition(self, target: TargetState) -> Future[TargetState]:
        """Bring the connector to this state; the future completes once it is reached.

        Errors: ConnectError with the connector's error; Overtaken if a newer transition replaced this one, or if the
        connector has been asked to end.
        """
        answer: Future[TargetState] = Future()
        if not self._begun and not self._closing and target is not TargetState.STARTED:
            self._fulfil(target, answer)
            return answer
        with self._changed:
            outdated, self._waiting = self._waiting, (target, answer)
            self._changed.notify()
            if not self._begun and not self._closing:
                self._thread.start()
        if outdated is not None:
            old, old_answer = outdated
            old_answer.set_exception(
                Overtaken(
                    f"Could not begin changing connector state to {old} before another request to change state was "
                    f"made; the new request (which is to change the state to {target}) has pre-empted this one"
                )
            )
        if self._closing:
            self._refuse_waiting()
        return answer

    def task_configs(self, max_tasks: int) -> Future[list[dict[str, str]]]:
        """Ask the connector for its task configs, after a transition that waits.

        Errors: ConnectError with the connector's error; Overtaken if it is not running.
        """
        answer: Future[list[dict[str, str]]] = Future()

        def ask() -> None:
            try:
                if self._connector is None or not self.running:
                    raise Overtaken(f"Connector {self.name} is not running")
                answer.set_result([dict(config) for config in self._connector.task_configs(max_tasks)])
            except Exception as error:
                answer.set_exception(self._shown(error))

        self._do(ask)
        return answer

    def reconfigure(self) -> None:
        """`ConnectorContext`: have the herder take the task configs again."""
        if not self._closing:
            self._reconfigure()

    def fail(self, error: Exception) -> None:
        """`ConnectorContext`: set the connector to FAILED; its tasks go on.

        After a refused login it is started anew, once: variables of its config may have other credentials by now.
        """

        def note() -> None:
            if self._closing:
                return
            was_started = self._at is _At.STARTED
            self._fail(error)
            self._log("raised an error", error)
            if was_started and isinstance(error, LoginRefused):
                self._start_anew()

        self._do(note)

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """`ConnectorContext`: the stored offsets of a source."""
        return [self._offset_of(partition) for partition in partitions]

    def close(self) -> None:
        """Ask the connector to end."""
        with self._changed:
            closed, self._closing = self._closing, True
            self._changed.notify()
        self._refuse_waiting()
        if not self._begun and not closed:
            self._shut_down()

    def join(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Wait for its end; False if it is late and abandoned with its thread, and its reports ignored."""
        if self._begun:
            self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            return True
        log.error("Connector %s did not end within %.0f s and is abandoned", self.name, timeout_seconds)
        self._abandoned = True
        self._report(State.UNASSIGNED, None)
        return False

    @property
    def _begun(self) -> bool:
        return self._thread.ident is not None

    def _do(self, work: Callable[[], None]) -> None:
        with self._changed:
            if self._begun and not self._closing:
                self._work.append(work)
                self._changed.notify()
                return
        work()

    def _run(self) -> None:
        with connector_context(self.name, "worker", redaction=self._redaction):
            while (work := self._next()) is not None:
                work()
            self._shut_down()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._waiting or self._work)
            if self._closing:
                return None
            if self._waiting is None:
                return self._work.popleft()
            (target, answer), self._waiting = self._waiting, None
        return lambda: self._fulfil(target, answer)

    def _fulfil(self, target: TargetState, answer: Future[TargetState]) -> None:
        try:
            if self._at is _At.FAILED and target is not TargetState.STOPPED:
                raise ConnectError(f"Cannot transition connector {self.name} to {target} since it has failed")
            if target is TargetState.STARTED:
                self._start()
            else:
                self._halt(target)
        except Exception as error:
            answer.set_exception(self._shown(error))
        else:
            answer.set_result(target)

    def _start(self) -> None:
        if self._at is _At.STARTED:
            return
        try:
            if self._connector is None:
                self._connector = self._make()
            with self._starts.attempt():
                self._connector.start(self._config(), self)
        except Exception as error:
            self._fail(error)
            raise
        self._to_stop = True
        self._at = _At.STARTED
        self._say(State.RUNNING)

    def _start_anew(self) -> None:
        try:
            self._stop_instance()
            self._connector = None
            self._start()
        except Exception as error:
            self._log("could not be started anew", error)
        else:
            self._reconfigure()

    def _halt(self, target: TargetState) -> None:
        try:
            self._stop_instance()
        except Exception as error:
            if target is TargetState.PAUSED:
                self._fail(error)
                raise
            self._log("failed to stop", error)
        self._at = _At[target.name]
        self._say(State[target.name])

    def _stop_instance(self) -> None:
        if self._to_stop and self._connector is not None:
            self._to_stop = False
            self._connector.stop()

    def _refuse_waiting(self) -> None:
        """Answer what the thread will not come to, because the connector has been asked to end."""
        with self._changed:
            waiting, self._waiting = self._waiting, None
            left, self._work = self._work, deque()
        if waiting is not None:
            waiting[1].set_exception(Overtaken(f"Connector {self.name} is shutting down"))
        for work in left:
            work()

    def _shut_down(self) -> None:
        try:
            self._stop_instance()
        except Exception as error:
            self._fail(error)
            self._log("failed to shut down", error)
        else:
            self._at = _At.STOPPED
            self._say(State.UNASSIGNED)

    def _fail(self, error: Exception) -> None:
        self._at = _At.FAILED
        self._say(State.FAILED, trace_of(error, self._redaction))

    def _log(self, what: str, error: Exception) -> None:
        log.error("Connector %s %s: %s", self.name, what, trace_of(error, self._redaction))

    def _say(self, state: State, trace: str | None = None) -> None:
        if not self._abandoned:
            self._report(state, trace)

    def _shown(self, error: Exception) -> ConnectError:
        take_along(error, self._redaction)
        if isinstance(error, ConnectError):
            return error
        shown = ConnectError(self._redaction.hide(str(error) or type(error).__name__))
        shown.__cause__ = error
        return shown
