"""Answers of a MirrorMaker process, and the parts of the API that it has not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from headrace.rest.mirror import app
from headrace.rest.server import HttpServer
from headrace.worker.errors import Elsewhere, Forbidden
from headrace.worker.herder.flows import Flows, FlowView
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.herder.rest_paths import flow_path
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import Health
from headrace.worker.storage.signing import SessionKey
from headrace.worker.tasks.metrics import TasksMetrics
from tests.unit.rest.scripted import FREE, scripted
from tests.unit.rest.test_forwarding import Recorder

HEALTHY = Health("healthy", "fine")


def view(herder: Any, flow: str, waits_for: str | None = None) -> FlowView:
    metrics = WorkerMetrics(herder, "w", TasksMetrics(), StartupCounter(), labels={"flow": flow})
    return FlowView(SimpleNamespace(herder=herder, metrics=metrics), waits_for)


@contextmanager
def serving(views: Mapping[tuple[str, str], FlowView], internal: bool = True) -> Iterator[httpx.Client]:
    flows = Flows(ProcessMetrics())
    for (source, target), one in views.items():
        flows.show(source, target, one)
    server = HttpServer([FREE])
    with RestClient(answer_seconds=5) as client:
        server.start(app(flows, {}, client if internal else None))
        try:
            with httpx.Client(base_url=str(server.bound[0]), timeout=60) as http:
                yield http
        finally:
            server.stop()


SIGNED = {"X-Connect-Authorization": "c2ln", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}


def two(a_b: Any, b_a: Any) -> dict[tuple[str, str], FlowView]:
    return {("A", "B"): view(a_b, "A->B"), ("B", "A"): view(b_a, "B->A")}


def test_requests_of_other_processes_reach_the_herder_of_their_flow() -> None:
    a_b, odd = scripted(), scripted()
    views = {("A", "B"): view(a_b, "A->B"), ("a/b c", "B"): view(odd, "a/b c->B")}
    with serving(views) as http:
        posted = http.post("/A/B/connectors/MirrorSourceConnector/tasks", json=[{"x": "1"}], headers=SIGNED)
        fenced = http.put(f"{flow_path('a/b c', 'B')}/connectors/n%2F1/fence")
    assert (posted.status_code, fenced.status_code) == (204, 204)
    ((method, name, configs, signed),) = a_b.asked
    assert (method, name, configs) == ("put_task_configs", "MirrorSourceConnector", [{"x": "1"}])
    assert signed.body == b'[{"x":"1"}]'
    assert odd.asked[0][:2] == ("fence_zombies", "n/1")


def test_a_flow_that_does_not_run_here_is_not_found_in_apaches_words() -> None:
    with serving(two(scripted(), scripted())) as http:
        answer = http.post("/A/C/connectors/x/tasks", json=[])
    message = "No replication flow found for source 'A' and target 'C'"
    assert (answer.status_code, answer.json()) == (404, {"error_code": 404, "message": message})


def test_a_refusal_keeps_its_status() -> None:
    with serving(two(scripted({"put_task_configs": Forbidden("who is that")}), scripted())) as http:
        assert http.post("/A/B/connectors/x/tasks", json=[]).status_code == 403


def test_a_request_goes_on_to_the_process_that_leads_the_flow() -> None:
    leader = Recorder()
    leader.status, leader.body, leader.headers = 204, b"", []
    try:
        with serving(two(scripted({"put_task_configs": Elsewhere(leader.url)}), scripted())) as http:
            assert http.post("/A/B/connectors/x/tasks", json=[]).status_code == 204
    finally:
        leader.server.stop()
    assert leader.seen[0]["raw_path"] == b"/A/B/connectors/x/tasks"


def test_task_configs_are_posted_below_the_path_of_their_flow() -> None:
    leader = Recorder()
    leader.status, leader.body, leader.headers = 204, b"", []
    try:
        with RestClient(under=flow_path("us east", "B")) as client:
            client.post_tasks(leader.url, "c", [{"x": "1"}], SessionKey.generate("HmacSHA256", None))
    finally:
        leader.server.stop()
    assert leader.seen[0]["raw_path"] == b"/us%20east/B/connectors/c/tasks"
    assert b"x-connect-authorization" in leader.seen[0]["headers"]


@pytest.mark.parametrize("path", ["/", "/connectors", "/connector-plugins", "/admin/loggers", "/A/B/connectors"])
def test_it_has_no_other_part_of_the_api(path: str) -> None:
    with serving(two(scripted(), scripted())) as http:
        assert http.get(path).status_code in (404, 405)


def test_without_internal_rest_only_health_and_metrics_answer() -> None:
    with serving(two(scripted({"connectors": [], "health": HEALTHY}), scripted({"health": HEALTHY})), False) as http:
        assert http.post("/A/B/connectors/x/tasks", json=[]).status_code == 404
        assert http.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("a_b", "b_a", "status", "word"),
    [
        (HEALTHY, HEALTHY, 200, "healthy"),
        (HEALTHY, Health("starting", "waits"), 503, "starting"),
        (Health("unhealthy", "hangs"), Health("starting", "waits"), 500, "unhealthy"),
    ],
)
def test_health_is_that_of_the_worst_flow(a_b: Health, b_a: Health, status: int, word: str) -> None:
    with serving(two(scripted({"health": a_b}), scripted({"health": b_a}))) as http:
        answer = http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (status, word)
    assert answer.json()["flows"]["B->A"] == {"status": b_a.status, "message": b_a.message}


def test_a_flow_that_has_not_begun_says_why() -> None:
    herder = scripted({"health": HEALTHY})
    with serving({("A", "B"): view(herder, "A->B", "It waits for Kafka cluster B.")}) as http:
        answer = http.get("/health")
    assert answer.status_code == 503
    assert "waits for Kafka cluster B" in answer.json()["message"]


def test_metrics_of_all_flows_are_one_page_in_which_each_sample_names_its_flow() -> None:
    with serving(two(scripted({"connectors": []}), scripted({"connectors": []}))) as http:
        page = http.get("/metrics").text
    assert page.count("# TYPE kafka_connect_worker_task_count gauge") == 1
    for flow in ("A->B", "B->A"):
        assert f'kafka_connect_worker_task_count{{flow="{flow}"}} 0\n' in page
