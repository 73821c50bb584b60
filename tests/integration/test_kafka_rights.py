"""Workers at a broker with TLS, logins and ACLs, where each user may do what docs/security-kafka.md says, no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.copied_topics import numbered, write
from tests.integration.guarded_broker import GROUP, OPERATIONS, TOPIC, Grant, Guarded, guarded_broker
from tests.integration.mirror_process import MirrorProcess, two_clusters
from tests.integration.mirror_traffic import commit, values, wait_checkpoints
from tests.integration.mixed_cluster import Pipe, check_well, java_worker, move, our_worker, wait_shared
from tests.integration.secured import SCRAM_512
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually
from tests.unit.converters.registry.scripted_registry import identity

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

TOKEN = "OAUTHBEARER"
READ, WRITE, CREATE = OPERATIONS.READ, OPERATIONS.WRITE, OPERATIONS.CREATE


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded"), ["worker", "source", "sink", "from", "into"]) as guarded:
        yield guarded


def of_worker(cluster: str) -> list[Grant]:
    """Grants that a worker of the cluster needs for itself: it creates its internal topics, too."""
    topics = [f"{cluster}-{kind}" for kind in ("configs", "offsets", "status")]
    return [Grant("worker", TOPIC, topic, [READ, WRITE, CREATE]) for topic in topics] + [
        Grant("worker", GROUP, cluster, [READ])
    ]


def of_source(topic: str) -> list[Grant]:
    return [Grant("source", TOPIC, topic, [WRITE, CREATE])]


def of_sink(topic: str, connector: str) -> list[Grant]:
    return [Grant("sink", TOPIC, topic, [READ]), Grant("sink", GROUP, f"connect-{connector}", [READ])]


@pytest.fixture(scope="module")
def worker(guarded: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    """A worker that has what it needs, logs in by tokens and reads variables from files."""
    cluster, folder = new_cluster(), tmp_path_factory.mktemp("worker")
    guarded.grant(*of_worker(cluster))
    settings = {
        **guarded.login("worker", TOKEN),
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "task.restart.backoff.ms": "200",
        "task.restart.backoff.max.ms": "1000",
    }
    with ClusterWorker(folder, guarded.servers, cluster, settings) as worker:
        yield worker.wait_ready()


class Lines:
    """A file, a topic and a file, and the connectors between them, each with its own user."""

    def __init__(self, guarded: Guarded, worker: ClusterWorker, folder: Path, name: str) -> None:
        self._worker, self._read, self._written = worker, folder / "in.txt", folder / "out.txt"
        self.topic, self.source, self.sink = f"{name}.lines", f"{name}.in", f"{name}.out"
        self._read.touch()
        self.of_source = {
            "connector.class": SOURCE,
            "file": str(self._read),
            "topic": self.topic,
            **{f"topic.creation.default.{key}": "1" for key in ("replication.factor", "partitions")},
            **guarded.login("source", prefix="producer.override."),
            **guarded.login("source", prefix="admin.override."),
        }
        self.of_sink = {
            "connector.class": SINK,
            "file": str(self._written),
            "topics": self.topic,
            **guarded.login("sink", TOKEN, "consumer.override."),
            **guarded.login("sink", TOKEN, "admin.override."),
        }

    def create(self) -> None:
        self._worker.create(self.source, **self.of_source)
        self._worker.create(self.sink, **self.of_sink)

    def move(self, line: str) -> None:
        """The line comes out."""
        self.add(line)
        eventually(lambda: self._written.exists() and f"{line}\n" in self._written.read_text(), 60, self._worker.log)

    def add(self, line: str) -> None:
        with self._read.open("a") as file:
            file.write(f"{line}\n")


def test_each_user_needs_what_is_documented(guarded: Guarded, worker: ClusterWorker, tmp_path: Path) -> None:
    lines = Lines(guarded, worker, tmp_path, "guarded")
    (write, *_), (read, members) = of_source(lines.topic), of_sink(lines.topic, lines.sink)
    member = Grant("worker", GROUP, worker.cluster, [READ])
    guarded.grant(write, read, members)
    lines.create()
    lines.move("all is granted")
    for connector, missing, said in (
        (lines.sink, read, f"grant its user the ACL Read on Topic '{lines.topic}'"),
        (lines.sink, members, f"grant its user the ACL Read on Group 'connect-{lines.sink}'"),
        (lines.source, write._replace(operations=[WRITE]), f"grant its user the ACL Write on Topic '{lines.topic}'"),
    ):
        guarded.revoke(missing)
        lines.add(f"without {missing.name}")
        worker.wait_states(connector, "FAILED")
        assert said in worker.trace(connector)
        guarded.grant(missing)
        worker.request("POST", f"/connectors/{connector}/tasks/0/restart")
        lines.move(f"{missing.name} is granted again")
    guarded.revoke(member)
    told = f"cannot be joined: grant this worker's user the ACL Read on Group '{worker.cluster}'"
    eventually(lambda: told in worker.log(), 60, worker.log)
    guarded.grant(member)
    lines.move("the worker is back")
    assert guarded.tokens.fetched
    assert "-secret" not in worker.log()


def test_a_task_whose_login_is_refused_starts_anew(guarded: Guarded, worker: ClusterWorker, tmp_path: Path) -> None:
    lines, secret, store = Lines(guarded, worker, tmp_path, "rotated"), tmp_path / "secret", tmp_path / "trust.pem"
    guarded.grant(*of_source(lines.topic), *of_sink(lines.topic, lines.sink))
    secret.write_text("secret=old\n")
    for kind in ("producer", "admin"):
        key = f"{kind}.override.sasl.jaas.config"
        lines.of_source[key] = lines.of_source[key].replace("source-secret", f"${{file:{secret}:secret}}")
    store.write_text(identity("other").certificate_pem)
    for kind in ("consumer", "admin"):
        lines.of_sink = {key: value for key, value in lines.of_sink.items() if f"{kind}.override.ssl." not in key}
        lines.of_sink[f"{kind}.override.ssl.truststore.location"] = str(store)
        lines.of_sink[f"{kind}.override.ssl.truststore.type"] = "PEM"
    lines.create()
    lines.add("first")
    # A task that fails so is soon restarted: its status may not be seen.
    eventually(lambda: "LoginRefused: Kafka refuses the login" in worker.log(), 60, worker.log)
    secret.write_text("secret=source-secret\n")
    worker.wait_states(lines.source, "RUNNING")
    eventually(lambda: "CertificateRefused: TLS cannot begin" in worker.log(), 60, worker.log)
    assert "-secret" not in worker.log()
    store.write_text(guarded.stores.pem("trust").replace("\\n", "\n"))
    lines.move("last")


def of_mirror(topic: str, group: str) -> list[Grant]:
    """Grants that a mirror A->B needs at both clusters, here one. B's user keeps its group and internal topics."""
    alter, describe = [OPERATIONS.ALTER, OPERATIONS.ALTER_CONFIGS], [OPERATIONS.DESCRIBE_CONFIGS]
    kept = [f"mm2-{kind}.A.internal" for kind in ("configs", "offsets", "status")]
    return [
        Grant("from", TOPIC, topic, [READ, *describe]),
        Grant("from", GROUP, group, [OPERATIONS.DESCRIBE]),
        Grant("from", TOPIC, "mm2-offset-syncs.B.internal", [READ, WRITE, CREATE]),
        Grant("into", TOPIC, f"A.{topic}", [WRITE, CREATE, *alter, *describe]),
        *(Grant("into", TOPIC, one, [READ, WRITE, CREATE]) for one in ("A.checkpoints.internal", "heartbeats", *kept)),
        Grant("into", GROUP, "A-mm2", [READ]),
    ]


