"""Workers of a cluster as processes, driven through REST alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.worker_process import SINK, SOURCE, Topic, envelope, eventually, lines_of


@pytest.fixture
def workers(broker: str, tmp_path: Path) -> Iterator[list[ClusterWorker]]:
    """Two workers of one cluster, both ready."""
    cluster = new_cluster()
    with (
        ClusterWorker(tmp_path / "w1", broker, cluster) as first,
        ClusterWorker(tmp_path / "w2", broker, cluster) as second,
    ):
        yield [first.wait_ready(), second.wait_ready()]


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
    eventually(lambda: second.get("/connectors") == [], 30)
