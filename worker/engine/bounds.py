"""Bounds the time in which a task's batch is computed, and abandons a batch that does not end.

A SELECT, a regular expression or a user's function may compute for ever, and no thread of a JVM or of Python can be
killed. So the waiting thread looks once a second. It abandons the batch if its task has to end or its time is over.

Decided: time is counted in looks of a second, because a worker that was stopped or suspended has not waited; loses: the
setting's milliseconds, which do not matter.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from headrace.plugins.stopping import StopToken

LOOK_S: Final = 1.0
LIMIT: Final = "batch.transform.timeout.ms"

_Given = TypeVar("_Given")


class TooSlow(Exception):
    """The transforms or converters of a batch did not end within the time that the worker allows."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of one task's batches."""

    stop: StopToken = field(default_factory=StopToken)
    limit_s: float = 300.0
    steps: str = "its converters"
    """The transforms and converters of its batches, as errors name them."""

    def check(self, looks: int, what: str) -> None:
        """Check that a wait may go on. Errors: StoppedError if the task has to end; TooSlow after too many looks."""
        self.stop.raise_if_set(f"waiting for {what}")
        if looks * LOOK_S >= self.limit_s:
            raise self.too_slow(what)

    def too_slow(self, what: str) -> TooSlow:
        """The error for `what`, which took too long."""
        return TooSlow(
            f"{what[:1].upper()}{what[1:]} did not get through {self.steps} within {self.limit_s:g} s and was given "
            "up. Look for an expression or a function that does not end for one of its records, such as a regular "
            f"expression with nested repetitions; the worker's {LIMIT} gives more time."
        )

    def call(
        self,
        work: Callable[[], _Given],
        look: Callable[[int], object],
        left: Callable[[Future[_Given]], object] | None = None,
    ) -> _Given:
        """Run `work` on another thread and return its result; `left` gets its future if it is abandoned.

        `look` is called after each second, with the number of these seconds. Its errors end the wait. Without `left`
        the work is a user's function in Python, and is interrupted.

        Errors: those of `work` and of `look`.
        """
        helper = _Helper.idle()
        future = helper.begin(work)
        looks = 0
        while True:
            try:
                return future.result(LOOK_S)
            except TimeoutError:
                if future.done():  # it is the error of `work` itself
                    raise
            looks += 1
            try:
                look(looks)
            except Exception:
                helper.leave(interrupts=left is None)
                if left is not None:
                    left(future)
                raise


class _Helper(threading.Thread):
    """Calls functions for other threads, one by one. It is kept, as Spark's driver has a thread for each of ours."""

    _idle: Final[list[_Helper]] = []
    _lock: Final = threading.Lock()

    def __init__(self) -> None:
        super().__init__(name="bounded", daemon=True)
        self._calls = queue.SimpleQueue[Callable[[], object]]()
        self._is_left = False
        self._works = False

    @classmethod
    def idle(cls) -> _Helper:
        """An idle helper; a new one if there is none."""
        with cls._lock:
            if cls._idle:
                return cls._idle.pop()
        made = cls()
        made.start()
        return made

    def begin(self, work: Callable[[], _Given]) -> Future[_Given]:
        """Call `work` on this thread, and return the future of its result."""
        future: Future[_Given] = Future()
        self._works = True
        self._calls.put(partial(copy_context().run, self._call, work, future))
        return future

    def leave(self, interrupts: bool) -> None:
        """Use this thread no more.

        An interrupted call ends if it is in Python: a module that is half imported stays so for the whole worker.
        """
        with self._lock:
            self._is_left = True
            if interrupts and self._works and self.ident is not None:
                thread, error = ctypes.c_ulong(self.ident), ctypes.py_object(TooSlow)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)

    def run(self) -> None:
        with contextlib.suppress(TooSlow):
            while not self._is_left:
                self._calls.get()()

    def _call(self, work: Callable[[], _Given], future: Future[_Given]) -> None:
        error: BaseException | None = None
        given: Any = None
        try:
            given = work()
        except BaseException as raised:
            error = raised
        with self._lock:
            self._works = False
            if not self._is_left:
                self._idle.append(self)
        if error is None:
            future.set_result(given)
        else:
            future.set_exception(error)
