"""`/metrics`, and what `/health` says of tasks that do not move."""

from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.worker.model import ConnectorState, Health, State, Status, TaskId
from headrace.worker.tasks.metrics import TasksMetrics
from tests.unit.rest.scripted import scripted, serving

HEALTHY = Health("healthy", "ready")


def healthy() -> Any:
    return scripted({"health": HEALTHY, "connectors": []})


@pytest.mark.parametrize("admin", [False, True])
def test_prometheus_can_read_the_metrics_on_either_listener(admin: bool) -> None:
    with serving(healthy(), admin=admin) as client:
        answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert "kafka_connect_worker_connector_count" in names
        assert client.head("/metrics/").status_code == 200


def test_health_names_a_task_that_is_stuck_and_the_worker_stays_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = TasksMetrics()
    task = tasks.begin(TaskId("c", 3), "sink")
    task.is_in(State.RUNNING)
    task.stands(partitions=1, uncommitted=0, lag=12)
    with serving(healthy(), tasks=tasks) as client:
        assert client.get("/health").json() == {"status": "healthy", "message": "ready"}
        later = time.monotonic() + 100
        monkeypatch.setattr(task, "_clock", lambda: later)
        answer = client.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (200, "healthy")
        (stuck,) = answer.json()["unhealthy_tasks"]
        assert "12 records wait" in stuck.pop("message")
        assert stuck == {"connector": "c", "task": 3, "state": "UNHEALTHY", "reason": "backlog"}


def test_health_ends_with_what_keeps_executors_from_running_jobs() -> None:
    with serving(healthy(), executors_trouble="No executor.") as client:
        answer = client.get("/health")
    assert (answer.status_code, answer.json()["message"]) == (200, "ready No executor.")


HERE, THERE = "here:8083", "there:8083"


def connector(name: str) -> ConnectorState:
    tasks = {
        0: Status(State.FAILED, HERE, trace="x: s"),
        1: Status(State.FAILED, THERE),
        2: Status(State.RUNNING, HERE),
    }
    return ConnectorState(name, Status(State.FAILED, HERE if name == "c" else THERE), tasks, "sink")


def test_asked_strictly_health_is_503_with_failed_tasks_of_this_worker() -> None:
    script = {"health": HEALTHY, "connectors": ["c", "d"], "connector_state": connector, "kafka_away_seconds": 0.0}
    with serving(scripted(script)) as client:
        assert client.get("/health").status_code == client.get("/health?strict=false").status_code == 200
        for asked in ("strict", "strict=True"):
            answer = client.get(f"/health?{asked}")
            assert answer.status_code == 503
            assert answer.json() == {"status": "unhealthy", "message": "FAILED here: c, c-0, d-0"}


def test_asked_strictly_health_is_503_once_kafka_is_away_for_long() -> None:
    herder = scripted({"health": HEALTHY, "connectors": [], "kafka_away_seconds": 5.0})
    with serving(herder, {"health.kafka.away.ms": 5000}) as client:
        assert client.get("/health?strict").json() == {"status": "healthy", "message": "ready"}
        herder.script["kafka_away_seconds"] = 6.0
        answer = client.get("/health?strict")
        assert (answer.status_code, answer.json()["message"]) == (503, "No Kafka broker has answered for 6 s")
        assert client.get("/health").status_code == 200
    starting = scripted({"health": Health("starting", "waits"), "connectors": []})
    with serving(starting) as client:
        assert client.get("/health?strict").json() == {"status": "starting", "message": "waits"}
        assert ("kafka_away_seconds",) not in starting.asked
