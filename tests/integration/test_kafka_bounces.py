"""Kafka's own tests that restart and kill workers, in our words: three workers, and sequence numbers without gaps.

The verifiable connectors print a line for each record, which those tests read on standard output.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.cluster_worker import new_cluster
from tests.integration.java_plugins import of_jars
from tests.integration.kafkatest_worker import TOOLS, WITHIN_S, KafkatestWorker
from tests.integration.partitions import messages
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually, lines_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

TASKS: Final = 3
LEAST: Final = 1000
"""The least number of records of a task, as in those tests."""
ROUNDS = 3
ROUNDS_ONCE = (False, False, True, True)
"""For each round: True if the next worker is bounced at once."""
PATIENT: Final = {
    "session.timeout.ms": "30000",
    "heartbeat.interval.ms": "3000",
    "consumer.session.timeout.ms": "30000",
    "task.shutdown.graceful.timeout.ms": "30000",
}
"""A worker or task that a busy machine held up is not taken for dead, after which records would come twice."""


class Cluster:
    """Three workers, and for each test a topic of its own."""

    def __init__(self, folder: Path, bootstrap: str, settings: dict[str, str]) -> None:
        plugins = str(of_jars(folder, "kafka-test-plugins"))
        settings = {"plugin.path": plugins, "java.host.heap": "100m", **PATIENT, **settings}
        settings["offset.flush.interval.ms"] = "5000"
        name = new_cluster()
        self.workers = [KafkatestWorker(folder / f"w{n}", bootstrap, name, settings) for n in range(3)]
        self._bootstrap = bootstrap
        self._numbers: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)

    def begin(self) -> Self:
        """All workers run, without a connector, and the topic is new."""
        for worker in self.workers:
            if worker.process.poll() is not None:
                worker.start()
        for worker in self.workers:
            eventually(lambda w=worker: "Joined group" in w.log(), WITHIN_S, worker._last_words)
            worker.wait_ready(WITHIN_S)
        for name in self.workers[0].get("/connectors"):
            self.end(name)
        self.topic = Topic(self._bootstrap, "bounced", partitions=TASKS)
        return self

    def put(self, name: str, config: dict[str, str]) -> None:
        """The connector is there, and all of it runs."""
        self.workers[0].request("PUT", f"/connectors/{name}/config", config)
        self.wait_running(name)

    def wait_running(self, name: str) -> None:
        """The connector and its tasks are RUNNING."""
        self.wait_state(name, "RUNNING")

    def wait_state(self, name: str, state: str) -> None:
        """All workers show the connector and its tasks in this state."""
        for worker in self.workers:
            eventually(lambda w=worker: self._is_in(w, name, state), WITHIN_S, lambda: self._shown(name))

    def end(self, name: str) -> None:
        """The connector is deleted."""
        self.workers[0].request("DELETE", f"/connectors/{name}")
        for worker in self.workers:
            eventually(lambda w=worker: name not in w.get("/connectors"), WITHIN_S)
            eventually(lambda w=worker: self._states(w, name) == [], WITHIN_S)

    def numbers(self, name: str, done: str) -> dict[int, list[int]]:
        """The sequence numbers of a connector's records that are `committed`, or `flushed`, by the source's task."""
        for line in itertools.chain.from_iterable(worker.newly_printed() for worker in self.workers):
            for what in ("committed", "flushed"):
                if line.get(what):
                    self._numbers[line["name"], what].append((line["task"], line["seqno"]))
        return by_task(self._numbers[name, done])

    def last(self, name: str, done: str) -> dict[int, int]:
        """The highest of these numbers of each task."""
        return {task: max(found, default=-1) for task, found in self.numbers(name, done).items()}

    def in_topic(self) -> dict[int, list[int]]:
        """The sequence numbers of committed records, by the task of the source."""
        found = [m for n in range(TASKS) for m in messages(self.topic.bootstrap, self.topic.name, n)]
        payloads = [(json.loads(m.key() or b"")["payload"], json.loads(m.value() or b"")["payload"]) for m in found]
        return by_task((task, value["seqno"] if isinstance(value, dict) else value) for task, value in payloads)

    def _is_in(self, worker: KafkatestWorker, name: str, state: str) -> bool:
        states = self._states(worker, name)
        return len(states) > 1 and set(states) == {state}

    def _states(self, worker: KafkatestWorker, name: str) -> list[str]:
        shown = worker._try_get(f"/connectors/{name}/status")
        return [one["state"] for one in ([shown["connector"], *shown["tasks"]] if "connector" in shown else ())]

    def _shown(self, name: str) -> str:
        return "\n".join(f"{w._try_get(f'/connectors/{name}/status')} {w.log()[-2000:]}" for w in self.workers)


def grown(before: dict[int, list[int]], after: dict[int, list[int]]) -> bool:
    """True if each task has more numbers than before."""
    return all(len(found) > len(before[task]) for task, found in after.items())


def by_task(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The numbers of each task; one without any has none."""
    found: dict[int, list[int]] = {task: [] for task in range(TASKS)}
    for task, number in pairs:
        found[task].append(number)
    return found


