"""Runs small batches of many sinks round-robin on one thread, while the thread of each waits.

    thread of a task   batch, batch, lend ............................ batch
    shared thread      a batch of each that has news ; pause ; a batch of each that has news ; ...

To handle a record that is alone in its batch costs less than to wake a thread for it, which then waits for Python's
lock among all the others.

Decided: tasks lend their steps only while all together have many small batches a second, because with a thread each
they fill a core (on two quiet cores, % of one: 20 sinks of 50 records a second 101, and 49 so; 100 sinks of five 56-69,
and 40 so); loses: up to `_LONGEST_REST_S` of latency; with fewer batches threads of their own are faster.

Decided: the thread rests longer the longer its turn was, because records that come meanwhile are handled with the same
calls (20 sinks of 50 records a second: 59 % of a core, 53 so), and hardly after a short turn, which saves little (100
sinks of five: p99 18 ms with rests as long as the turn, 9-13 with shorter ones, for the same 46 %); loses: up to
`_LONGEST_REST_S`.

Decided: a step that blocks hurts its own task alone, because the others get theirs back after `_PATIENCE_S`, and none
is lent until it has ended; loses: that time, once. Another thread looks for that, because 100 tasks that look each
second take one percent of a core, and Python's lock away from the shared thread.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from headrace.plugins.contracts import SinkTask
from headrace.plugins.extensions import StagingSink
from headrace.worker.kafka.consumer_wakeup import ConsumerWakeup
from headrace.worker.model import TaskId

log = logging.getLogger(__name__)

_TURN_S: Final = 0.004
"""The least time from the beginning of one turn to the next."""
_SHORT_TURN_S: Final = 0.0017
"""The thread rests twice the time by which its work exceeded this."""
_LONGEST_REST_S: Final = 0.005
_PATIENCE_S: Final = 1.0
"""A step that lasts longer is blocked."""
_LOOK_S: Final = 0.25
"""A task also takes a step after this time without news: it commits, and measures its lag."""
_MOMENT_S: Final = 0.02
"""The time within which a newly lent task is seen."""


class _Bound(NamedTuple):
    """Hysteresis, in small batches a second: tasks begin to lend at one rate, and go on down to the other."""

    begin: float
    go_on: float


_OWN: Final = _Bound(2.0, 1.0)
"""The rates of the task itself."""
_TOGETHER: Final = _Bound(300.0, 200.0)
"""The rates of all tasks together."""


class Next(Enum):
    """The step that comes next."""

    WAIT = auto()
    """Another one once the consumer has news; with the next turn if nothing signals news."""
    OWN = auto()
    """None: the task's own thread goes on."""


Step = Callable[[], Next]


def may_lend(task: SinkTask) -> bool:
    """True if this task's steps may run on a shared thread: it stages, so other threads call it anyway."""
    return isinstance(task, StagingSink)


