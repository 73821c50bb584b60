"""`/metrics`, and what `/health` says of tasks that do not move."""

from __future__ import annotations

import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.worker.model import Health, State, TaskId
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
