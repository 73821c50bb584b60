"""Measures that a task takes of itself, by a clock that a test turns."""

from __future__ import annotations

import math

import pytest

from headrace.plugins.contracts import PartitionResult, RetriableError, Stop
from headrace.plugins.samples import Window
from headrace.worker.deadletters.failed_records import FailureReport
from headrace.worker.model import State, TaskId
from headrace.worker.tasks.metrics import ATTRIBUTES, TaskMetrics, TasksMetrics


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sink(clock: Clock) -> TaskMetrics:
    metrics = TaskMetrics("sink", clock=clock)
    metrics.is_in(State.RUNNING)
    return metrics


def figures_of(metrics: TaskMetrics) -> dict[tuple[str, str], float]:
    """Each attribute's value, by its group and its name."""
    return dict(zip(ATTRIBUTES[metrics.kind], metrics.figures(), strict=True))


def batch(metrics: TaskMetrics, clock: Clock, took_s: float, *reached: PartitionResult) -> None:
    with metrics.attempt():
        clock.now += took_s
    metrics.moved(reached)


def attempt_that_fails(metrics: TaskMetrics, error: Exception) -> None:
    with pytest.raises(type(error)), metrics.attempt():
        raise error


def test_a_window_forgets(clock: Clock) -> None:
    window = Window(30.0, 2, 0.0)
    assert math.isnan(window.average(0.0))
    assert math.isnan(window.maximum(0.0))
    window.record(60, 0.0)
    assert window.rate(0.0) == 2  # over one sample at least
    window.record(120, 40.0)
    assert (window.rate(45.0), window.average(45.0), window.maximum(45.0)) == (4, 90, 120)
    assert (window.average(70.0), window.maximum(70.0)) == (120, 120)
    assert window.rate(3600.0) == 0
    window.record(30, 3600.0)
    assert window.rate(3600.0) == 1  # the idle hour does not count


def test_a_batch_is_counted_and_timed(sink: TaskMetrics, clock: Clock) -> None:
    batch(sink, clock, 0.5, PartitionResult(written=90, dropped=6, bad=4))
    batch(sink, clock, 1.5, PartitionResult(written=100), PartitionResult(written=200))
    figures = {attribute: value for (_, attribute), value in figures_of(sink).items()}
    assert (figures["sink_record_read_total"], figures["sink_record_send_total"]) == (400, 390)
    assert (figures["put_batch_avg_time_ms"], figures["put_batch_max_time_ms"]) == (1000, 1500)
    assert (figures["batch_size_avg"], figures["batch_size_max"]) == (200, 300)
    assert (figures["total_records_skipped"], figures["total_record_errors"]) == (4, 4)
    assert figures["last_error_timestamp"] > 0
    assert figures["sink_record_send_rate"] == pytest.approx(390 / 30)


def test_a_batch_that_is_told_while_it_runs_is_timed_too(clock: Clock) -> None:
    source = TaskMetrics("source", clock=clock)
    with source.attempt():
        clock.now += 2
        source.moved([PartitionResult(written=10)])
    figures = figures_of(source)
    assert figures["source-task", "poll_batch_max_time_ms"] == 2000
    assert figures["source-task", "source_record_write_total"] == 10


def test_looking_for_something_new_is_no_batch(sink: TaskMetrics, clock: Clock) -> None:
    batch(sink, clock, 5)
    assert math.isnan(figures_of(sink)["connector-task", "batch_size_max"])


def test_failures_and_refusals_are_counted(sink: TaskMetrics) -> None:
    attempt_that_fails(sink, RetriableError("away"))
    attempt_that_fails(sink, ValueError("a bug"))
    sink.moved([PartitionResult(written=3, stop=Stop.FATAL)])
    sink.reported(FailureReport(["a line"], logged=3, sent=2, refused=1))
    figures = figures_of(sink)
    assert figures["task-error", "total_errors_logged"] == 3
    assert figures["task-error", "deadletterqueue_produce_requests"] == 2
    assert figures["task-error", "deadletterqueue_produce_failures"] == 1
    assert figures["task-error", "total_retries"] == 1
    assert figures["task-error", "total_record_failures"] == 1
    assert figures["task-error", "total_records_skipped"] == 0


def test_commits_and_states(sink: TaskMetrics, clock: Clock) -> None:
    sink.committed(0.2)
    sink.committed(0.0, ok=False)
    clock.now += 30
    sink.is_in(State.PAUSED)
    clock.now += 10
    figures = figures_of(sink)
    assert figures["connector-task", "offset_commit_success_percentage"] == 50
    assert figures["connector-task", "offset_commit_failure_percentage"] == 50
    assert figures["connector-task", "offset_commit_max_time_ms"] == 200
    assert figures["sink-task", "offset_commit_completion_total"] == 1
    assert figures["connector-task", "running_ratio"] == 0.75
    assert figures["connector-task", "pause_ratio"] == 0.25


