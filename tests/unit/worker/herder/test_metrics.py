"""Connect's metric groups under the names of Strimzi's dashboards."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.plugins.contracts import PartitionResult
from headrace.worker.errors import NotFound
from headrace.worker.herder.flows import Flows
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.hosting.measures import RebalanceTimes, StartupCounter
from headrace.worker.model import ConnectorInfo, ConnectorState, State, Status, TaskId
from headrace.worker.tasks.metrics import TasksMetrics

CALLS = 300
"""More than a scrape may cost for a task, calls and returns; an object for each of its 32 samples costs thousands."""
HERE, THERE = "here:8083", "there:8083"


class FakeHerder:
    """Connectors with their tasks, each on a worker of its own."""

    def __init__(self, states: Mapping[str, tuple[Status, list[Status]]]) -> None:
        self.states = states

    def connectors(self) -> list[str]:
        return [*self.states, "without-status"]

    def connector_state(self, name: str) -> ConnectorState:
        if name not in self.states:
            raise NotFound(name)
        connector, tasks = self.states[name]
        return ConnectorState(name, connector, dict(enumerate(tasks)), "sink")

    def connector_info(self, name: str) -> ConnectorInfo:
        return ConnectorInfo(name, {"connector.class": "org.example.Sink"}, [], "sink")


class FakeGroup:
    generation = 7
    leader_url: str | None = "http://there:8083/"
    protocol_version = 2

    def traffic(self) -> Mapping[str, float]:
        return {"connection-count": 2, "request-rate": 0.5}


def sample(metrics: WorkerMetrics, name: str, **labels: str) -> float | None:
    """The value of one sample, as Prometheus reads it."""
    text = metrics.metrics_text()
    found = [
        one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == name and one.labels == labels
    ]
    assert len(found) <= 1, name
    return found[0] if found else None


def worker(states: Mapping[str, tuple[Status, list[Status]]], **more: Any) -> WorkerMetrics:
    return WorkerMetrics(FakeHerder(states), HERE, TasksMetrics(), StartupCounter(), **more)  # type: ignore[arg-type]


@pytest.fixture
def two() -> WorkerMetrics:
    running, failed = Status(State.RUNNING, HERE, "4.3.1"), Status(State.FAILED, HERE)
    elsewhere = Status(State.RUNNING, THERE)
    states = {"a": (running, [running, failed, elsewhere]), 'quo"te': (elsewhere, [elsewhere])}
    made = worker(states, group=FakeGroup(), rebalances=RebalanceTimes())
    made.tasks.begin(TaskId("a", 0), "sink").is_in(State.RUNNING)
    made.tasks.begin(TaskId("b", 0), "source").moved([PartitionResult(written=5, dropped=1)])
    return made


def test_the_worker_counts_what_it_runs_itself(two: WorkerMetrics) -> None:
    assert sample(two, "kafka_connect_worker_connector_count") == 1
    assert sample(two, "kafka_connect_worker_task_count") == 2
    assert sample(two, "kafka_connect_worker_connector_total_task_count", connector="a") == 2
    assert sample(two, "kafka_connect_worker_connector_failed_task_count", connector="a") == 1
    assert sample(two, "kafka_connect_worker_connector_paused_task_count", connector="a") == 0
    assert sample(two, "kafka_connect_worker_connector_total_task_count", connector='quo"te') is None


def test_states_are_labels(two: WorkerMetrics) -> None:
    assert sample(two, "kafka_connect_connector_status", connector="a", status="running") == 1
    assert (
        sample(two, "kafka_connect_connector_connector_class", connector="a", connector_class="org.example.Sink") == 1
    )
    assert sample(two, "kafka_connect_connector_task_status", connector="a", task="1", status="failed") == 1
    assert sample(two, "kafka_connect_connector_task_status", connector="a", task="2", status="running") is None


def test_tasks_show_what_they_measured(two: WorkerMetrics) -> None:
    of_source = {"connector": "b", "task": "0"}
    assert sample(two, "kafka_connect_source_task_source_record_poll_total", **of_source) == 6
    assert sample(two, "kafka_connect_source_task_source_record_write_total", **of_source) == 5
    assert sample(two, "kafka_connect_connector_task_batch_size_max", **of_source) == 6
    assert sample(two, "kafka_connect_task_error_total_record_failures", **of_source) == 0
    put_time = sample(two, "kafka_connect_sink_task_put_batch_avg_time_ms", connector="a", task="0")
    assert put_time is not None
    assert math.isnan(put_time)


def test_tasks_show_what_connect_does_not_measure(two: WorkerMetrics) -> None:
    source, sink = {"connector": "b", "task": "0"}, {"connector": "a", "task": "0"}
    tasks = two.tasks.all()
    tasks[TaskId("b", 0)].stages.add("convert", 1.5)
    tasks[TaskId("b", 0)].moved([PartitionResult(written=1, bytes=70)])
    tasks[TaskId("a", 0)].fetched(30)
    tasks[TaskId("a", 0)].stands(partitions=1, uncommitted=0, lag=5, lag_s=2.5)
    assert sample(two, "headrace_task_batches_total", **source) == 2
    assert sample(two, "headrace_task_bytes_total", **source) == 70
    assert sample(two, "headrace_task_bytes_total", **sink) == 30
    assert sample(two, "headrace_task_stage_seconds_total", **source, stage="convert") == 1.5
    assert sample(two, "headrace_task_stage_seconds_total", **source, stage="write") is None
    assert sample(two, "headrace_sink_task_lag_seconds", **sink) == 2.5
    assert sample(two, "headrace_sink_task_lag_seconds", **source) is None


def test_totals_are_counters_and_the_rest_gauges(two: WorkerMetrics) -> None:
    text = two.metrics_text()
    assert "# TYPE kafka_connect_source_task_source_record_poll_total counter" in text
    assert "# TYPE kafka_connect_task_error_total_record_failures gauge" in text
    assert text.count("# TYPE kafka_connect_connector_task_status ") == 1


@pytest.mark.parametrize(
    ("scheme", "name", "labels"),
    [
        ("strimzi-reporter", "kafka_connect_connect_worker_metrics_task_count", {}),
        ("strimzi-reporter", "kafka_connect_connect_worker_metrics_connector_failed_task_count", {"connector": "a"}),
        ("strimzi-reporter", "kafka_connect_connector_metrics_status_info", {"connector": "a", "status": "running"}),
        ("strimzi-reporter", "kafka_connect_connect_worker_rebalance_metrics_rebalancing", {}),
        ("strimzi-reporter", "kafka_connect_connect_coordinator_metrics_assigned_tasks", {}),
        ("strimzi-reporter", "kafka_connect_source_task_metrics_source_record_poll", {"connector": "b", "task": "0"}),
        ("confluent", "kafka_connect_connect_worker_metrics_task_count", {"connector": "aggregate"}),
        ("confluent", "kafka_connect_connect_worker_metrics_connector_failed_task_count", {"connector": "a"}),
        ("confluent", "kafka_connect_connector_metrics", {"connector": "a", "status": "running"}),
        ("confluent", "kafka_connect_connector_metrics", {"connector": "a", "connector_type": "sink"}),
        ("confluent", "kafka_connect_source_task_metrics_source_record_poll_total", {"connector": "b", "task": "0"}),
        ("confluent", "kafka_connect_task_error_metrics_total_retries", {"connector": "b", "task": "0"}),
        ("confluent", "kafka_connect_app_info", {"client_id": HERE, "version": "4.3.1"}),
        ("confluent", "kafka_connect_app", {"client_id": HERE, "version": "4.3.1"}),
        ("confluent", "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total", {}),
        ("confluent", "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances", {}),
        ("confluent", "kafka_connect_connect_metrics_request_rate", {"client_id": f"connect-{HERE}"}),
        ("strimzi-reporter", "kafka_connect_connect_metrics_connection_count", {"client_id": f"connect-{HERE}"}),
        ("confluent", "kafka_connect_sink_task_metrics_offset_commit_skip_rate", {"connector": "a", "task": "0"}),
        (
            "confluent",
            "kafka_connect_source_task_metrics_source_record_active_count_max",
            {"connector": "b", "task": "0"},
        ),
    ],
)
def test_names_are_those_that_were_chosen(two: WorkerMetrics, scheme: str, name: str, labels: dict[str, str]) -> None:
    two.names = [scheme]
    assert sample(two, name, **labels) is not None
    assert sample(two, "kafka_connect_worker_task_count") is None
    two.names = ["strimzi-jmx", scheme]
    assert sample(two, name, **labels) is not None
    assert sample(two, "kafka_connect_worker_task_count") == 2


def test_no_series_comes_twice(two: WorkerMetrics) -> None:
    two.names = ["strimzi-jmx", "strimzi-reporter", "confluent"]
    families = text_string_to_metric_families(two.metrics_text())
    series = [(one.name, tuple(sorted(one.labels.items()))) for family in families for one in family.samples]
    assert len(series) == len(set(series))


def test_starts_are_counted() -> None:
    made = worker({})
    assert sample(made, "kafka_connect_worker_connector_startup_success_percentage") == 0
    for broken in (False, False, False, True):
        try:
            with made.connector_starts.attempt():
                assert not broken
        except AssertionError:
            continue
    assert sample(made, "kafka_connect_worker_connector_startup_attempts_total") == 4
    assert sample(made, "kafka_connect_worker_connector_startup_failure_total") == 1
    assert sample(made, "kafka_connect_worker_connector_startup_success_percentage") == 75
    assert sample(made, "kafka_connect_worker_task_startup_attempts_total") == 0


def test_the_group_and_its_rebalances(two: WorkerMetrics) -> None:
    now = 100.0
    rebalances = two.rebalances = RebalanceTimes(lambda: now)
    assert sample(two, "kafka_connect_worker_rebalance_time_since_last_rebalance_ms") == math.inf
    rebalances.began()
    now += 2
    rebalances.began()  # still the same
    assert sample(two, "kafka_connect_worker_rebalance_rebalancing") == 1
    now += 2
    rebalances.ended()
    rebalances.ended()  # one that others began
    now += 1
    assert sample(two, "kafka_connect_worker_rebalance_rebalancing") == 0
    assert sample(two, "kafka_connect_worker_rebalance_completed_rebalances_total") == 2
    assert sample(two, "kafka_connect_worker_rebalance_rebalance_max_time_ms") == 4000
    assert sample(two, "kafka_connect_worker_rebalance_rebalance_avg_time_ms") == 2000
    assert sample(two, "kafka_connect_worker_rebalance_time_since_last_rebalance_ms") == 1000
    assert sample(two, "kafka_connect_worker_rebalance_epoch") == 7
    assert sample(two, "kafka_connect_worker_rebalance_connect_protocol", connect_protocol="SESSIONED") == 1
    assert sample(two, "kafka_connect_worker_rebalance_leader_name", leader_name="http://there:8083/") == 1
    assert sample(two, "kafka_connect_coordinator_assigned_tasks") == 2


def test_a_worker_that_is_alone_has_no_group() -> None:
    assert "rebalance" not in worker({}).metrics_text()


def test_a_process_without_workers_tells_of_itself() -> None:
    assert "\nprocess_start_time_seconds " in Flows(ProcessMetrics()).metrics_text()


def test_a_stuck_task_is_named(two: WorkerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"connector": "a", "task": "0", "reason": "backlog"}
    two.tasks.all()[TaskId("a", 0)].stands(1, 0, 10)
    assert two.stuck() == {}
    assert sample(two, "kafka_connect_connector_task_unhealthy", **labels) is None
    later = time.monotonic() + 61
    monkeypatch.setattr(two.tasks.all()[TaskId("a", 0)], "_clock", lambda: later)
    assert list(two.stuck()) == [TaskId("a", 0)]
    assert sample(two, "kafka_connect_connector_task_unhealthy", **labels) == 1


def test_a_scrape_calls_little_for_each_task() -> None:
    running = Status(State.RUNNING, HERE)
    made = worker({f"c{number}": (running, [running] * 4) for number in range(250)})
    for number in range(1000):
        made.tasks.begin(TaskId(f"c{number // 4}", number % 4), "sink")
    calls = Counter[str]()
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        made.metrics_text()
    finally:
        sys.setprofile(None)
    print(f"A scrape of 1,000 tasks: {calls}")
    assert sum(calls.values()) < 1000 * CALLS


def test_the_version_is_the_one_that_it_shall_claim() -> None:
    text = worker({}, names=("confluent",), version="4.4.0").metrics_text()
    assert 'version="4.4.0"' in text
    assert "4.3.1" not in text
