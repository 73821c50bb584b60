"""Workers at a broker with TLS, logins and ACLs, on which each user may do what docs/security.md says, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.guarded_broker import GROUP, OPERATIONS, TOPIC, Grant, Guarded, guarded_broker
from tests.integration.mixed_cluster import Pipe, check_well, java_worker, move, our_worker, wait_shared
from tests.integration.secured import SCRAM_512
from tests.integration.worker_process import SINK, SOURCE, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOKEN = "OAUTHBEARER"
READ, WRITE, CREATE = OPERATIONS.READ, OPERATIONS.WRITE, OPERATIONS.CREATE


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded"), ["worker", "source", "sink"]) as guarded:
        yield guarded


def of_worker(cluster: str) -> list[Grant]:
    """What a worker of the cluster needs for itself: it creates its internal topics, too."""
    topics = [f"{cluster}-{kind}" for kind in ("configs", "offsets", "status")]
    return [Grant("worker", TOPIC, topic, [READ, WRITE, CREATE]) for topic in topics] + [
        Grant("worker", GROUP, cluster, [READ])
    ]


def of_source(topic: str) -> list[Grant]:
    return [Grant("source", TOPIC, topic, [WRITE, CREATE])]


def of_sink(topic: str, connector: str) -> list[Grant]:
    return [Grant("sink", TOPIC, topic, [READ]), Grant("sink", GROUP, f"connect-{connector}", [READ])]


class Lines:
    """A file, a topic and a file, and the connectors between them, each with its own user."""

    def __init__(self, guarded: Guarded, worker: ClusterWorker, folder: Path) -> None:
        self._worker, self._read, self._written = worker, folder / "in.txt", folder / "out.txt"
        self._read.touch()
        source = {
            "connector.class": SOURCE,
            "file": str(self._read),
            "topic": "guarded.lines",
            **{f"topic.creation.default.{key}": "1" for key in ("replication.factor", "partitions")},
            **guarded.login("source", prefix="producer.override."),
            **guarded.login("source", prefix="admin.override."),
        }
        sink = {
            "connector.class": SINK,
            "file": str(self._written),
            "topics": "guarded.lines",
            **guarded.login("sink", TOKEN, "consumer.override."),
            **guarded.login("sink", TOKEN, "admin.override."),
        }
        worker.create("guarded.in", **source)
        worker.create("guarded.out", **sink)

    def move(self, line: str) -> None:
        """The line comes out."""
        self.add(line)
        eventually(lambda: self._written.exists() and f"{line}\n" in self._written.read_text(), 60, self._worker.log)

    def add(self, line: str) -> None:
        with self._read.open("a") as file:
            file.write(f"{line}\n")


def test_each_user_needs_what_is_documented(guarded: Guarded, tmp_path: Path) -> None:
    cluster = new_cluster()
    (write, *_), (read, members) = of_source("guarded.lines"), of_sink("guarded.lines", "guarded.out")
    member = Grant("worker", GROUP, cluster, [READ])
    guarded.grant(*of_worker(cluster), write, read, members)
    with ClusterWorker(tmp_path, guarded.servers, cluster, guarded.login("worker", TOKEN)) as worker:
        worker.wait_ready()
        lines = Lines(guarded, worker, tmp_path)
        lines.move("all is granted")
        for connector, missing, said in (
            ("guarded.out", read, "grant its user the ACL Read on Topic 'guarded.lines'"),
            ("guarded.out", members, "grant its user the ACL Read on Group 'connect-guarded.out'"),
            ("guarded.in", write._replace(operations=[WRITE]), "grant its user the ACL Write on Topic 'guarded.lines'"),
        ):
            guarded.revoke(missing)
            lines.add(f"without {missing.operations[0].name} of {missing.name}")
            worker.wait_states(connector, "FAILED")
            assert said in worker.trace(connector)
            guarded.grant(missing)
            worker.request("POST", f"/connectors/{connector}/tasks/0/restart")
            lines.move(f"{missing.name} is granted again")
        guarded.revoke(member)
        told = f"cannot be joined: grant this worker's user the ACL Read on Group '{cluster}'"
        eventually(lambda: told in worker.log(), 60, worker.log)
        guarded.grant(member)
        eventually(lambda: worker.log().count("has joined") > 1 or worker.get("/connectors"), 60, worker.log)
        lines.move("the worker is back")
        assert guarded.tokens.fetched
        log = worker.log()
    assert "-secret" not in log


def test_a_java_worker_and_ours_are_one_cluster(guarded: Guarded, tmp_path: Path) -> None:
    cluster = new_cluster()
    settings = {
        key: value
        for prefix in ("", "producer.", "consumer.", "admin.")
        for key, value in guarded.login("worker", SCRAM_512, prefix).items()
    }
    pipe = Pipe("mixed", guarded.broker.bootstrap_servers, tmp_path, tasks=2)
    topic, group = pipe.topic.name, f"connect-{pipe.sink}"
    guarded.grant(
        *of_worker(cluster), Grant("worker", TOPIC, topic, [READ, WRITE]), Grant("worker", GROUP, group, [READ])
    )
    with (
        java_worker(tmp_path / "java", guarded.servers, cluster, settings) as java,
        our_worker(tmp_path / "ours", guarded.servers, cluster, settings) as ours,
    ):
        java.wait_ready()
        ours.wait_ready()
        pipe.create(ours)
        wait_shared(pipe.items, [java, ours])
        move([pipe], "over TLS and SCRAM")
        check_well(java)