@pytest.fixture(scope="module")
def workers(
    broker_process: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """Three workers of one group, with the settings that tests are given."""
    made = Cluster(tmp_path_factory.mktemp("bounces"), broker_process.bootstrap_servers, request.param)
    with ExitStack() as stack:
        for worker in made.workers:
            stack.enter_context(worker)
        yield made


@pytest.fixture
def cluster(workers: Cluster, broker: str) -> Cluster:
    """They run, and have nothing to do."""
    return workers.begin()


def source_of(topic: Topic, **more: str) -> dict[str, str]:
    """The config of a source that numbers the records of each task."""
    given = {"connector.class": f"{TOOLS}.VerifiableSourceConnector", "topic": topic.name, "throughput": "50"}
    return {**given, "tasks.max": str(TASKS), **more}


def sink_of(topic: Topic) -> dict[str, str]:
    """The config of a sink that prints the numbers of its records."""
    given = {"connector.class": f"{TOOLS}.VerifiableSinkConnector", "topics": topic.name}
    return {**given, "tasks.max": str(TASKS)}


def check(what: str, numbers: dict[int, list[int]], once: bool, least: int = LEAST) -> None:
    """No number lacks, and none comes twice if it may not."""
    for task, found in numbers.items():
        end = max(found, default=0)
        lacks = sorted(set(range(end)).difference(found))
        twice = sorted(number for number, count in Counter(found).items() if count > 1)
        print(f"{what} of task {task}: up to {end}, {len(twice)} came twice")
        assert not lacks, (what, task, end, len(lacks), lacks[:20])
        assert not (once and twice), (what, task, end, len(twice), twice[:20])
        assert end >= least, (what, task, end)


PLAIN = pytest.mark.parametrize("workers", [{}], indirect=True, ids=["plain"])
ONCE = pytest.mark.parametrize(
    "workers",
    [{"exactly.once.source.support": "enabled", "producer.transaction.timeout.ms": "10000"}],
    indirect=True,
    ids=["once"],
)
BOTH = pytest.mark.parametrize("clean", [True, False], ids=["clean", "hard"])


@PLAIN
@BOTH
def test_sequence_numbers_over_bounces(cluster: Cluster, clean: bool) -> None:
    source, sink = f"{cluster.topic.name}-in", f"{cluster.topic.name}-out"
    cluster.put("still", sink_of(cluster.topic))
    cluster.workers[0].request("PUT", "/connectors/still/pause")
    cluster.wait_state("still", "PAUSED")
    cluster.put(source, source_of(cluster.topic))
    cluster.put(sink, sink_of(cluster.topic))
    for _ in range(ROUNDS):
        for worker in cluster.workers:
            worker.bounce(clean)
            cluster.wait_running(source)
            cluster.wait_running(sink)
            for name, done in ((source, "committed"), (sink, "flushed")):
                before = cluster.numbers(name, done)
                eventually(lambda b=before, n=name, d=done: grown(b, cluster.numbers(n, d)), WITHIN_S)
    cluster.wait_state("still", "PAUSED")
    eventually(lambda: min(map(len, cluster.numbers(source, "committed").values())) > LEAST, WITHIN_S, every_s=1)
    cluster.end(source)
    eventually(lambda: cluster.last(sink, "flushed") == cluster.last(source, "committed"), WITHIN_S)
    cluster.end(sink)
    check("committed", cluster.numbers(source, "committed"), once=clean)
    check("flushed", cluster.numbers(sink, "flushed"), once=clean)
    check("in the topic", cluster.in_topic(), once=clean)
    assert cluster.last(sink, "flushed") == cluster.last(source, "committed")
    assert cluster.last("still", "flushed") == dict.fromkeys(range(TASKS), -1)


@ONCE
@BOTH
def test_sequence_numbers_of_an_exactly_once_source(cluster: Cluster, clean: bool) -> None:
    source = f"{cluster.topic.name}-in"
    cluster.put(source, source_of(cluster.topic, **{"complete.record.data": "true"}))
    for number, quick in enumerate(ROUNDS_ONCE):
        for worker in cluster.workers[number % 3 :] + cluster.workers[: number % 3]:  # in another order each time
            worker.bounce(clean)
            if not quick:
                cluster.wait_running(source)
                before = cluster.in_topic()
                eventually(lambda b=before: grown(b, cluster.in_topic()), WITHIN_S, every_s=2)
    # A request of a follower to the leader may have failed when the leader was bounced; that failure is kept.
    cluster.workers[0].request("POST", f"/connectors/{source}/restart?includeTasks=true&onlyFailed=true")
    cluster.wait_running(source)
    eventually(lambda: min(map(len, cluster.in_topic().values())) > LEAST, WITHIN_S, every_s=2)
    cluster.end(source)
    check("in the topic", cluster.in_topic(), once=True)


@PLAIN
def test_files_over_rolling_restarts(cluster: Cluster, tmp_path: Path) -> None:
    topic = Topic(cluster.topic.bootstrap, "files")
    source = {"connector.class": SOURCE, "tasks.max": "1", "file": str(tmp_path / "in"), "topic": topic.name}
    sink = {"connector.class": SINK, "tasks.max": "1", "file": str(tmp_path / "out"), "topics": topic.name}
    cluster.put("lines-in", source)
    cluster.put("lines-out", sink)
    lines: list[bytes] = []
    for more in ([b"foo", b"bar", b"baz"], [b"razz", b"ma", b"tazz"]):
        if lines:
            for worker in cluster.workers:
                worker.bounce()
        lines += more
        with open(tmp_path / "in", "ab") as file:
            file.write(b"".join(line + b"\n" for line in more))
        eventually(lambda wanted=tuple(lines): tuple(lines_of(tmp_path / "out")) == wanted, WITHIN_S)
    cluster.wait_running("lines-out")
    assert lines_of(tmp_path / "out") == lines
