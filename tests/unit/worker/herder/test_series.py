"""The last hour of a worker's connectors, by clocks that a test turns."""

from __future__ import annotations

import math
import time

import pytest

from headrace.plugins.contracts import PartitionResult
from headrace.worker.herder.series import SERIES, STEP_S, STEPS, Plotted, Series, merged_figures
from headrace.worker.model import TaskId
from headrace.worker.tasks.metrics import TasksMetrics

HOUR = 60
BEGIN = 1_000_000 * STEP_S


class Clock:
    def __init__(self) -> None:
        self.now = float(BEGIN)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks() -> TasksMetrics:
    return TasksMetrics()


@pytest.fixture
def series(tasks: TasksMetrics, clock: Clock) -> Series:
    return Series(tasks, clock, clock)


def move(tasks: TasksMetrics, connector: str, records: int, number: int = 0) -> None:
    task = TaskId(connector, number)
    metrics = tasks.all().get(task) or tasks.begin(task, "sink")
    metrics.moved([PartitionResult(written=records, bytes=10 * records)])


def step(series: Series, clock: Clock, seconds: float = STEP_S) -> None:
    clock.now += seconds
    series.sample()


def of(series: Series, name: str, figure: str) -> list[float | None]:
    return series.together([name], HOUR).series()[figure]


