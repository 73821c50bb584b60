"""The metrics of a task: counts and times of its batches, its commits, its states; and whether it is stuck.

The task's thread updates them once per batch, never per record; scrapes read them in their own threads. Names and
windows are Connect's (`source-task-metrics`, `sink-task-metrics`, `connector-task-metrics`, `task-error-metrics`).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, Stop
from headrace.plugins.samples import Sample
from headrace.plugins.windows import Window
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.measures import StartupCounter
from headrace.worker.model import Kind, State, TaskId

_Figures = Mapping[tuple[str, str], float]

STUCK_SECONDS: Final = 60.0
"""For so long at least nothing may move, while something waits, before a task counts as stuck."""


@dataclass(frozen=True)
class Stuck:
    """A task that is RUNNING and does not move, although something waits for it."""

    reason: str
    """`batch`: one does not end; `retries`: one fails over and over; `backlog`: records wait and none comes."""
    seconds: float
    text: str


class TaskMetrics:
    """The metrics of one start of a task."""

    def __init__(
        self, kind: Kind, sample_s: float = 30.0, samples: int = 2, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = kind
        self.plugin_samples: Callable[[], Iterable[Sample]] = tuple
        """Gives the metrics that the task's plugin has of its own."""
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()

        def window() -> Window:
            return Window(sample_s, samples, now)

        self._taken, self._sent, self._batch_rows, self._batch_ms = window(), window(), window(), window()
        self._commits, self._commit_ms, self._uncommitted = window(), window(), window()
        self._totals: Counter[str] = Counter()
        self._last_error_ms = 0
        self._states: dict[State, float] = {}
        self._state, self._shown_since, self._counted_to = State.UNASSIGNED, now, now
        self._partitions = self._active = 0
        self._lag: int | None = None
        self._began: float | None = None
        self._took_s = self._longest_s = 0.0
        self._waiting_since: float | None = None
        self._failures, self._failure = 0, ""

    # What the task's thread tells.

    def is_in(self, state: State) -> None:
        """The task shows this state from now on."""
        with self._lock:
            now = self._clock()
            self._count_state(now)
            self._state, self._shown_since = state, now

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """One try of a batch; what it raises counts as a try that failed."""
        with self._lock:
            self._began = began = self._clock()
            self._waiting_since = began if self._waiting_since is None else self._waiting_since
        try:
            yield
        except Exception as error:
            with self._lock:
                self._failures, self._failure = self._failures + 1, type(error).__name__
                self._totals["retries"] += isinstance(error, RetriableError)
                self._began = None
            raise
        with self._lock:
            self._took_s, self._began = self._clock() - began, None
            self._longest_s = max(self._longest_s, self._took_s)
            self._waiting_since, self._failures = None, 0

    def moved(self, reached: Sequence[PartitionResult]) -> None:
        """A batch got so far."""
        sent = sum(one.written for one in reached)
        bad = sum(one.bad for one in reached)
        taken = sent + bad + sum(one.dropped for one in reached)
        refused = sum(one.stop is Stop.FATAL for one in reached)
        with self._lock:
            now = self._clock()
            took_s = self._took_s if self._began is None else now - self._began
            if taken:
                self._taken.record(taken, now)
                self._sent.record(sent, now)
                self._batch_rows.record(taken, now)
                self._batch_ms.record(took_s * 1000, now)
            self._totals["taken"] += taken
            self._totals["sent"] += sent
            self._totals["skipped"] += bad
            self._totals["errors"] += bad + refused
            if bad or refused:
                self._last_error_ms = int(time.time() * 1000)

    def committed(self, took_s: float, ok: bool = True) -> None:
        """Offsets were committed, or could not be."""
        with self._lock:
            now = self._clock()
            self._commits.record(100.0 if ok else 0.0, now)
            self._totals["commits" if ok else "failed-commits"] += 1
            if ok:
                self._commit_ms.record(took_s * 1000, now)

    def stands(self, partitions: int, uncommitted: int, lag: int | None) -> None:
        """A sink has so many partitions, has handled so much beyond what is committed, and so much waits in Kafka."""
        with self._lock:
            now = self._clock()
            self._partitions, self._active, self._lag = partitions, uncommitted, lag
            self._uncommitted.record(uncommitted, now)
            if lag and self._waiting_since is None:
                self._waiting_since = now
            elif not lag and self._began is None and not self._failures:
                self._waiting_since = None

    def reported(self, reported: FailureReport) -> None:
        """Failed records were logged and dead-lettered, or could not be."""
        with self._lock:
            self._totals["logged"] += reported.logged
            self._totals["dead-letters"] += reported.sent
            self._totals["lost-letters"] += reported.refused

    # What others read.

    def stuck(self) -> Stuck | None:
        """Why the task does not move although it should.

        Decided: something waits (a batch under way or tried again, records in Kafka) and nothing was finished for a
        minute and for three times the longest batch so far, because a batch may be as large as a job; loses: a first
        job that takes minutes is shown as stuck until it ends.
        """
        with self._lock:
            if self._state is not State.RUNNING or self._waiting_since is None:
                return None
            seconds = self._clock() - max(self._waiting_since, self._shown_since)
            if seconds <= max(STUCK_SECONDS, 3 * self._longest_s):
                return None
            reason, what = self._why_it_waits()
        return Stuck(reason, seconds, f"RUNNING, but nothing was finished for {seconds:.0f} s: {what}")

    def _why_it_waits(self) -> tuple[str, str]:
        if self._failures:
            return "retries", f"the same batch failed {self._failures} times, last with {self._failure}; see the log"
        if self._began is not None:
            return "batch", "a batch has begun and does not end; look at what the connector writes to or reads from"
        return "backlog", f"{self._lag} records wait in Kafka and none is fetched; look at the brokers"

    def figures(self) -> _Figures:
        """Each attribute's value, by its group and its name, in which `_` stands for `-`."""
        with self._lock:
            now = self._clock()
            self._count_state(now)
            of_kind = self._of_source(now) if self.kind == "source" else self._of_sink(now)
            return {**self._of_task(now), **of_kind, **self._of_errors()}

    def _count_state(self, now: float) -> None:
        self._states[self._state] = self._states.get(self._state, 0.0) + now - self._counted_to
        self._counted_to = now

    def _of_task(self, now: float) -> _Figures:
        tracked = sum(self._states.values()) or 1.0
        done = self._commits.average(now)
        return _named(
            "connector-task",
            running_ratio=self._states.get(State.RUNNING, 0.0) / tracked,
            pause_ratio=self._states.get(State.PAUSED, 0.0) / tracked,
            offset_commit_success_percentage=done,
            offset_commit_failure_percentage=100.0 - done,
            offset_commit_max_time_ms=self._commit_ms.maximum(now),
            offset_commit_avg_time_ms=self._commit_ms.average(now),
            batch_size_max=self._batch_rows.maximum(now),
            batch_size_avg=self._batch_rows.average(now),
        )

    def _of_source(self, now: float) -> _Figures:
        return _named(
            "source-task",
            source_record_poll_rate=self._taken.rate(now),
            source_record_poll_total=self._totals["taken"],
            source_record_write_rate=self._sent.rate(now),
            source_record_write_total=self._totals["sent"],
            poll_batch_max_time_ms=self._batch_ms.maximum(now),
            poll_batch_avg_time_ms=self._batch_ms.average(now),
        )

    def _of_sink(self, now: float) -> _Figures:
        return _named(
            "sink-task",
            sink_record_read_rate=self._taken.rate(now),
            sink_record_read_total=self._totals["taken"],
            sink_record_send_rate=self._sent.rate(now),
            sink_record_send_total=self._totals["sent"],
            sink_record_active_count=self._active,
            sink_record_active_count_max=self._uncommitted.maximum(now),
            sink_record_active_count_avg=self._uncommitted.average(now),
            sink_record_lag=math.nan if self._lag is None else self._lag,
            partition_count=self._partitions,
            offset_commit_seq_no=self._totals["commits"] + self._totals["failed-commits"],
            offset_commit_completion_rate=self._commits.rate(now) / 100.0,
            offset_commit_completion_total=self._totals["commits"],
            put_batch_max_time_ms=self._batch_ms.maximum(now),
            put_batch_avg_time_ms=self._batch_ms.average(now),
        )

    def _of_errors(self) -> _Figures:
        return _named(
            "task-error",
            total_record_failures=self._totals["errors"],
            total_record_errors=self._totals["errors"],
            total_records_skipped=self._totals["skipped"],
            total_retries=self._totals["retries"],
            total_errors_logged=self._totals["logged"],
            deadletterqueue_produce_requests=self._totals["dead-letters"],
            deadletterqueue_produce_failures=self._totals["lost-letters"],
            last_error_timestamp=self._last_error_ms,
        )


def _named(group: str, **figures: float) -> _Figures:
    return {(group, attribute): value for attribute, value in figures.items()}


class TasksMetrics:
    """The metrics of the tasks that run on a worker, and how often starting one succeeded."""

    def __init__(self, sample_s: float = 30.0, samples: int = 2) -> None:
        self._window = sample_s, samples
        self._tasks: dict[TaskId, TaskMetrics] = {}
        self.starts = StartupCounter()

    def begin(self, task: TaskId, kind: Kind, samples: Callable[[], Iterable[Sample]] = tuple) -> TaskMetrics:
        """The metrics of a task that is about to start; `samples` gives those of its plugin."""
        made = self._tasks[task] = TaskMetrics(kind, *self._window)
        made.plugin_samples = samples
        return made

    def end(self, task: TaskId) -> None:
        """The task does not run here any more."""
        self._tasks.pop(task, None)

    def all(self) -> dict[TaskId, TaskMetrics]:
        """Of each task that was started here and not ended since."""
        return dict(self._tasks)