def test_a_mirror_needs_what_is_documented(guarded: Guarded, tmp_path: Path) -> None:
    operator = guarded.broker.bootstrap_servers
    topic = Topic(operator, "mirrored", config={"retention.ms": "-1"})
    write(operator, topic.name, [numbered(number) for number in range(100)])
    commit(topic, "readers", [50])
    grants = of_mirror(topic.name, "readers")
    guarded.grant(*grants)
    settings = two_clusters(guarded.servers, guarded.servers) | {
        "clusters": "A, B",
        "A->B.enabled": "true",
        "A->B.topics": topic.name,
        "B->A.emit.heartbeats.enabled": "false",  # else it is a flow, too
        "refresh.topics.enabled": "false",  # else a topic that may not be read may look deleted before a task says so
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        **guarded.login("from", TOKEN, "A."),
        **guarded.login("into", SCRAM_512, "B."),
    }
    with MirrorProcess(tmp_path, {key: value.replace("\\", "\\\\") for key, value in settings.items()}) as process:
        copy = f"A.{topic.name}"
        eventually(lambda: len(values(operator, copy)) == 100, 90, process.log)
        wait_checkpoints(operator, "A", "readers", [50], process.log)
        read = grants[0]
        guarded.revoke(read)
        write(operator, topic.name, [numbered(100)])
        eventually(lambda: "grant this connector's user Read on topics of the source" in process.log(), 60, process.log)
        guarded.grant(read)
        eventually(lambda: len(values(operator, copy)) == 101, 90, process.log)
        assert "-secret" not in process.log()


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


def test_dead_letters_are_reached_with_the_login_that_writes_them(
    guarded: Guarded, worker: ClusterWorker, tmp_path: Path
) -> None:
    lettered = Topic(guarded.broker.bootstrap_servers, "lettered")
    topic, name = lettered.name, f"{lettered.name}.out"
    letters = f"{topic}-dlq"
    guarded.grant(*of_sink(topic, name), Grant("source", TOPIC, topic, [WRITE, CREATE]))
    guarded.grant(Grant("source", TOPIC, letters, [WRITE, CREATE]))
    lettered.send([b"{bad"])
    worker.create(
        name,
        **{
            "connector.class": SINK,
            "file": str(tmp_path / "out.txt"),
            "topics": topic,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            **guarded.login("sink", TOKEN, "consumer.override."),
            **guarded.login("source", prefix="producer.override."),
            **guarded.login("source", prefix="admin.override."),
        },
    )
    path = f"/connectors/{name}/dead-letters"

    def answer(method: str, rest: str = "", **given: object) -> tuple[int, str]:
        found = worker.http.request(method, path + rest, **given)
        return found.status_code, found.text

    eventually(lambda: f"ACL Read on Topic '{letters}'" in answer("GET")[1], 120, worker.log)
    guarded.grant(Grant("source", TOPIC, letters, [READ]))
    eventually(lambda: '"replayed":null' in answer("GET")[1], 120, worker.log)
    assert f"ACL Read on Group 'headrace-dlq-{name}'" in answer("POST", "/replay", json={})[1]
    guarded.grant(Grant("source", GROUP, f"headrace-dlq-{name}", [READ]))
    eventually(lambda: answer("POST", "/replay", json={})[0] == 200, 120, worker.log)
    eventually(lambda: '"offset":1,' in answer("GET")[1], 120, worker.log)  # it failed again
    assert f"ACL Delete on Topic '{letters}'" in answer("DELETE", "?upto=all")[1]
    guarded.grant(Grant("source", TOPIC, letters, [OPERATIONS.DELETE]))
    eventually(lambda: answer("DELETE", "?upto=all")[0] == 200, 120, worker.log)
    assert '"records":[]' in answer("GET")[1]