def test_where_a_sink_stands(sink: TaskMetrics) -> None:
    sink.stands(partitions=3, uncommitted=40, lag=7)
    figures = figures_of(sink)
    assert figures["sink-task", "partition_count"] == 3
    assert figures["sink-task", "sink_record_active_count"] == 40
    assert figures["sink-task", "sink_record_lag"] == 7


def test_what_waits_for_a_failed_task_is_not_known(sink: TaskMetrics) -> None:
    sink.stands(partitions=3, uncommitted=40, lag=7, lag_s=1.5)
    assert sink.own_figures()[-1] == sink.sampled().lag_s == 1.5
    sink.is_in(State.FAILED)
    sampled = sink.sampled()
    unknown = (
        sampled.lag_s,
        sampled.lag_records,
        sink.own_figures()[-1],
        figures_of(sink)["sink-task", "sink_record_lag"],
    )
    assert all(map(math.isnan, unknown))


def test_records_are_under_way_until_their_batch_has_ended(clock: Clock) -> None:
    source = TaskMetrics("source", clock=clock)
    names = ["", "_max", "_avg"]

    def figures() -> list[float]:
        found = figures_of(source)
        return [found["source-task", f"source_record_active_count{name}"] for name in names]

    assert all(map(math.isnan, figures()))
    for records in (10, 30):
        with source.attempt():
            source.stages.takes(records)
            assert figures()[0] == records
            source.moved([PartitionResult(written=records)])
    assert figures() == [0, 30, 20]
    source.stages.takes(99)
    attempt_that_fails(source, OSError("away"))
    assert figures() == [0, 30, 20]


def test_a_batch_that_does_not_end_makes_its_task_stuck(sink: TaskMetrics, clock: Clock) -> None:
    with sink.attempt():
        clock.now += 60
        assert sink.stuck() is None
        clock.now += 1
        stuck = sink.stuck()
        assert stuck is not None
        assert (stuck.reason, stuck.seconds) == ("batch", 61)
        assert "61 s" in stuck.text
    assert sink.stuck() is None


def test_long_batches_are_given_time(sink: TaskMetrics, clock: Clock) -> None:
    batch(sink, clock, 50, PartitionResult(written=1))
    with sink.attempt():
        clock.now += 150
        assert sink.stuck() is None
        clock.now += 1
        assert sink.stuck() is not None


def test_a_batch_that_fails_over_and_over_makes_its_task_stuck(sink: TaskMetrics, clock: Clock) -> None:
    for _ in range(7):
        attempt_that_fails(sink, RetriableError("password=secret"))
        clock.now += 10
    stuck = sink.stuck()
    assert stuck is not None
    assert stuck.reason == "retries"
    assert "7 times, last with RetriableError" in stuck.text
    assert "secret" not in stuck.text
    batch(sink, clock, 1, PartitionResult(written=1))
    assert sink.stuck() is None


def test_records_that_wait_while_none_is_fetched_make_a_task_stuck(sink: TaskMetrics, clock: Clock) -> None:
    for lag in (10, 20, 30):
        sink.stands(1, 0, lag)
        clock.now += 25
    stuck = sink.stuck()
    assert stuck is not None
    assert stuck.reason == "backlog"
    assert "30 records" in stuck.text
    sink.stands(1, 0, 0)
    assert sink.stuck() is None


def test_a_task_that_moves_though_its_lag_grows_is_not_stuck(sink: TaskMetrics, clock: Clock) -> None:
    for lag in range(1, 20):
        batch(sink, clock, 10, PartitionResult(written=1))
        sink.stands(1, 0, lag)
        assert sink.stuck() is None


def test_an_idle_task_is_not_stuck(sink: TaskMetrics, clock: Clock) -> None:
    batch(sink, clock, 0.001)
    sink.stands(1, 0, 0)
    clock.now += 3600
    assert sink.stuck() is None


@pytest.mark.parametrize("state", [State.PAUSED, State.RESTARTING, State.FAILED])
def test_only_who_runs_can_be_stuck(sink: TaskMetrics, clock: Clock, state: State) -> None:
    sink.stands(1, 0, 10)
    clock.now += 100
    sink.is_in(state)
    assert sink.stuck() is None
    sink.is_in(State.RUNNING)  # it has only just been given the chance to move
    assert sink.stuck() is None
    figures_of(sink)
    clock.now += 61
    assert sink.stuck() is not None


def test_the_tasks_of_a_worker_and_their_starts() -> None:
    tasks = TasksMetrics()
    made = tasks.begin(TaskId("c", 0), "source")
    assert tasks.all() == {TaskId("c", 0): made}
    tasks.end(TaskId("c", 0))
    tasks.end(TaskId("c", 0))
    assert tasks.all() == {}
    with tasks.starts.attempt():
        pass
    with pytest.raises(ValueError, match="no"), tasks.starts.attempt():
        raise ValueError("no")
    assert (tasks.starts.attempts, tasks.starts.failures) == (2, 1)