@dataclass(eq=False)
class _Lent:
    """The steps of one task."""

    step: Step
    news: ConsumerWakeup | None
    context: Context
    """The context of the task's thread: log lines name its connector."""
    due: float = 0.0
    """The time of the next step without news (`time.monotonic`)."""
    error: BaseException | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class SharedThread:
    """The shared thread of a worker's tasks; it runs while a task lends it steps. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lent: dict[_Lent, None] = {}
        self._stepping: _Lent | None = None
        """The task whose step runs."""
        self._stepping_since = 0.0
        self._runs = False
        self._paces: dict[TaskId, float] = {}
        self._pace = 0.0

    def is_worth(self, task: TaskId, pace: float) -> bool:
        """True if this task, with `pace` small batches a second now, should lend its steps."""
        with self._lock:
            self._pace += pace - self._paces.get(task, 0.0)
            self._paces[task] = pace
            own, together = (_OWN.go_on, _TOGETHER.go_on) if self._lent else (_OWN.begin, _TOGETHER.begin)
            return pace >= own and self._pace >= together

    def forget(self, task: TaskId) -> None:
        """Forget a task that has ended."""
        with self._lock:
            self._pace -= self._paces.pop(task, 0.0)

    def lend(self, step: Step, news: ConsumerWakeup | None) -> None:
        """Have the shared thread call `step` over and over, until it returns OWN or others' steps are blocked.

        `news`: of the task's consumer; without it a step is taken with each turn.

        Errors: those of `step`, after which it is not called any more.
        """
        mine = _Lent(step, news, copy_context())
        with self._lock:
            if self._is_blocked():
                return
            self._lent[mine] = None
            if not self._runs:
                self._runs = True
                ended = threading.Event()
                for name, work in {"sinks-shared": self._run, "sinks-guard": self._guard}.items():
                    threading.Thread(target=work, args=(ended,), name=name, daemon=True).start()
        mine.ended.wait()
        if mine.error is not None:
            raise mine.error

    def _guard(self, ended: threading.Event) -> None:
        """While one task's step is blocked, give the others theirs back; until `ended`."""
        while not ended.wait(_PATIENCE_S):
            with self._lock:
                if not self._is_blocked():
                    continue
                for one in self._lent.keys() - {self._stepping}:
                    del self._lent[one]
                    one.ended.set()

    def _is_blocked(self) -> bool:
        return self._stepping is not None and time.monotonic() - self._stepping_since > _PATIENCE_S

    def _run(self, ended: threading.Event) -> None:
        try:
            self._take_turns()
        except BaseException as error:
            with self._lock:
                lent, self._lent, self._runs = list(self._lent), {}, False
            for one in lent:
                one.error = error
                one.ended.set()
            raise
        finally:
            ended.set()

    def _take_turns(self) -> None:
        watch = _Watch()
        while lent := self._turn():
            due = watch.due(lent)
            began = time.monotonic()
            for one in due:
                self._take_step(one)
            if due:
                time.sleep(rest_s(time.monotonic() - began))

    def _turn(self) -> list[_Lent]:
        """The tasks of the next turn; without any the thread ends."""
        with self._lock:
            self._runs = bool(self._lent)
            return list(self._lent)

    def _take_step(self, one: _Lent) -> None:
        with self._lock:
            if one not in self._lent:
                return  # taken back
            self._stepping, self._stepping_since = one, time.monotonic()
        after = Next.OWN
        try:
            after = one.context.run(one.step)
        except BaseException as error:  # a plugin's SystemExit concerns its own task only
            one.error = error
        with self._lock:
            self._stepping = None
            one.due = 0.0 if one.news is None else time.monotonic() + _LOOK_S
            if after is Next.OWN:
                del self._lent[one]
        if after is Next.OWN:
            one.ended.set()


def rest_s(worked_s: float) -> float:
    """The time for which the thread rests after it worked so long."""
    return min(max(_TURN_S - worked_s, 2 * (worked_s - _SHORT_TURN_S)), _LONGEST_REST_S)


class _Watch:
    """Sees which tasks have news; for the shared thread."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._of: dict[int, _Lent] = {}
        self._lent: Sequence[_Lent] = ()

    def due(self, lent: Sequence[_Lent]) -> list[_Lent]:
        """Wait a moment for due steps and return their tasks: others may be lent meanwhile."""
        self._follow(lent)
        wait_s = min(one.due for one in lent) - time.monotonic()
        for descriptor, _ in self._poll.poll(1000 * max(0.0, min(wait_s, _MOMENT_S))):
            one = self._of[descriptor]
            one.due = 0.0
            if one.news is not None:
                one.news.seen()
        now = time.monotonic()
        return [one for one in lent if one.due <= now]

    def _follow(self, lent: Sequence[_Lent]) -> None:
        """Watch these and no others: their descriptors may be closed."""
        if lent == self._lent:
            return
        wanted = {one.news.fileno(): one for one in lent if one.news is not None}
        for descriptor in self._of.keys() - wanted.keys():
            self._poll.unregister(descriptor)
        for descriptor in wanted.keys() - self._of.keys():
            self._poll.register(descriptor, select.POLLIN)
        self._of, self._lent = wanted, lent
