"""The dedicated process between two clusters: its flows, their topics, several processes, and changes of the file."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.config.worker.mirror_maker import CONNECTORS
from headrace.connectors.mirror.formats import Heartbeat
from headrace.worker.embedded.kafka_broker import Broker
from tests.held_ports import held_port
from tests.integration.mirror_process import MirrorProcess, last_values, records, two_clusters
from tests.integration.worker_process import Topic, eventually

HEARTBEATS_ONLY = {
    "A->B.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "A->B.emit.heartbeats.enabled": "true",
}
REST = {"dedicated.mode.enable.internal.rest": "true", "rest.advertised.host.name": "127.0.0.1"}


class TwoClusters:
    """The brokers of clusters A and B; each test has a name of its own for the flow's topics and group."""

    def __init__(self, a: Broker, b: Broker) -> None:
        self.a, self.b = a, b
        self._numbers = itertools.count()

    def settings(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**two_clusters(self.a.bootstrap_servers, self.b.bootstrap_servers), **more}

    def own(self, more: Mapping[str, str]) -> dict[str, str]:
        """As `settings`, with internal topics and a group of B that no other test has."""
        name = f"t{next(self._numbers)}"
        topics = {f"B.{kind}.storage.topic": f"{name}-{kind}.internal" for kind in ("config", "offset", "status")}
        return self.settings({**topics, "B.group.id": name, **more})

    def beats(self, cluster: Broker, source: str) -> list[int]:
        """The times of the heartbeats from a cluster."""
        found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=60).topics
        if "heartbeats" not in found:
            return []
        beats = [Heartbeat.of(key, value or b"") for key, value in records(cluster.bootstrap_servers, "heartbeats")]
        return [beat.timestamp for beat in beats if beat.source == source]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    folder = tmp_path_factory.mktemp("clusters")
    a, b = Broker(folder / "a"), Broker(folder / "b")
    a.start()
    b.start()
    yield TwoClusters(a, b)
    a.stop()
    b.stop()


def beating(clusters: TwoClusters, cluster: Broker, source: str, since_ms: int, within_s: float = 60) -> None:
    """A heartbeat that is younger has arrived."""
    eventually(lambda: any(beat > since_ms for beat in clusters.beats(cluster, source)), within_s, every_s=0.3)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_one_process_runs_both_directions_with_apaches_names(clusters: TwoClusters, tmp_path: Path) -> None:
    flows = {"A->B.enabled": "true", "B->A.enabled": "true"}
    with MirrorProcess(tmp_path, clusters.settings(flows)) as process:
        process.wait_ready(120)
        beating(clusters, clusters.b, "A", 0)
        beating(clusters, clusters.a, "B", 0)
        for broker, source, other in ((clusters.b, "A", "B"), (clusters.a, "B", "A")):
            configs = last_values(broker.bootstrap_servers, f"mm2-configs.{source}.internal")
            wanted = {f"connector-{name}" for name in CONNECTORS}
            assert wanted <= configs.keys()
            shown = configs["connector-MirrorSourceConnector"]["properties"]
            assert (shown["source.cluster.alias"], shown["target.cluster.alias"]) == (source, other)
            assert shown["enabled"] == "true"
        page = process.http.get("/metrics").text
        for flow in ("A->B", "B->A"):
            assert f'kafka_connect_worker_connector_count{{flow="{flow}"}} 3\n' in page
            assert process.health_of(flow) == "healthy"
        assert process.http.get("/connectors").status_code == 404
        # Nobody has asked for internal REST.
        assert process.http.post("/A/B/connectors/MirrorSourceConnector/tasks", json=[]).status_code == 404
        assert process.stop() == 0
        assert "did not end" not in process.log()


@pytest.mark.soak
def test_a_changed_file_changes_the_connectors_when_the_process_starts_again(
    clusters: TwoClusters, tmp_path: Path
) -> None:
    settings = clusters.own({**HEARTBEATS_ONLY, "emit.heartbeats.interval.seconds": "600"})
    topic = settings["B.config.storage.topic"]

    def interval() -> str | None:
        found = last_values(clusters.b.bootstrap_servers, topic).get("connector-MirrorHeartbeatConnector") or {}
        value: str | None = found.get("properties", {}).get("emit.heartbeats.interval.seconds")
        return value

    with MirrorProcess(tmp_path, settings) as process:
        eventually(lambda: interval() == "600", 120, process.log)
        assert process.stop() == 0
        process.configure({**settings, "emit.heartbeats.interval.seconds": "1"})
        before = now_ms()
        process.start()
        eventually(lambda: interval() == "1", 120, process.log)
        beating(clusters, clusters.b, "A", before + 1000)
        process.stop()
        written = len(records(clusters.b.bootstrap_servers, topic))
        process.start()
        eventually(lambda: process.log().count("is up to date") == 3, 120, process.log)
        assert len(records(clusters.b.bootstrap_servers, topic)) == written