def test_each_step_has_what_was_moved_in_it(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    for records in (50, 0, 100):
        move(tasks, "c", records)
        step(series, clock)
    assert of(series, "c", "records_per_s")[-4:] == [None, 5, 0, 10]
    assert of(series, "c", "bytes_per_s")[-3:] == [50, 0, 100]
    assert series.together(["c"], HOUR).until == BEGIN + 3 * STEP_S
    assert series.latest(["c", "d"]) == {
        "c": dict.fromkeys(SERIES) | {"records_per_s": 10, "bytes_per_s": 100, "errors": 0, "batch_ms": 0}
    }


def test_tasks_and_connectors_are_summed_and_their_longest_waits_and_batches_kept(
    series: Series, tasks: TasksMetrics, clock: Clock
) -> None:
    for name, number, lag, lag_s in (("c", 0, 7, 3.0), ("c", 1, 1, 9.0), ("d", 0, 2, 1.0)):
        tasks.begin(TaskId(name, number), "sink").stands(partitions=1, uncommitted=0, lag=lag, lag_s=lag_s)
        move(tasks, name, 10, number)
    tasks.begin(TaskId("source", 0), "source")
    step(series, clock)
    assert [of(series, "c", one)[-1] for one in ("lag_records", "lag_s", "records_per_s")] == [8, 9, 2]
    assert of(series, "source", "lag_s")[-1] is None
    both = series.together(["c", "d", "source", "unknown"], 1).series()
    assert [both[one][-1] for one in ("lag_records", "lag_s", "records_per_s")] == [10, 9, 3]
    assert len(both["errors"]) == 6


def test_errors_are_failed_records_and_failed_attempts(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    metrics = tasks.begin(TaskId("c", 0), "sink")
    metrics.moved([PartitionResult(bad=3)])
    with pytest.raises(OSError, match="away"), metrics.attempt():
        raise OSError("away")
    step(series, clock)
    assert of(series, "c", "errors")[-1] == 4


def test_the_last_figures_of_a_task_that_ended_count_and_its_lag_does_not(
    series: Series, tasks: TasksMetrics, clock: Clock
) -> None:
    for _ in range(2):  # it is restarted within a step
        move(tasks, "c", 10)
        tasks.all()[TaskId("c", 0)].stands(partitions=1, uncommitted=0, lag=5)
        tasks.begin(TaskId("c", 0), "sink").stands(partitions=1, uncommitted=0, lag=5)
    step(series, clock)
    assert (of(series, "c", "records_per_s")[-1], of(series, "c", "lag_records")[-1]) == (2, 5)
    tasks.end(TaskId("c", 0))
    step(series, clock)
    step(series, clock)
    assert of(series, "c", "records_per_s")[-2:] == [0, None]
    assert series.latest(["c"]) == {}


def test_steps_that_were_missed_share_what_came_meanwhile(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    move(tasks, "c", 60)
    step(series, clock, 3 * STEP_S)
    assert of(series, "c", "records_per_s")[-4:] == [None, 2, 2, 2]


def test_a_clock_that_was_set_back_or_far_on_harms_nothing(tasks: TasksMetrics) -> None:
    wall, steady = Clock(), Clock()
    series = Series(tasks, steady, wall)
    move(tasks, "c", 10)
    wall.now -= 1000
    steady.now += STEP_S
    series.sample()
    wall.now += 1000 + STEP_S
    step(series, steady)
    assert of(series, "c", "records_per_s")[-1] == 0.5
    wall.now += 10 * STEPS * STEP_S
    step(series, steady)
    assert set(of(series, "c", "records_per_s")) == {0}


def test_an_hour_later_a_step_is_forgotten(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    move(tasks, "gone", 10)
    step(series, clock)
    tasks.end(TaskId("gone", 0))
    for _ in range(STEPS - 1):
        step(series, clock)
    assert of(series, "gone", "records_per_s")[0] == 1
    step(series, clock)
    step(series, clock)
    assert set(of(series, "gone", "records_per_s")) == {None}


def test_memory_is_bounded_whatever_comes_and_goes(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    for round_ in range(40):
        for number in range(100):
            move(tasks, f"c{round_}-{number}", 1)
        step(series, clock)
        for number in range(100):
            tasks.end(TaskId(f"c{round_}-{number}", 0))
    assert series.nbytes < 20e6
    assert of(series, "c39-0", "records_per_s")[-1] is not None
    assert set(of(series, "c0-0", "records_per_s")) == {None}


def test_five_hundred_connectors_cost_little(series: Series, tasks: TasksMetrics, clock: Clock) -> None:
    names = [f"c{number}" for number in range(500)]
    for name in names:
        move(tasks, name, 1)
    step(series, clock)
    assert series.nbytes < 8e6
    began = time.thread_time()
    for _ in range(10):
        step(series, clock)
    assert (time.thread_time() - began) / 10 < 0.01 * STEP_S  # of a core
    began = time.thread_time()
    series.together(names, HOUR).series()
    series.latest(names)
    assert time.thread_time() - began < 0.1


def answered(plotted: Plotted) -> dict[str, object]:
    return {"step_s": STEP_S, "until": plotted.until, "series": plotted.series()}


def test_workers_are_merged_up_to_the_last_step_that_all_know() -> None:
    clock, tasks = Clock(), [TasksMetrics(), TasksMetrics()]
    here, there = (Series(one, clock, clock) for one in tasks)
    for records in (10, 20):
        for one in tasks:
            move(one, "c", records)
        clock.now += STEP_S
        here.sample()
        if records == 10:
            there.sample()
    own = here.together(["c"], 1)
    merged = own.with_([own.other(answered(there.together(["c"], 1)))])
    assert merged.until == BEGIN + STEP_S
    assert merged.series()["records_per_s"] == [None, None, None, None, None, 2]
    clock.now += STEP_S
    there.sample()
    other = there.together(["c"], 1)
    merged = other.with_([other.other(answered(own))])
    assert merged.series()["records_per_s"] == [None, None, None, None, 2, 3]


def test_an_answer_of_other_steps_is_refused(series: Series, clock: Clock) -> None:
    own = series.together([], 1)
    good = answered(own)
    for wrong in ({"step_s": 20}, {"until": own.until - 3600}, {"series": {}}, answered(series.together([], 2))):
        with pytest.raises((ValueError, KeyError)):
            own.other({**good, **wrong})
    assert math.isnan(own.other(good).figures[0, 0])


def test_figures_of_two_workers_are_merged_as_series_are() -> None:
    one = dict.fromkeys(SERIES) | {"lag_records": 2.0, "lag_s": 3.0}
    other = dict.fromkeys(SERIES) | {"lag_records": 5.0, "lag_s": 1.0, "errors": 1.0}
    assert merged_figures(one, other) == dict.fromkeys(SERIES) | {"lag_records": 7.0, "lag_s": 3.0, "errors": 1.0}
