"""Workers of a cluster as processes, driven through REST alone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.worker_process import SINK, SOURCE, Topic, envelope, eventually, lines_of


@pytest.fixture(scope="module")
def pair(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterWorker]]:
    """Two workers of one cluster; a test may leave them down."""
    cluster, folder, servers = new_cluster(), tmp_path_factory.mktemp("pair"), broker_process.bootstrap_servers
    history = {"config.history.topic": f"{cluster}-history", "config.history.replication.factor": "1"}
    with (
        ClusterWorker(folder / "w1", servers, cluster, history) as first,
        ClusterWorker(folder / "w2", servers, cluster, history) as second,
    ):
        yield [first, second]


@pytest.fixture
def workers(pair: list[ClusterWorker]) -> list[ClusterWorker]:
    """Two workers of one cluster, both ready, without connectors."""
    for worker in pair:
        if worker.process.poll() is not None:
            worker.start()
    for worker in pair:
        worker.wait_ready()
    for name in pair[0].get("/connectors"):
        pair[0].request("DELETE", f"/connectors/{name}")
    return pair


def test_a_name_too_long_for_the_group_stops_nobody_and_can_be_deleted(
    workers: list[ClusterWorker], broker: str, tmp_path: Path
) -> None:
    first, second = workers
    topic = Topic(broker, "lines")
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    long = "x" * 40_000
    assert first.http.post("/connectors", json={"name": long, "config": {"connector.class": SOURCE}}).status_code == 400
    record = {"properties": {"connector.class": SOURCE, "file": str(source), "topic": topic.name, "name": long}}
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(f"{first.cluster}-configs", json.dumps(record), f"connector-{long}", partition=0)
    assert producer.flush(60) == 0

    eventually(lambda: long in second.get("/connectors"), 60)
    first.create("short", connector_class=SOURCE, file=str(source), topic=topic.name, tasks_max="1")
    wait_balanced(first, among=1, items=2)
    for worker in workers:
        assert eventually(lambda w=worker: w.http.delete(f"/connectors/{long}").status_code in (204, 404), 60)
    eventually(lambda: second.get("/connectors") == ["short"], 60)


def test_a_cluster_moves_records_and_survives_the_loss_of_a_worker(
    workers: list[ClusterWorker], broker: str, tmp_path: Path
) -> None:
    first, second = workers
    topic = Topic(broker, "lines")
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\n")
    first.create("src", connector_class=SOURCE, file=str(source), topic=topic.name, tasks_max="1")
    second.create("snk", connector_class=SINK, file=str(sink), topics=topic.name, tasks_max="1")
    wait_balanced(first, among=2, items=4)
    eventually(lambda: lines_of(sink) == [b"one", b"two"], 60)
    assert topic.values() == [envelope("one"), envelope("two")]
    assert sorted(second.get("/connectors")) == ["snk", "src"]
    for worker in workers:
        eventually(lambda w=worker: _plotted(w) == (["snk", "src"], {}), 60)
    for worker in workers:  # one worker has one of the connectors, the other one is asked for its lines
        for name in ("src", "snk"):
            eventually(lambda w=worker, n=name: _has_lines_of_task(w, n), 60, lambda w=worker, n=name: _logged(w, n))

    second.kill_family()
    with source.open("a") as file:
        file.write("three\n")
    wait_balanced(first, among=1, items=4)
    eventually(lambda: lines_of(sink)[-1:] == [b"three"], 90)
    assert set(lines_of(sink)) == {b"one", b"two", b"three"}
    assert topic.values() == [envelope("one"), envelope("two"), envelope("three")]

    second.start()
    second.wait_ready()
    wait_balanced(second, among=2, items=4)
    assert second.offsets("src")[0]["offset"] == {"position": 14, "line": 3}

    assert first.stop() == 0
    wait_balanced(second, among=1, items=4)
    second.request("DELETE", "/connectors/src")
    second.request("DELETE", "/connectors/snk")
    eventually(lambda: second.get("/connectors") == [], 60)

    # Connectors of the config topic that cannot run here.
    wrong = {
        "lost": {"connector.class": "org.example.Gone"},
        "wide": {"connector.class": SINK, "tasks.max": "20000000"},
    }
    producer = Producer({"bootstrap.servers": broker})
    for name, config in wrong.items():
        record = {"properties": {"topics": topic.name, **config, "name": name}}
        producer.produce(f"{second.cluster}-configs", json.dumps(record), f"connector-{name}", partition=0)
    assert producer.flush(60) == 0
    eventually(lambda: _failed(second) == ["lost", "wide"], 60)
    first.start()
    assert first.process.wait(90) == 3, "it joins no worker that may run them"
    assert "lost" in first.log()
    assert second.stop() == 0
    second.start()
    assert sorted(_answer(second, "/connectors").json()) == ["lost", "wide"], "it says nothing before it knows"
    second.wait_ready()
    eventually(lambda: _failed(second) == ["lost", "wide"], 60)
    assert "tasks.max.limit" in second.get("/connectors/wide/status")["connector"]["trace"]
    for name in wrong:
        assert second.http.delete(f"/connectors/{name}").status_code == 204
    eventually(lambda: second.get("/connectors") == [], 60)


def _has_lines_of_task(worker: ClusterWorker, name: str) -> bool:
    found = worker.get(f"/connectors/{name}/logs")
    return found["skipped"] == {} and any(f"[{name}|task-0]" in line["text"] for line in found["lines"])


def _logged(worker: ClusterWorker, name: str) -> str:
    return json.dumps(worker.get(f"/connectors/{name}/logs"), indent=1)


def _plotted(worker: ClusterWorker) -> tuple[list[str], dict[str, str]]:
    """The connectors with figures of all workers, and the workers that did not answer."""
    found = worker.get("/series")
    return sorted(found["connectors"]), found["skipped"]


def test_both_workers_show_each_change_once_and_who_asked_for_it(
    workers: list[ClusterWorker], broker: str, tmp_path: Path
) -> None:
    first, second = workers
    topic = Topic(broker, "lines")
    source = tmp_path / "in.txt"
    source.write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(source), "topic": topic.name, "a.password": "s3cret-1"}
    path = "/connectors/kept"
    asked = ("ANONYMOUS", "127.0.0.1")

    for worker, password in ((first, "s3cret-1"), (second, "s3cret-2")):
        worker.request("PUT", f"{path}/config", {**config, "a.password": password})
    eventually(lambda: first.offsets("kept"), 60)
    second.request("PUT", f"{path}/stop")
    eventually(lambda: first.http.delete(f"{path}/offsets").status_code == 200, 60)
    record = {"properties": {**config, "name": "kept", "tasks.max": "2"}}  # as a Java worker writes it
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(f"{first.cluster}-configs", json.dumps(record), "connector-kept", partition=0)
    assert producer.flush(60) == 0
    eventually(lambda: len(second.get(f"{path}/history")) == 5, 60)
    first.request("DELETE", path)

    expected = [("config", *asked), ("config", *asked), ("state", *asked), ("offsets", *asked)]
    expected += [("config", None, "another worker"), ("delete", *asked)]
    for worker in workers:
        eventually(lambda w=worker: _changes(w, path) == expected, 60, lambda w=worker: str(_changes(w, path)))
    shown = first.get(f"{path}/history")
    assert shown == second.get(f"{path}/history")
    assert "s3cret" not in json.dumps(shown)
    (moved,) = shown[2]["differences"].values()
    assert moved["after"] is None
    assert moved["before"]["line"] == 1

    for worker, revision, password in (
        (second, shown[5]["revision"], "s3cret-1"),
        (first, shown[4]["revision"], "s3cret-2"),
    ):
        eventually(lambda w=worker, r=revision: _rolled_back(w, path, r), 60)
        assert first.get(f"{path}/config")["a.password"] == password
    expected += [("config", *asked), ("config", *asked)]
    eventually(lambda: _changes(second, path) == expected, 60, lambda: str(_changes(second, path)))


def _changes(worker: ClusterWorker, path: str) -> list[tuple[str, str | None, str]]:
    """A connector's changes, the oldest first: what, by whom, from where."""
    return [(one["change"], one["by"], one["from"]) for one in reversed(worker.get(f"{path}/history"))]


def _rolled_back(worker: ClusterWorker, path: str, revision: int) -> bool:
    answer = worker.http.post(f"{path}/rollback", json={"revision": revision})
    assert answer.status_code in (200, 201, 409), answer.text
    return answer.is_success


def _failed(worker: ClusterWorker) -> list[str]:
    """The connectors that are FAILED."""
    shown = worker.get("/connectors?expand=status")
    return sorted(name for name, one in shown.items() if one["status"]["connector"]["state"] == "FAILED")


def _answer(worker: ClusterWorker, path: str) -> httpx.Response:
    """The first answer other than 503."""

    def asked() -> httpx.Response | None:
        with contextlib.suppress(httpx.TransportError):
            if (answer := worker.http.get(path)).status_code != 503:
                return answer
        return None

    answer: httpx.Response = eventually(asked, 60)
    return answer