@pytest.mark.long
def test_a_flow_whose_cluster_is_away_holds_up_no_other(clusters: TwoClusters, tmp_path: Path) -> None:
    absent = f"127.0.0.1:{held_port()}"
    three = {
        "clusters": "A, B, C",
        "C.bootstrap.servers": absent,
        "emit.heartbeats.enabled": "false",
        "A->C.emit.heartbeats.enabled": "true",
        "A->B.emit.heartbeats.enabled": "true",
    }
    with MirrorProcess(tmp_path, clusters.own(three)) as process:
        since = now_ms()
        beating(clusters, clusters.b, "A", since, 120)
        assert process.health_of("A->B") == "healthy"
        assert process.health_of("A->C") == "starting"
        late = Broker(tmp_path / "c", port=int(absent.rpartition(":")[2]))
        late.start()
        try:
            beating(clusters, late, "A", since)
            eventually(lambda: process.health_of("A->C") == "healthy", 60)
            assert process.stop() == 0
        finally:
            late.stop()


@pytest.fixture
def two_processes(
    clusters: TwoClusters, tmp_path: Path
) -> Iterator[Callable[[Mapping[str, str]], list[MirrorProcess]]]:
    """Makes two processes with the same file but for their listeners."""
    made: list[MirrorProcess] = []

    def make(more: Mapping[str, str]) -> list[MirrorProcess]:
        settings = clusters.own(more)
        for name in ("one", "two"):
            made.append(MirrorProcess(tmp_path / name, settings).__enter__())
        for process in made:
            process.wait_ready(120)
        return made

    yield make
    for process in made:
        process.__exit__(None, None, None)


@pytest.mark.long
def test_two_processes_share_the_work_and_one_that_is_killed_is_replaced(
    clusters: TwoClusters, two_processes: Callable[[Mapping[str, str]], list[MirrorProcess]]
) -> None:
    processes = two_processes({**HEARTBEATS_ONLY, **REST})
    beating(clusters, clusters.b, "A", 0)

    def connectors(process: MirrorProcess) -> float:
        found = re.search(r'worker_connector_count\{flow="A->B"\} (\S+)', process.http.get("/metrics").text)
        return float(found[1]) if found else 0.0

    eventually(lambda: sorted(map(connectors, processes)) == [1.0, 2.0], 60, lambda: processes[1].log()[-3000:])
    owner = eventually(lambda: next((one for one in processes if beats_here(one)), None), 60)
    left = next(one for one in processes if one is not owner)
    owner.kill()
    owner.kill_family()
    killed = now_ms()
    beating(clusters, clusters.b, "A", killed)
    eventually(lambda: connectors(left) == 3.0, 60, lambda: left.log()[-3000:])


def beats_here(process: MirrorProcess) -> bool:
    """True if the task that makes heartbeats runs in this process."""
    return 'connector="MirrorHeartbeatConnector",flow="A->B",task="0"' in process.http.get("/metrics").text


def arrives(cluster: Broker, topic: str, process: MirrorProcess) -> None:
    """The copy of a topic is there, and its one record."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    eventually(lambda: topic in admin.list_topics(timeout=60).topics, 60, process.log)
    eventually(lambda: len(records(cluster.bootstrap_servers, topic)) == 1, 60, process.log)


@pytest.mark.long
def test_with_internal_rest_tasks_that_change_on_a_follower_reach_the_leader(
    clusters: TwoClusters, two_processes: Callable[[Mapping[str, str]], list[MirrorProcess]]
) -> None:
    quiet = {"emit.heartbeats.enabled": "false", "A->B.enabled": "true", "A->B.topics": "mine.*", "A->B.tasks.max": "4"}
    processes = two_processes({**quiet, **REST})
    leads = [one for one in processes if "This process leads A->B" in one.log()]
    follower = next(one for one in processes if one is not leads[-1])
    # More tasks by new topics, until the follower has had a part in telling of them: it runs some of the connectors.
    for _ in range(3):
        topic = Topic(clusters.a.bootstrap_servers, "mine", 2)
        topic.send([b"x"])
        arrives(clusters.b, f"A.{topic.name}", follower)
    for process in processes:
        assert "dedicated.mode.enable.internal.rest=true" not in process.log()
        assert "are not published yet" not in process.log()


@pytest.mark.long
def test_without_internal_rest_a_second_process_says_what_does_not_work(
    two_processes: Callable[[Mapping[str, str]], list[MirrorProcess]],
) -> None:
    processes = two_processes(HEARTBEATS_ONLY)
    logs = [process.log() for process in processes]
    assert sum("dedicated.mode.enable.internal.rest=true" in log for log in logs) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"clusters": "A"}, "No source->target replication flows."),
        ({"B.bootstrap.servers": ""}, "B.bootstrap.servers"),
        ({"A->B.offset.lag.max": "many"}, "A->B.offset.lag.max (= 'many')"),
        ({"B.offset.flush.interval.ms": "soon"}, "B.offset.flush.interval.ms (= 'soon')"),
        ({"A.security.protocol": "SSH"}, "A.security.protocol"),
    ],
)
def test_a_wrong_file_ends_the_process_with_2_and_names_the_key(
    more: Mapping[str, str], said: str, tmp_path: Path
) -> None:
    with MirrorProcess(tmp_path, {**two_clusters("127.0.0.1:1", "127.0.0.1:1"), **more}) as process:
        assert process.process.wait(60) == 2
        assert said in process.log()
