"""Scenarios of Kafka's own tests on two distributed workers, in our words, with the connectors of a jar.

Workers are started by Apache's script names with the log4j file of those tests, and are waited for by lines of the log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.cluster_worker import new_cluster
from tests.integration.java_plugins import of_jars
from tests.integration.kafkatest_worker import STARTS, TOOLS, KafkatestWorker
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually, lines_of

pytestmark = pytest.mark.long

WITHIN_S = 120


@pytest.fixture(scope="module")
def workers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[list[KafkatestWorker]]:
    """Two workers that have joined one group."""
    folder = tmp_path_factory.mktemp("kafkatest")
    process = request.getfixturevalue("broker_process")
    if not process.is_running:
        process.start()
    settings = {"plugin.path": str(of_jars(folder, "kafka-test-plugins")), "java.host.heap": "200m"}
    cluster, bootstrap = new_cluster(), process.bootstrap_servers
    with (
        KafkatestWorker(folder / "a", bootstrap, cluster, settings) as a,
        KafkatestWorker(folder / "b", bootstrap, cluster, settings) as b,
    ):
        for one in (a, b):
            eventually(lambda w=one: "Joined group" in w.log(), WITHIN_S, one._last_words)
            one.wait_ready()
        yield [a, b]


@pytest.fixture(autouse=True)
def no_connectors_stay(workers: list[KafkatestWorker]) -> Iterator[None]:
    yield
    for name in workers[0].get("/connectors"):
        workers[0].request("DELETE", f"/connectors/{name}")
    eventually(lambda: workers[0].get("/connectors") == [], WITHIN_S)


def shown(worker: KafkatestWorker, name: str) -> tuple[str, set[str]]:
    """The state of the connector, and those of its tasks."""
    status = worker._try_get(f"/connectors/{name}/status")
    tasks = {task["state"] for task in status.get("tasks", ())}
    return status.get("connector", {}).get("state", ""), tasks


def wait_shown(workers: list[KafkatestWorker], name: str, connector: str, *tasks: str) -> None:
    """All workers show these states."""
    for one in workers:
        eventually(
            lambda w=one: shown(w, name) == (connector, set(tasks)),
            WITHIN_S,
            lambda w=one: f"{shown(w, name)}; {w.log()[-3000:]}",
            every_s=0.05,
        )


def test_the_log_says_how_far_a_start_got(workers: list[KafkatestWorker]) -> None:
    for worker in workers:
        log = worker.log()
        places = [log.index(line) for line in ("Kafka version", "Joined group", STARTS)]
        assert places == sorted(places)
        assert all("name" in json.loads(line) for line in worker.stdout().splitlines()), "only what plugins print"


@pytest.mark.parametrize("how", ["/restart", "/restart?includeTasks=false&onlyFailed=true"])
def test_a_failed_connector_is_restarted(workers: list[KafkatestWorker], how: str) -> None:
    config = {"connector_class": f"{TOOLS}.MockSinkConnector", "topics": "none", "mock_mode": "connector-failure"}
    workers[0].request("POST", "/connectors", {"name": "m", "config": mock(**config)})
    wait_shown(workers, "m", "FAILED", "RUNNING")
    workers[1].request("POST", f"/connectors/m{how}")
    wait_shown(workers, "m", "RUNNING", "RUNNING")


@pytest.mark.parametrize("how", ["/tasks/0/restart", "/restart?includeTasks=true&onlyFailed=true"])
def test_a_failed_task_is_restarted(workers: list[KafkatestWorker], how: str) -> None:
    config = {"connector_class": f"{TOOLS}.MockSourceConnector", "mock_mode": "task-failure"}
    workers[0].request("POST", "/connectors", {"name": "m", "config": mock(**config)})
    wait_shown(workers, "m", "RUNNING", "FAILED")
    workers[1].request("POST", f"/connectors/m{how}")
    wait_shown(workers, "m", "RUNNING", "RUNNING")


def mock(connector_class: str, **given: str) -> dict[str, str]:
    return {"connector.class": connector_class, "tasks.max": "1", "delay_ms": "4000", **given}


def source_of(topic: Topic, tasks: int) -> dict[str, str]:
    """The config of a source whose records have their task and their number."""
    return {
        "connector.class": f"{TOOLS}.VerifiableSourceConnector",
        "topic": topic.name,
        "throughput": "50",
        "tasks.max": str(tasks),
        "value.converter.schemas.enable": "false",
    }


def test_what_is_paused_stands_still_and_goes_on(workers: list[KafkatestWorker], broker: str) -> None:
    topic = Topic(broker, "paused")
    sink = {"connector.class": f"{TOOLS}.VerifiableSinkConnector", "topics": topic.name, "tasks.max": "1"}
    workers[0].request("PUT", "/connectors/paused-in/config", source_of(topic, 1))
    workers[0].request("PUT", "/connectors/paused-out/config", {**sink, "value.converter.schemas.enable": "false"})

    def received() -> int:
        return sum(worker.stdout().count('"sinkTask":') for worker in workers)

    eventually(received, WITHIN_S)
    for name, count in (("paused-out", received), ("paused-in", topic.end)):
        wait_shown(workers, name, "RUNNING", "RUNNING")
        workers[0].request("PUT", f"/connectors/{name}/pause")
        wait_shown(workers, name, "PAUSED", "PAUSED")
        before = eventually(lambda c=count: standing(c), WITHIN_S)
        workers[1].request("PUT", f"/connectors/{name}/resume")
        wait_shown(workers, name, "RUNNING", "RUNNING")
        eventually(lambda c=count, b=before: c() > b, WITHIN_S)


def standing(count: Callable[[], int]) -> int | None:
    """The count, if it does not change in the time in which fifty records would come."""
    before = count()
    time.sleep(1)
    return before if count() == before else None


def test_schemas_that_change(workers: list[KafkatestWorker], broker: str) -> None:
    topic = Topic(broker, "schemas")
    config = {"connector.class": f"{TOOLS}.SchemaSourceConnector", "topic": topic.name, "multiple.schema": "true"}
    config |= {"num.messages": "10", "throughput": "100", "tasks.max": "1"}
    workers[0].request("PUT", "/connectors/schemas/config", config)
    eventually(lambda: topic.end() == 10, WITHIN_S)
    values = [json.loads(one) for one in topic.values()]
    assert [one["payload"]["seqno"] for one in values] == list(range(10))
    assert [one["schema"]["version"] for one in values] == [1, 2] * 5


def test_transformations(workers: list[KafkatestWorker], broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "transformed")
    (tmp_path / "in").write_text("foo\nbar\n")
    chain = {
        "transforms": "hoist,topic",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.topic.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.topic.topic.field": "from",
    }
    config = {"connector.class": SOURCE, "topic": topic.name, "file": str(tmp_path / "in"), "tasks.max": "1", **chain}
    workers[0].request("PUT", "/connectors/transformed/config", config)
    eventually(lambda: topic.end() == 2, WITHIN_S)
    fields = [
        {"type": "string", "optional": False, "field": "line"},
        {"type": "string", "optional": True, "field": "from"},
    ]
    schema = {"type": "struct", "fields": fields, "optional": False}
    wanted = [{"schema": schema, "payload": {"line": line, "from": topic.name}} for line in ("foo", "bar")]
    assert [json.loads(one) for one in topic.values()] == wanted


def test_the_rest_api(workers: list[KafkatestWorker], broker: str, tmp_path: Path) -> None:
    topic = Topic(broker, "rest")
    (tmp_path / "in").write_text("foo\n")
    source = {"name": "in", "connector.class": SOURCE, "tasks.max": "1", "file": str(tmp_path / "in")}
    source |= {"topic": topic.name}
    sink = {"name": "out", "connector.class": SINK, "tasks.max": "1", "file": str(tmp_path / "out")}
    sink |= {"topics": topic.name}
    a, b = workers
    assert a.get("/connectors") == []
    assert {SOURCE, SINK} <= {
        one["class"].rpartition(".")[2].removesuffix("Connector") for one in b.get("/connector-plugins")
    }
    for config in (source, sink):
        judged = a.request("PUT", f"/connector-plugins/{config['connector.class']}/config/validate", config).json()
        assert judged["error_count"] == 0
        assert set(config) <= {one["definition"]["name"] for one in judged["configs"]}
        a.request("POST", "/connectors", {"name": config["name"], "config": config})
        again = b.http.post("/connectors", json={"name": config["name"], "config": config})
        assert again.status_code == 409
    eventually(lambda: lines_of(tmp_path / "out") == [b"foo"], WITHIN_S)
    for config, kind in ((source, "source"), (sink, "sink")):
        name = config["name"]
        task = {"connector": name, "task": 0}
        info = {"name": name, "config": config, "tasks": [task], "type": kind}
        assert b.get(f"/connectors/{name}") == info
        assert b.get(f"/connectors/{name}/config") == config
        (found,) = b.get(f"/connectors/{name}/tasks")
        assert found["id"] == task
        assert found["config"].pop("task.class").endswith(f"FileStream{kind.capitalize()}Task")
        assert config.items() <= found["config"].items()
    (tmp_path / "more").write_text("razz\nma\n")
    b.request("PUT", "/connectors/in/config", {**source, "file": str(tmp_path / "more")})
    eventually(lambda: lines_of(tmp_path / "out") == [b"foo", b"razz", b"ma"], WITHIN_S)
    a.request("DELETE", "/connectors/in")
    eventually(lambda: b.get("/connectors") == ["out"], WITHIN_S)


def test_log_levels_of_one_worker_and_of_all(workers: list[KafkatestWorker]) -> None:
    a, b = workers
    name = "org.apache.kafka.connect.runtime"
    assert a.get("/admin/loggers")["root"]["last_modified"] is None
    assert name in a.request("PUT", f"/admin/loggers/{name}", {"level": "DEBUG"}).json()
    assert a.get(f"/admin/loggers/{name}")["level"] == "DEBUG"
    assert b.http.get(f"/admin/loggers/{name}").json().get("level") != "DEBUG"
    assert a.request("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "ERROR"}).status_code == 204
    for worker in workers:
        eventually(lambda w=worker: w._try_get(f"/admin/loggers/{name}").get("level") == "ERROR", WITHIN_S)
    a.request("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "INFO"})
