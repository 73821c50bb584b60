"""Exactly-once sources (KIP-618) on real brokers: what a reader of committed records sees when processes die."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from headrace.config.worker.config import WorkerConfig
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.model import TargetState
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.leader_writer import NotWritten
from tests.compat.apache_worker import ApacheWorker
from tests.integration.cluster_worker import ClusterWorker, cluster_settings, new_cluster, owners
from tests.integration.java_plugins import TEXT, TROUBLE, hosts, plugin_path
from tests.integration.mixed_cluster import java_worker
from tests.integration.partitions import messages
from tests.integration.worker_process import SOURCE, Topic, dotted, envelope, eventually, lines_of

EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
WITHIN_S = 120


class Lines:
    """A file that a source reads into a topic, and who reads that."""

    def __init__(self, folder: Path, bootstrap: str, topic: Topic) -> None:
        self.file = folder / "lines.txt"
        self.file.touch()
        self.topic = topic
        self._bootstrap = bootstrap
        self.added = 0

    @property
    def name(self) -> str:
        """The name of the connector, which is that of the topic."""
        return self.topic.name

    @property
    def config(self) -> dict[str, str]:
        """The source's."""
        return {"connector.class": SOURCE, "tasks.max": "1", "file": str(self.file), "topic": self.topic.name}

    def add(self, count: int = 20) -> None:
        """So many new lines are there to read."""
        with self.file.open("a") as file:
            file.writelines(f"{self.added + n}\n" for n in range(count))
        self.added += count

    def read(self, isolation: str = "read_committed") -> list[bytes]:
        """The values that a consumer sees now."""
        return values(self._bootstrap, self.topic.name, isolation)

    def is_behind(self, end: int) -> bool:
        """True if the topic has grown."""
        return self.topic.end() > end

    def wait_moved(self, within_s: float = WITHIN_S) -> None:
        """Each line is there, once and in order."""
        wanted = [envelope(str(n)) for n in range(self.added)]
        eventually(self._may_have_moved, within_s, lambda: f"{len(self.read())} of {self.added}")
        found = self.read()
        assert found == wanted, (len(found), Counter(found).most_common(3))

    def _may_have_moved(self) -> bool:
        # To read all of it at each try would take a core.
        return self.topic.end() >= self.added and len(self.read()) >= self.added


