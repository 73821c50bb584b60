"""The metrics of a task: counts and times of its batches, its commits, its states; and if it is stuck.

The task's thread updates them once per batch, never per record; scrapes read them in their own threads. Names and
windows are Connect's (`source-task-metrics`, `sink-task-metrics`, `connector-task-metrics`, `task-error-metrics`).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import PartitionResult, Stop
from headrace.plugins.samples import Sample, Window
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import Kind, State, TaskId
from headrace.worker.pipeline.stages import Stages

_OF_TASK: Final = (
    "running_ratio",
    "pause_ratio",
    "offset_commit_success_percentage",
    "offset_commit_failure_percentage",
    "offset_commit_max_time_ms",
    "offset_commit_avg_time_ms",
    "batch_size_max",
    "batch_size_avg",
)
_OF_SOURCE: Final = (
    "source_record_poll_rate",
    "source_record_poll_total",
    "source_record_write_rate",
    "source_record_write_total",
    "poll_batch_max_time_ms",
    "poll_batch_avg_time_ms",
)
_OF_SINK: Final = (
    "sink_record_read_rate",
    "sink_record_read_total",
    "sink_record_send_rate",
    "sink_record_send_total",
    "sink_record_active_count",
    "sink_record_active_count_max",
    "sink_record_active_count_avg",
    "sink_record_lag",
    "partition_count",
    "offset_commit_seq_no",
    "offset_commit_completion_rate",
    "offset_commit_completion_total",
    "put_batch_max_time_ms",
    "put_batch_avg_time_ms",
)
_OF_ERRORS: Final = (
    "total_record_failures",
    "total_record_errors",
    "total_records_skipped",
    "total_retries",
    "total_errors_logged",
    "deadletterqueue_produce_requests",
    "deadletterqueue_produce_failures",
    "last_error_timestamp",
)


def _attributes(group: str, own: Sequence[str]) -> tuple[tuple[str, str], ...]:
    groups = (("connector-task", _OF_TASK), (group, own), ("task-error", _OF_ERRORS))
    return tuple((group, attribute) for group, attributes in groups for attribute in attributes)


ATTRIBUTES: Final[Mapping[Kind, Sequence[tuple[str, str]]]] = {
    "source": _attributes("source-task", _OF_SOURCE),
    "sink": _attributes("sink-task", _OF_SINK),
}
"""The group and the name of each of a task's figures, in their order; `_` stands for `-`."""

OWN: Final = (
    ("headrace_task_batches_total", "Batches that moved records"),
    ("headrace_task_bytes_total", "Bytes of keys and values that the task moved"),
    ("headrace_sink_task_lag_seconds", "Age of the oldest record that waits in Kafka for a sink, at most"),
)
"""The name and the help text of each of a task's figures that Connect does not have."""
STAGE_SECONDS: Final = ("headrace_task_stage_seconds_total", "Seconds that a stage of the task's batches took")

_COUNTED: Final = (
    "taken",
    "sent",
    "skipped",
    "errors",
    "retries",
    "commits",
    "failed-commits",
    "logged",
    "dead-letters",
    "lost-letters",
)
STUCK_SECONDS: Final = 60.0
"""A task counts as stuck after at least this time without progress while something waits."""


@dataclass(frozen=True)
class Stuck:
    """A task that is RUNNING and makes no progress, although something waits for it."""

    reason: str
    """`batch`: one does not end; `retries`: one fails over and over; `backlog`: records wait and none comes."""
    seconds: float
    text: str


class Sampled(NamedTuple):
    """The figures of one or several tasks since they were sampled last. Units: NaN if not known."""

    records: int = 0
    """Written."""
    bytes: int = 0
    """Keys and values; of a sink's Spark jobs an estimate, by the mean size of the records before."""
    errors: int = 0
    """Failed records, and failed attempts of batches."""
    lag_records: float = math.nan
    lag_s: float = math.nan
    batch_ms: float = math.nan
    """Of the longest batch that ended."""

    def with_(self, other: Sampled) -> Sampled:
        """The figures of these tasks and the others together."""
        return Sampled(
            self.records + other.records,
            self.bytes + other.bytes,
            self.errors + other.errors,
            _known(sum, self.lag_records, other.lag_records),
            _known(max, self.lag_s, other.lag_s),
            _known(max, self.batch_ms, other.batch_ms),
        )


def _known(merge: Callable[[list[float]], float], *figures: float) -> float:
    known = [one for one in figures if not math.isnan(one)]
    return merge(known) if known else math.nan


def _or_nan(figure: float | None) -> float:
    return math.nan if figure is None else figure


