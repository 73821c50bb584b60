"""A connector's instance: a small state machine on a thread of its own, where all code of the connector runs.

    INIT ──▶ STARTED ◀──▶ PAUSED, STOPPED        any ──▶ FAILED ──▶ STOPPED

One wish waits at most: a newer one takes the place of an older one that has not begun. The thread begins with the
first wish to be STARTED: one that was never to run has none.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.worker.errors import ConnectError
from headrace.worker.hosting.ports import Report
from headrace.worker.logs import connector_context
from headrace.worker.measures import StartupCounter
from headrace.worker.model import State, TargetState
from headrace.worker.redaction import hide, masked, trace_of

if TYPE_CHECKING:
    from headrace.plugins.contracts import Connector

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0
"""How long the end of a connector is waited for, as in Connect."""


STARTS: Final = StartupCounter()
"""Of all connectors in this process."""


class _At(Enum):
    INIT = "INIT"
    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


class WorkerConnector:
    """Runs one connector; `report` and `reconfigure` are called from its thread, or from one that calls this.

    `config` is called for each start, on the connector's thread: what it raises fails the connector. `secrets` are
    hidden in all that is reported, logged and raised.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Connector],
        config: Callable[[], Mapping[str, str]],
        report: Report,
        reconfigure: Callable[[], None],
        secrets: Collection[str] = (),
    ) -> None:
        self.name = name
        self._make = make
        self._config = config
        self._report = report
        self._reconfigure = reconfigure
        self._secrets = secrets
        hide(secrets)
        self._connector: Connector | None = None
        self._at = _At.INIT
        self._to_stop = False
        self._wish: tuple[TargetState, Future[TargetState]] | None = None
        self._work: deque[Callable[[], None]] = deque()
        self._closing = False
        self._abandoned = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"connector-thread-{name}", daemon=True)

    @property
    def running(self) -> bool:
        """Whether it is started."""
        return self._at is _At.STARTED

    def transition(self, target: TargetState) -> Future[TargetState]:
        """Answered once the connector is there.

        Errors: ConnectError with what the connector raised, or because of a newer wish.
        """
        answer: Future[TargetState] = Future()
        if not self._begun and target is not TargetState.STARTED:
            self._fulfil(target, answer)
            return answer
        with self._changed:
            outdated, self._wish = self._wish, (target, answer)
            self._changed.notify()
            if not self._begun:
                self._thread.start()
        if outdated is not None:
            old, old_answer = outdated
            old_answer.set_exception(
                ConnectError(
                    f"Could not begin changing connector state to {old} before another request to change state was "
                    f"made; the new request (which is to change the state to {target}) has pre-empted this one"
                )
            )
        return answer

    def task_configs(self, max_tasks: int) -> Future[list[dict[str, str]]]:
        """What the connector answers; asked after a wish that waits."""
        answer: Future[list[dict[str, str]]] = Future()

        def ask() -> None:
            try:
                if self._connector is None or self._closing or not self.running:
                    raise ConnectError(f"Connector {self.name} is not running")
                answer.set_result([dict(config) for config in self._connector.task_configs(max_tasks)])
            except Exception as error:
                answer.set_exception(self._told(error))

        self._do(ask)
        return answer

    def reconfigure(self) -> None:
        """`ConnectorContext`: the herder will ask for the task configs again."""
        if not self._closing:
            self._reconfigure()

    def fail(self, error: Exception) -> None:
        """`ConnectorContext`: the connector is FAILED; its tasks go on."""

        def note() -> None:
            if not self._closing:
                self._failed("raised an error", error)

        self._do(note)

    def close(self) -> None:
        """The connector has been asked to end."""
        with self._changed:
            closed, self._closing = self._closing, True
            self._changed.notify()
        if not self._begun and not closed:
            self._shut_down()

    def join(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Whether it ended in time; otherwise it is abandoned with its thread, and nothing it says counts any more."""
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
            if self._begun:
                self._work.append(work)
                self._changed.notify()
                return
        work()

    def _run(self) -> None:
        with connector_context(self.name, "worker"):
            while (work := self._next()) is not None:
                work()
            self._shut_down()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._wish or self._work)
            if self._closing:
                return None
            if self._wish is None:
                return self._work.popleft()
            (target, answer), self._wish = self._wish, None
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
            answer.set_exception(self._told(error))
        else:
            answer.set_result(target)

    def _start(self) -> None:
        if self.running:
            return
        try:
            if self._connector is None:
                self._connector = self._make()
            with STARTS.attempt():
                self._connector.start(self._config(), self)
        except Exception as error:
            self._failed("failed to start", error)
            raise
        self._to_stop = True
        self._at = _At.STARTED
        self._say(State.RUNNING)

    def _halt(self, target: TargetState) -> None:
        try:
            self._stop_instance()
        except Exception as error:
            if target is TargetState.PAUSED:
                self._failed("failed to pause", error)
                raise
            log.error("Connector %s failed to stop: %s", self.name, trace_of(error, self._secrets))
        self._at = _At[target.name]
        self._say(State[target.name])

    def _stop_instance(self) -> None:
        if self._to_stop and self._connector is not None:
            self._to_stop = False
            self._connector.stop()

    def _shut_down(self) -> None:
        with self._changed:
            wish, self._wish = self._wish, None
        if wish is not None:
            wish[1].set_exception(ConnectError(f"Connector {self.name} is shutting down"))
        for work in self._work:
            work()
        try:
            self._stop_instance()
        except Exception as error:
            self._failed("failed to shut down", error)
        else:
            self._at = _At.STOPPED
            self._say(State.UNASSIGNED)

    def _failed(self, what: str, error: BaseException) -> None:
        trace = trace_of(error, self._secrets)
        log.error("Connector %s %s: %s", self.name, what, trace)
        self._at = _At.FAILED
        self._say(State.FAILED, trace)

    def _say(self, state: State, trace: str | None = None) -> None:
        if not self._abandoned:
            self._report(state, trace)

    def _told(self, error: Exception) -> ConnectError:
        if isinstance(error, ConnectError):
            return error
        told = ConnectError(masked(str(error) or type(error).__name__, self._secrets))
        told.__cause__ = error
        return told