def values(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    """All values of a topic of one partition that a consumer sees now."""
    return [message.value() or b"" for message in messages(bootstrap, topic, committed=isolation == "read_committed")]


@pytest.fixture
def lines(tmp_path: Path, broker: str) -> Lines:
    return Lines(tmp_path, broker, Topic(broker, "once"))


def our_worker(folder: Path, bootstrap: str, cluster: str, **settings: str) -> ClusterWorker:
    return ClusterWorker(folder, bootstrap, cluster, settings={**EXACTLY_ONCE, **dotted(settings)})


@pytest.fixture(scope="module")
def worker_of_all(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    """The worker of the tests that need one alone, with Java plugins; a test may leave it down."""
    folder = tmp_path_factory.mktemp("once")
    plugins = str(plugin_path(folder))
    with our_worker(folder / "w", broker_process.bootstrap_servers, new_cluster(), plugin_path=plugins) as worker:
        yield worker


@pytest.fixture
def worker(worker_of_all: ClusterWorker) -> ClusterWorker:
    """A worker that is ready and has no connector."""
    if worker_of_all.process.poll() is not None:
        worker_of_all.start()
    worker_of_all.wait_ready()
    for name in worker_of_all.get("/connectors"):
        worker_of_all.request("DELETE", f"/connectors/{name}")
    return worker_of_all


def create(worker: ClusterWorker | ApacheWorker, lines: Lines, **config: str) -> None:
    settings = {**lines.config, **dotted(config)}
    worker.request("POST", "/connectors", {"name": lines.name, "config": settings})


def test_records_and_their_offset_become_visible_together(worker: ClusterWorker, broker: str, lines: Lines) -> None:
    create(worker, lines, exactly_once_support="required")
    lines.add()
    lines.wait_moved()
    end = lines.file.stat().st_size
    eventually(lambda: [one["offset"]["position"] for one in worker.offsets(lines.name)] == [end], WITHIN_S)
    # The marker of each transaction has an offset of its own, in both topics.
    assert lines.topic.end() > lines.added
    fenced = {message.key(): message.value() for message in messages(broker, f"{worker.cluster}-configs")}
    assert fenced[f"tasks-fencing-{lines.name}".encode()] == b'{"task-count":1}'
    worker.request("PUT", f"/connectors/{lines.name}/stop")
    eventually(lambda: worker.get(f"/connectors/{lines.name}/status")["tasks"] == [], WITHIN_S)
    worker.request("DELETE", f"/connectors/{lines.name}/offsets")
    assert worker.offsets(lines.name) == []


@pytest.mark.parametrize("pauses_s", [(0.01,), pytest.param((0.0, 0.03), marks=pytest.mark.long)])
def test_each_line_is_there_once_however_often_the_worker_is_killed(
    worker: ClusterWorker, lines: Lines, pauses_s: tuple[float, ...]
) -> None:
    create(worker, lines)
    for pause_s in pauses_s:
        lines.add()
        lines.wait_moved()
        lines.add(60_000)
        seen = lines.topic.end()
        eventually(partial(lines.is_behind, seen), WITHIN_S, every_s=0.001)
        time.sleep(pause_s)  # each kill meets another moment of the transactions under way
        worker.kill()
        worker.kill_family()
        worker.start()
        worker.wait_ready()
    lines.wait_moved()
    assert len(lines.read("read_uncommitted")) >= lines.added


@pytest.mark.long
def test_a_worker_that_slept_commits_nothing_that_another_has_taken_over(
    tmp_path: Path, broker: str, lines: Lines
) -> None:
    cluster = new_cluster()
    with our_worker(tmp_path / "a", broker, cluster) as first, our_worker(tmp_path / "b", broker, cluster) as second:
        first.wait_ready()
        second.wait_ready()
        create(first, lines)
        lines.add()
        lines.wait_moved()
        owner = eventually(lambda: owners(first).get(f"{lines.name}-0"), WITHIN_S)
        slow, other = (first, second) if owner == first.worker_id else (second, first)
        for process in slow.family():
            process.send_signal(signal.SIGSTOP)
        lines.add()
        eventually(lambda: owners(other).get(f"{lines.name}-0") == other.worker_id, 2 * WITHIN_S)
        lines.wait_moved()
        for process in slow.family():
            process.send_signal(signal.SIGCONT)
        lines.add()
        lines.wait_moved()
        eventually(lambda: slow._try_get("/health").get("status") == "healthy", WITHIN_S)
        lines.add()
        lines.wait_moved()


@pytest.mark.long
def test_an_interval_gathers_batches_in_one_transaction(worker: ClusterWorker, lines: Lines) -> None:
    create(worker, lines, transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    for _ in range(3):
        sent = len(lines.read("read_uncommitted"))
        lines.add(5)
        eventually(lambda sent=sent: len(lines.read("read_uncommitted")) == sent + 5, WITHIN_S)
    assert lines.read() == []
    worker.request("PUT", f"/connectors/{lines.name}/pause")  # commits, as does an orderly end
    lines.wait_moved()
    # Three batches and one marker.
    assert lines.topic.end() == lines.added + 1
    worker.request("PUT", f"/connectors/{lines.name}/resume")
    lines.add(5)
    eventually(lambda: len(lines.read("read_uncommitted")) == lines.added, WITHIN_S)
    assert worker.stop() == 0
    lines.wait_moved()


@pytest.mark.soak
def test_a_topic_that_comes_back_with_fewer_partitions_has_each_line_once(
    worker: ClusterWorker, tmp_path: Path, broker: str
) -> None:
    lines = Lines(tmp_path, broker, Topic(broker, "shrunk", partitions=3))
    create(worker, lines)
    lines.add(30)
    eventually(lambda: worker.offsets(lines.name) and worker.offsets(lines.name)[0]["offset"]["position"] > 0, WITHIN_S)
    lines.topic.delete()
    lines.topic.admin.create_topics([NewTopic(lines.topic.name, 1, 1)])[lines.topic.name].result(60)
    lines.add(30)
    wanted = [envelope(str(number)) for number in range(30, 60)]
    eventually(lambda: lines.read() == wanted, WITHIN_S, worker.log)
    assert worker.states(lines.name) == ["RUNNING"]


@pytest.mark.long
def test_a_record_that_kafka_refuses_fails_the_task_with_what_to_do(
    worker: ClusterWorker, tmp_path: Path, broker: str
) -> None:
    lines = Lines(tmp_path, broker, Topic(broker, "small", config={"max.message.bytes": "2000"}))
    create(worker, lines)
    lines.add()
    lines.wait_moved()
    with lines.file.open("a") as file:
        file.write("x" * 5000 + "\n")
    worker.wait_states(lines.name, "FAILED")
    assert "max.message.bytes" in worker.trace(lines.name)
    assert lines.read() == [envelope(str(n)) for n in range(lines.added)]


@pytest.mark.long
def test_a_cluster_of_java_and_ours_is_exactly_once_whoever_leads(tmp_path: Path, broker: str, lines: Lines) -> None:
    cluster = new_cluster()
    with java_worker(tmp_path / "java", broker, cluster, EXACTLY_ONCE) as java:
        java.wait_ready()
        create(java, lines)
        lines.add()
        lines.wait_moved()
        with our_worker(tmp_path / "ours", broker, cluster) as ours:
            ours.wait_ready()
            lines.add()
            lines.wait_moved()
            java.kill()  # ours leads and runs the task now
            eventually(lambda: owners(ours).get(f"{lines.name}-0") == ours.worker_id, 2 * WITHIN_S)
            lines.add()
            lines.wait_moved()
            # A change of its tasks makes the leader fence those before.
            ours.request("PUT", f"/connectors/{lines.name}/config", {**lines.config, "batch.size": "100"})
            lines.add()
            lines.wait_moved()
            java.start()
            java.wait_ready()
            ours.request("PUT", f"/connectors/{lines.name}/config", {**lines.config, "batch.size": "200"})
            lines.add()
            lines.wait_moved()
            ours.kill()
            ours.kill_family()
            eventually(lambda: java.states(lines.name) == ["RUNNING", "RUNNING"], 2 * WITHIN_S)
            lines.add()
            lines.wait_moved()
            java.request("PUT", f"/connectors/{lines.name}/config", {**lines.config, "batch.size": "300"})
            lines.add()
            lines.wait_moved()


@pytest.mark.long
def test_a_mirror_copies_each_record_once_however_often_it_is_killed(worker: ClusterWorker, broker: str) -> None:
    source, count = Topic(broker, "copied"), 30_000
    source.send([b"%d" % number for number in range(count)])
    bytes_ = "org.apache.kafka.connect.converters.ByteArrayConverter"
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "exactly.once.support": "required",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": broker,
        "target.cluster.bootstrap.servers": broker,
        "source.consumer.isolation.level": "read_committed",
        "topics": source.name,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "key.converter": bytes_,
        "value.converter": bytes_,
    }
    copied = f"A.{source.name}"
    worker.request("POST", "/connectors", {"name": "m", "config": config})
    for pause_s in (0.01, 0.05):
        eventually(lambda: copied in source.admin.list_topics(timeout=60).topics, WITHIN_S, every_s=0.05)
        time.sleep(pause_s)
        worker.kill()
        worker.kill_family()
        worker.start()
        worker.wait_ready()
    wanted = [b"%d" % number for number in range(count)]
    eventually(lambda: len(values(broker, copied, "read_committed")) >= count, WITHIN_S)
    assert values(broker, copied, "read_committed") == wanted


@pytest.mark.long
def test_a_java_source_is_told_of_its_records_once_they_are_committed(
    worker: ClusterWorker, tmp_path: Path, broker: str
) -> None:
    topic, notes = Topic(broker, "java"), tmp_path / "notes"
    config = {"connector.class": TROUBLE, "topic": topic.name, "notes": str(notes), "mode": "count", "most": "30"}
    config |= {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "600000"}

    def told() -> list[bytes]:
        return [line for line in lines_of(notes) if line.startswith(b"record")]

    worker.request("POST", "/connectors", {"name": topic.name, "config": config})
    eventually(lambda: len(values(broker, topic.name, "read_uncommitted")) == 30, 2 * WITHIN_S)
    assert (told(), values(broker, topic.name, "read_committed")) == ([], [])
    worker.request("PUT", f"/connectors/{topic.name}/pause")
    eventually(lambda: len(told()) == 30, WITHIN_S)
    assert told()[7].startswith(f"record 7 {topic.name}-0@7 ".encode())
    # The broker ends a transaction for readers a moment after it has answered the producer.
    eventually(lambda: len(values(broker, topic.name, "read_committed")) == 30, WITHIN_S)
    eventually(lambda: [one["offset"] for one in worker.offsets(topic.name)] == [{"n": 29}], WITHIN_S)
    for host in hosts(worker):
        host.kill()
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    worker.wait_states(topic.name, "RUNNING", within_s=2 * WITHIN_S)
    eventually(lambda: lines_of(notes)[-1] == b"start 30", WITHIN_S)
    assert len(values(broker, topic.name, "read_committed")) == 30


@pytest.mark.long
def test_a_java_source_says_where_its_transactions_end(worker: ClusterWorker, tmp_path: Path, broker: str) -> None:
    topic, notes = Topic(broker, "bounds"), tmp_path / "notes"
    config = {"connector.class": TROUBLE, "topic": topic.name, "notes": str(notes), "mode": "transactions"}
    config |= {"transaction.boundary": "connector", **dotted(TEXT)}
    committed = [b"row %d" % row for rows in (range(5), range(13, 20), range(30, 35)) for row in rows]
    worker.request("POST", "/connectors", {"name": topic.name, "config": config})
    eventually(lambda: len(values(broker, topic.name, "read_uncommitted")) == 40, 2 * WITHIN_S)
    eventually(lambda: len(values(broker, topic.name, "read_committed")) >= len(committed), WITHIN_S)
    assert values(broker, topic.name, "read_committed") == committed
    eventually(lambda: [one["offset"] for one in worker.offsets(topic.name)] == [{"n": 34}], WITHIN_S)

    def told() -> list[int]:
        return [int(line.split()[1]) for line in lines_of(notes) if line.startswith(b"record")]

    eventually(lambda: len(told()) >= 35, WITHIN_S, told)
    assert told() == list(range(35)), "those that were aborted, too, as Connect does"
    worker.request("POST", f"/connectors/{topic.name}/restart?includeTasks=true")
    eventually(lambda: lines_of(notes)[-1] == b"start 35", WITHIN_S)
    worker.wait_states(topic.name, "RUNNING")


@pytest.mark.long
def test_a_connector_that_cannot_bound_transactions_is_refused(worker: ClusterWorker) -> None:
    config = {"connector.class": TROUBLE, "mode": "count", "transaction.boundary": "connector"}
    found = worker.request("PUT", f"/connector-plugins/{TROUBLE}/config/validate", {"name": "c", **config}).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in found["configs"]}
    assert "does not support connector-defined transaction boundaries" in errors["transaction.boundary"][0]


@pytest.mark.long
def test_a_leader_that_slept_writes_nothing_to_the_config_topic(tmp_path: Path, broker: str) -> None:
    cluster = new_cluster()
    settings = {
        "bootstrap.servers": broker,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "exactly.once.source.support": "preparing",
        **cluster_settings(cluster),
    }
    former, newer = (ConfigTopic(WorkerConfig.distributed(settings)) for _ in range(2))
    for topic in (former, newer):
        topic.start(WITHIN_S)
    try:
        former.lead(True)
        former.put_connector("a", {"name": "a"}, TargetState.STARTED)
        newer.lead(True)
        with pytest.raises(NotWritten):
            former.put_connector("b", {"name": "b"}, TargetState.STARTED)
        former.lead(False)
        with pytest.raises(NotWritten):
            former.put_connector("b", {"name": "b"}, TargetState.STARTED)
        newer.put_connector("c", {"name": "c"}, TargetState.STARTED)
        assert set(newer.refresh(WITHIN_S).connectors) == {"a", "c"}
    finally:
        former.stop()
        newer.stop()
    assert json.loads(values(broker, f"{cluster}-configs", "read_committed")[0]) == {"properties": {"name": "a"}}
