"""The one thread of a herder that decides: requests wait in a queue, and futures answer them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from headrace.worker.errors import ConnectError, Overtaken, TimedOut
from headrace.worker.logging.redaction import log_text
from headrace.worker.machine.vital_threads import VitalThread, dead_threads
from headrace.worker.model import Health

log = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")

REQUEST_SECONDS: Final = 90.0
"""The longest wait of a request for a decision, as in Connect."""


@dataclass(frozen=True)
class Activity:
    """The current or last activity of the deciding thread; for answers to requests that timed out."""

    doing: str
    began: float
    ended: float | None = None

    def __str__(self) -> str:
        began = _instant(self.began)
        if self.ended is None:
            return f"The worker is currently {self.doing}, which began at {began}"
        return (
            f"The last operation the worker completed was {self.doing}, "
            f"which began at {began} and completed at {_instant(self.ended)}"
        )


class HerderLoop:
    """Runs decisions one after another, in the order of requests, on its own thread."""

    def __init__(self, name: str) -> None:
        self.activity: Activity | None = None
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = VitalThread(target=copy_context().run, args=(self._run,), name=name)
        self._thread.start()

    def ask(self, doing: str, decide: Callable[[], T]) -> Future[T]:
        """Run `decide` on the deciding thread; the future gets its answer."""
        return self.begin(doing, lambda: done(decide()))

    def begin(self, doing: str, decide: Callable[[], Future[T]]) -> Future[T]:
        """As `ask`, for a `decide` that returns a future; the thread does not wait for it."""
        answer: Future[T] = Future()

        def work() -> None:
            began = time.time()
            self.activity = Activity(doing, began)
            try:
                begun = decide()
            except Exception as error:
                answer.set_exception(error)
            else:
                begun.add_done_callback(lambda ended: _hand_on(ended, answer))
            finally:
                self.activity = Activity(doing, began, time.time())

        with self._lock:
            if self._closed:
                answer.set_exception(self.shutting_down())
            else:
                self._queue.put(work)
        return answer

    def after(self, first: Future[S], doing: str, decide: Callable[[S], T]) -> Future[T]:
        """Run `decide` on the answer of `first`; an error of `first` is passed on."""
        return self.begin_after(first, doing, lambda value: done(decide(value)))

    def begin_after(self, first: Future[S], doing: str, decide: Callable[[S], Future[T]]) -> Future[T]:
        """As `after`, for a `decide` that returns a future."""
        answer: Future[T] = Future()

        def go_on(ended: Future[S]) -> None:
            error = ended.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                value = ended.result()
                self.begin(doing, lambda: decide(value)).add_done_callback(lambda last: _hand_on(last, answer))

        first.add_done_callback(go_on)
        return answer

    def tell(self, doing: str, decide: Callable[[], Future[Any]]) -> None:
        """As `begin`, if nobody waits for the answer: an error is logged."""
        note_errors(self.begin(doing, decide), doing)

    def do(self, doing: str, act: Callable[[], None]) -> None:
        """As `ask`, if nobody waits for the answer: an error is logged."""
        note_errors(self.ask(doing, act), doing)

    def wait(self, answer: Future[T], timeout_seconds: float = REQUEST_SECONDS) -> T:
        """Wait for the answer. Errors: TimedOut, with the thread's activity; the decision's own error."""
        try:
            return answer.result(timeout_seconds)
        except TimeoutError:
            if answer.done():
                raise
            raise self.timed_out() from None

    @staticmethod
    def shutting_down() -> ConnectError:
        """The error for a request that comes too late."""
        return ConnectError("Worker is shutting down")

    def timed_out(self) -> TimedOut:
        """The error for a request that timed out."""
        text = "Request timed out"
        return TimedOut(f"{text}. {self.activity}" if self.activity else text)

    def health(self, ready: threading.Event, timeout_seconds: float) -> Health:
        """Healthy if the worker is `ready` and a decision is taken within the time."""
        until = time.monotonic() + timeout_seconds
        if not ready.wait(timeout_seconds):
            return Health("starting", f"Worker is still starting up. {self.activity or ''}".strip())
        try:
            answer = self.ask("checking its health", lambda: None)
            self.wait(answer, max(0.0, until - time.monotonic()))
        except TimedOut:
            busy = "Worker was unable to handle this request and may be unable to handle other requests."
            return Health("unhealthy", f"{busy} {self.activity or ''}".strip())
        if dead := dead_threads():
            return Health("unhealthy", f"Threads have ended by an error, see the log: {', '.join(dead)}. Restart it.")
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    def stop(self, timeout_seconds: float) -> None:
        """Decide all earlier requests and refuse later ones; the thread then ends, or is abandoned."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:  # such as that of an answer for which nobody waits any more
                log.exception("Failed after %s", self.activity)


def done(value: T) -> Future[T]:
    """Make a future with this answer."""
    answer: Future[T] = Future()
    answer.set_result(value)
    return answer


def note_errors(answer: Future[Any], doing: str) -> None:
    """Log the error of an answer for which nobody waits, unless a newer request has overtaken it."""

    def note(ended: Future[Any]) -> None:
        error = ended.exception()
        if isinstance(error, Overtaken):
            log.debug("Overtaken while %s: %s", doing, error)
        elif error is not None:
            log.error("Failed while %s: %s", doing, log_text(error))

    answer.add_done_callback(note)


def _hand_on(ended: Future[T], answer: Future[T]) -> None:
    error = ended.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(ended.result())


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
