"""`/series` and `/connectors/{name}/series`: of all workers of the group, as far as the requester may view."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.plugins.contracts import PartitionResult
from headrace.worker.errors import ConnectError, NotFound, Starting
from headrace.worker.herder import series
from headrace.worker.model import ConnectorInfo, TaskId
from headrace.worker.tasks.metrics import TasksMetrics
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_forwarding import Recorder
from tests.unit.rest.test_rights import as_user, rights_file

FIGURES = {"records_per_s", "bytes_per_s", "lag_records", "lag_s", "batch_ms", "errors"}


@pytest.fixture(autouse=True)
def _step_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each series has one step with what its tasks moved."""
    init = series.Series.__init__

    def made(self: series.Series, tasks: TasksMetrics) -> None:
        clock = iter([0.0, float(series.STEP_S)])
        wall = iter([1000.0, 1000.0 + series.STEP_S])
        init(self, tasks, lambda: next(clock), lambda: next(wall))
        self.sample()

    monkeypatch.setattr(series.Series, "__init__", made)


def tasks_of(**records: int) -> TasksMetrics:
    tasks = TasksMetrics()
    for name, count in records.items():
        tasks.begin(TaskId(name, 0), "sink").moved([PartitionResult(written=count)])
    return tasks


def info(name: str) -> ConnectorInfo:
    if name not in ("a", "b"):
        raise NotFound(f"Connector {name} not found")
    return ConnectorInfo(name, {}, [], "sink")


def herder(*others: str) -> Any:
    made = scripted({"connectors": ["a", "b"], "connector_info": info})
    type(made).other_workers = lambda _: others  # type: ignore[method-assign]
    return made


@contextlib.contextmanager
def workers(settings: dict[str, Any] | None = None) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Two workers; the first knows of the second, and of one that does not answer."""
    around = {"around": Named} if settings else {}
    with serving(herder(), settings, tasks=tasks_of(a=10, b=20), **around) as there:  # type: ignore[arg-type]
        url = str(there.base_url)
        with serving(herder(url), settings, tasks=tasks_of(a=5), **around) as here:  # type: ignore[arg-type]
            yield here, there


def test_a_worker_answers_for_all() -> None:
    with workers() as (here, there):
        found = here.get("/connectors/a/series").json()
        assert found["step_s"] == 10
        assert found["until"] == 1010
        assert found["skipped"] == {}
        assert set(found["series"]) == FIGURES
        assert {len(steps) for steps in found["series"].values()} == {360}
        assert found["series"]["records_per_s"][-2:] == [None, 1.5]
        assert there.get("/connectors/a/series?minutes=1").json()["series"]["records_per_s"] == [None] * 5 + [1]
        both = here.get("/series?minutes=1").json()
        assert both["series"]["records_per_s"][-1] == 3.5
        assert {name: one["records_per_s"] for name, one in both["connectors"].items()} == {"a": 1.5, "b": 2}


def test_who_may_not_view_a_connector_sees_nothing_of_it(tmp_path: Path) -> None:
    settings = {"rest.rights.file": rights_file(tmp_path, ("user:x", "b", "view"))}
    with workers(settings) as (here, there):
        for client in (here, there):
            assert as_user(client, "x", "GET", "/connectors/a/series").status_code == 403
            assert as_user(client, "y", "GET", "/series").json()["connectors"] == {}
        found = as_user(there, "x", "GET", "/series?minutes=1").json()
        assert found["connectors"].keys() == {"b"}
        assert found["series"]["records_per_s"][-1] == 2
        # A worker that cannot tell others who asks, for want of a session key, asks nobody.
        assert "session key" in as_user(here, "x", "GET", "/series").json()["skipped"]["the group"]


def test_workers_that_do_not_answer_are_named() -> None:
    java, old, broken = Recorder(), Recorder(), Recorder()
    java.status, java.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    old.body, broken.body = b'{"step_s":10,"until":1010,"series":{}}', b"<html>"
    away = "http://127.0.0.1:1/"
    try:
        with serving(herder(java.url, old.url, broken.url, away), tasks=tasks_of(a=5)) as here:
            for path in ("/series", "/connectors/a/series"):
                found = here.get(path).json()
                assert found["series"]["records_per_s"][-1] == 0.5
                assert found["skipped"].keys() == {java.url, old.url, broken.url, away}
                assert found["skipped"][java.url] == "It answers 404, as Java workers do: HTTP 404 Not Found"
        assert [one["query_string"] for one in java.seen] == [b"forward=false"] * 2
    finally:
        for one in (java, old, broken):
            one.server.stop()


def test_if_kafka_does_not_tell_the_workers_the_answer_is_this_workers() -> None:
    made = herder()

    def away(_: Any) -> None:
        raise ConnectError("no broker answers")

    type(made).other_workers = away
    with serving(made, tasks=tasks_of(a=5)) as here:
        assert here.get("/series").json()["skipped"] == {"the group": "no broker answers"}
        assert here.get("/series?forward=true").json()["skipped"] == {}


@pytest.mark.parametrize("minutes", ["0", "61", "-1", "x", "", "١", "9" * 5000])
def test_wrong_minutes_are_refused(minutes: str) -> None:
    with serving(herder()) as here:
        for path in ("/series", "/connectors/a/series"):
            answer = here.get(path, params={"minutes": minutes})
            assert (answer.status_code, "from 1 to 60" in answer.json()["message"]) == (400, True)


def test_an_unknown_connector_is_404_and_a_worker_that_starts_503() -> None:
    made = herder()
    with serving(made) as here:
        assert here.get("/connectors/x/series").status_code == 404
        made.script["check_known"] = Starting("not yet")
        assert here.get("/series").status_code == here.get("/connectors/a/series").status_code == 503
