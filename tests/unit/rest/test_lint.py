"""Lint over HTTP: a connector that runs, a config that exists nowhere yet, and who is told of what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from headrace.config.lint.finding import Finding, Severity
from headrace.config.lint.view import ClusterFacts
from headrace.plugins.errors import RetriableError
from headrace.worker.errors import Starting
from headrace.worker.model import ConnectorInfo, TaskId
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_rights import FILE, as_user, refused, rights_file

SINK: Final = {"connector.class": "FileStreamSink", "topics.regex": "orders.*", "file": "out"}


def findings(answer: Any) -> list[tuple[str, str | None]]:
    assert answer.status_code == 200, answer.text
    return [(one["rule"], one.get("setting")) for one in answer.json()["findings"]]


def test_a_connector_that_runs(worker: Worker) -> None:
    config = {**FILE, "name": "linted", "tasks.max": "3", "fiel": "x"}
    worker.client.put("/connectors/linted/config", json=config).raise_for_status()
    answer = worker.client.get("/connectors/linted/lint")
    assert findings(answer) == [("unknown-setting", "fiel"), ("tasks-over-source", "tasks.max")]
    assert answer.json()["findings"][0] == {
        "rule": "unknown-setting",
        "severity": "warning",
        "setting": "fiel",
        "message": "Nothing reads this setting: did you mean file?",
        "advice": "Mend its name, or remove it.",
    }
    worker.client.delete("/connectors/linted")
    assert refused(worker.client.get("/connectors/linted/lint"), 404)


def test_a_config_that_exists_nowhere_yet(worker: Worker) -> None:
    path = "/connector-plugins/FileStreamSink/config/lint"
    assert findings(worker.client.put(path, json={**SINK, "name": "c"})) == [("regex-matches-nothing", "topics.regex")]
    nameless = worker.client.put(path, json={**SINK, "topics.regex": "in"})
    assert findings(nameless) == [("invalid-setting", "name")]
    assert refused(worker.client.put(path, json={"connector.class": "FileStreamSource"}), 400)
    assert findings(worker.client.put(path, json={})) == [("unknown-plugin", "connector.class")]
    other = {**SINK, "name": "c", "connector.class": "Other", "errors.tolerance": "all"}
    assert findings(worker.client.put("/connector-plugins/Other/config/lint", json=other)) == [
        ("unknown-plugin", "connector.class"),
        ("tolerance-without-dead-letters", "errors.tolerance"),
    ]


def test_a_secret_is_not_quoted(worker: Worker) -> None:
    config = {"name": "c", "connector.class": "JdbcSource", "connection.password": "hunter2-and-more"}
    answer = worker.client.put("/connector-plugins/JdbcSource/config/lint", json={**config, "x": "hunter2-and-more"})
    assert ("literal-secret", "connection.password") in findings(answer)
    assert "hunter2" not in answer.text


def test_a_cluster_that_does_not_answer_is_told(workers: Callable[..., Worker]) -> None:
    def away() -> ClusterFacts:
        raise RetriableError("b:1 does not answer")

    running = workers()
    herder: Any = running.herder
    herder._kafka_cluster = SimpleNamespace(facts=away)
    answer = running.client.put("/connector-plugins/FileStreamSink/config/lint", json={**SINK, "name": "c"})
    assert [(one["rule"], one["message"]) for one in answer.json()["findings"]] == [
        ("cluster-not-asked", "The Kafka cluster was not asked: b:1 does not answer")
    ]


def test_others_are_told_of_only_to_who_may_see_their_configs(tmp_path: Path) -> None:
    file = rights_file(tmp_path, ("user:anna", "a*", "edit"), ("user:anna", "b", "view"))
    found = [Finding("shared-group", Severity.ERROR, None, "m", "a")]
    info = ConnectorInfo("a", {"name": "a"}, [TaskId("a", 0), TaskId("a", 1)], "sink")
    herder = scripted({"connectors": ["a", "a2", "b"], "connector_info": info, "lint": found})
    with serving(herder, {"rest.rights.file": file}, around=Named) as client:
        of_one = as_user(client, "anna", "GET", "/connectors/a/lint")
        as_user(client, "anna", "PUT", "/connector-plugins/Known/config/lint", json={"x": None})
    assert of_one.json() == {"findings": [{"rule": "shared-group", "severity": "error", "message": "m", "advice": "a"}]}
    assert [call for call in herder.asked if call[0] == "lint"] == [
        ("lint", {"name": "a"}, ["a", "a2"], 2),
        ("lint", {"x": None}, ["a", "a2"]),
    ]


def test_a_worker_that_starts_does_not_answer() -> None:
    herder = scripted({"check_known": Starting("it starts")})
    with serving(herder) as client:
        assert refused(client.get("/connectors/a/lint"), 503)
        assert refused(client.put("/connector-plugins/Known/config/lint", json={}), 503)


def test_other_connectors_are_compared(workers: Callable[..., Worker]) -> None:
    running = workers()
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "orders-dlq"}
    config = {"name": "first", "connector.class": "FileStreamSink", "topics": "in", "file": "out", **letters}
    running.client.put("/connectors/first/config", json=config).raise_for_status()
    answer = running.client.put("/connector-plugins/FileStreamSink/config/lint", json={**SINK, "name": "c"})
    assert ("dead-letters-read", "topics.regex") in findings(answer)
    of_first = findings(running.client.get("/connectors/first/lint"))
    assert ("replication-over-brokers", "errors.deadletterqueue.topic.replication.factor") in of_first
    running.client.delete("/connectors/first")