class TaskMetrics:
    """The metrics of one start of a task."""

    def __init__(
        self, kind: Kind, sample_s: float = 30.0, samples: int = 2, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = kind
        self.plugin_samples: Callable[[], Iterable[Sample]] = tuple
        """Gives the plugin's own metrics."""
        self._clock = clock
        self._lock = threading.Lock()
        now = clock()

        def window() -> Window:
            return Window(sample_s, samples, now)

        self._taken, self._sent, self._batch_rows, self._batch_ms = window(), window(), window(), window()
        self._commits, self._commit_ms, self._uncommitted = window(), window(), window()
        self._totals = dict.fromkeys(_COUNTED, 0)
        self._last_error_ms = 0
        self._made = self._shown_since = now
        self._state = State.UNASSIGNED
        self._running_s = self._paused_s = 0.0
        self._partitions = self._active = 0
        self._lag: int | None = None
        self._began: float | None = None
        self._took_s = self._longest_s = 0.0
        self._waiting_since: float | None = None
        self._failures, self._failure = 0, ""
        self.stages = Stages()
        """Times the stages of its batches."""
        self._unsampled = Sampled()
        self._lag_s: float | None = None
        self._batches = self._bytes = 0

    # Updates by the task's thread.

    def is_in(self, state: State) -> None:
        """Note the state that the task shows from now on."""
        with self._lock:
            now = self._clock()
            if self._state is State.RUNNING:
                self._running_s += now - self._shown_since
            elif self._state is State.PAUSED:
                self._paused_s += now - self._shown_since
            self._state, self._shown_since = state, now

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Time one attempt of a batch; an error raised in it counts as a failed attempt."""
        with self._lock:
            self._began = began = self._clock()
            self._waiting_since = began if self._waiting_since is None else self._waiting_since
        try:
            yield
        except Exception as error:
            with self._lock:
                self._failures, self._failure = self._failures + 1, type(error).__name__
                self._totals["retries"] += isinstance(error, RetriableError)
                self._unsampled = self._unsampled.with_(Sampled(errors=1))
                self._began = None
            raise
        with self._lock:
            self._took_s, self._began = self._clock() - began, None
            self._longest_s = max(self._longest_s, self._took_s)
            self._waiting_since, self._failures = None, 0

    def moved(self, reached: Sequence[PartitionResult]) -> float:
        """Count the rows of a batch; returns the seconds that it took."""
        sent = sum(one.written for one in reached)
        bad = sum(one.bad for one in reached)
        taken = sent + bad + sum(one.dropped for one in reached)
        refused = sum(one.stop is Stop.FATAL for one in reached)
        size = sum(one.bytes for one in reached)
        with self._lock:
            now = self._clock()
            took_s = self._took_s if self._began is None else now - self._began
            if taken:
                self._taken.record(taken, now)
                self._sent.record(sent, now)
                self._batch_rows.record(taken, now)
                self._batch_ms.record(took_s * 1000, now)
            longest_ms = took_s * 1000 if taken else math.nan
            self._unsampled = self._unsampled.with_(Sampled(sent, size, bad + refused, batch_ms=longest_ms))
            self._batches += bool(taken)
            self._bytes += size
            self._totals["taken"] += taken
            self._totals["sent"] += sent
            self._totals["skipped"] += bad
            self._totals["errors"] += bad + refused
            if bad or refused:
                self._last_error_ms = int(time.time() * 1000)
        return took_s

    def committed(self, took_s: float, ok: bool = True) -> None:
        """Note a commit of offsets, or a failed one."""
        with self._lock:
            now = self._clock()
            self._commits.record(100.0 if ok else 0.0, now)
            self._totals["commits" if ok else "failed-commits"] += 1
            if ok:
                self._commit_ms.record(took_s * 1000, now)
            self.stages.add("commit", took_s)

    def fetched(self, size: int) -> None:
        """Count the bytes of keys, values and headers that a sink took from Kafka."""
        with self._lock:
            self._bytes += size
            self._unsampled = self._unsampled.with_(Sampled(bytes=size))

    def stands(self, partitions: int, uncommitted: int, lag: int | None, lag_s: float | None = None) -> None:
        """Note a sink's number of partitions, of uncommitted offsets, and of records that wait in Kafka.

        `lag_s`: the age of the oldest record that waits; None if not known.
        """
        with self._lock:
            now = self._clock()
            self._partitions, self._active, self._lag, self._lag_s = partitions, uncommitted, lag, lag_s
            self._uncommitted.record(uncommitted, now)
            if lag and self._waiting_since is None:
                self._waiting_since = now
            elif not lag and self._began is None and not self._failures:
                self._waiting_since = None

    def reported(self, reported: FailureReport) -> None:
        """Count failed records that were logged and dead-lettered, or could not be."""
        with self._lock:
            self._totals["logged"] += reported.logged
            self._totals["dead-letters"] += reported.sent
            self._totals["lost-letters"] += reported.refused

    # Reads by other threads.

    def sampled(self) -> Sampled:
        """Return the figures since the last call; for one caller."""
        with self._lock:
            found, self._unsampled = self._unsampled, Sampled()
            return found._replace(lag_records=_or_nan(self._lag), lag_s=_or_nan(self._lag_s))

    def own_figures(self) -> Sequence[float]:
        """The value of each of `OWN`, in their order."""
        return self._batches, self._bytes, _or_nan(self._lag_s)

    def stuck(self) -> Stuck | None:
        """Say why the task makes no progress although it should.

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
            return "batch", "a batch has begun and does not end; look at its transforms, and at the outside system"
        return "backlog", f"{self._lag} records wait in Kafka and none is fetched; look at the brokers"

    def figures(self) -> Sequence[float]:
        """The value of each of the kind's `ATTRIBUTES`, in their order."""
        with self._lock:
            now = self._clock()
            of_kind = self._of_source(now) if self.kind == "source" else self._of_sink(now)
            return *self._of_task(now), *of_kind, *self._of_errors()

    def _of_task(self, now: float) -> Sequence[float]:
        tracked_s, shown_s = max(now - self._made, 1e-9), now - self._shown_since
        done = self._commits.average(now)
        return (
            (self._running_s + (shown_s if self._state is State.RUNNING else 0.0)) / tracked_s,
            (self._paused_s + (shown_s if self._state is State.PAUSED else 0.0)) / tracked_s,
            done,
            100.0 - done,
            self._commit_ms.maximum(now),
            self._commit_ms.average(now),
            self._batch_rows.maximum(now),
            self._batch_rows.average(now),
        )

    def _of_source(self, now: float) -> Sequence[float]:
        return (
            *self._moved_on(now),
            self._batch_ms.maximum(now),
            self._batch_ms.average(now),
        )

    def _of_sink(self, now: float) -> Sequence[float]:
        totals = self._totals
        return (
            *self._moved_on(now),
            self._active,
            self._uncommitted.maximum(now),
            self._uncommitted.average(now),
            _or_nan(self._lag),
            self._partitions,
            totals["commits"] + totals["failed-commits"],
            self._commits.rate(now) / 100.0,
            totals["commits"],
            self._batch_ms.maximum(now),
            self._batch_ms.average(now),
        )

    def _moved_on(self, now: float) -> Sequence[float]:
        totals = self._totals
        return self._taken.rate(now), totals["taken"], self._sent.rate(now), totals["sent"]

    def _of_errors(self) -> Sequence[float]:
        totals = self._totals
        return (
            totals["errors"],
            totals["errors"],
            totals["skipped"],
            totals["retries"],
            totals["logged"],
            totals["dead-letters"],
            totals["lost-letters"],
            self._last_error_ms,
        )


class TasksMetrics:
    """The metrics of the tasks that run on a worker, and of their starts."""

    def __init__(self, sample_s: float = 30.0, samples: int = 2) -> None:
        self._window = sample_s, samples
        self._tasks: dict[TaskId, TaskMetrics] = {}
        self._ended: list[tuple[str, Sampled]] = []
        """The last figures of tasks that ended since they were sampled."""
        self.starts = StartupCounter()

    def begin(self, task: TaskId, kind: Kind, samples: Callable[[], Iterable[Sample]] = tuple) -> TaskMetrics:
        """Make the metrics of a task that is about to start; `samples` gives those of its plugin."""
        self.end(task)
        made = self._tasks[task] = TaskMetrics(kind, *self._window)
        made.plugin_samples = samples
        return made

    def end(self, task: TaskId) -> None:
        """Drop the metrics of a task that does not run on this worker any more."""
        ended = self._tasks.pop(task, None)
        if ended is not None:  # what waits is its successor's
            self._ended.append((task.connector, ended.sampled()._replace(lag_records=math.nan, lag_s=math.nan)))

    def all(self) -> dict[TaskId, TaskMetrics]:
        """The metrics of each task that was started and not ended since."""
        return dict(self._tasks)

    def sampled(self) -> dict[str, Sampled]:
        """Return the figures of each connector's tasks since the last call; for one caller."""
        together: dict[str, Sampled] = {}
        found = [(task.connector, metrics.sampled()) for task, metrics in self.all().items()]
        while self._ended:
            found.append(self._ended.pop())
        for name, sampled in found:
            together[name] = sampled if name not in together else together[name].with_(sampled)
        return together
