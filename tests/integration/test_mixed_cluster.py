"""Apache's own worker and ours in one cluster, as real processes: work moves between them, and either leads.

Whatever is compared is what operators see: both REST APIs, the consumer groups of the sinks, and the lines that come
out. Workers are killed only after all that was moved is stored, so that every line must come out exactly once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.worker.kafka_broker import Broker
from tests.compat.apache_worker import ApacheWorker
from tests.integration.cluster_worker import ClusterWorker, cluster_settings, new_cluster
from tests.integration.worker_process import SINK, SOURCE, Topic, envelope, eventually, lines_of

Worker = ApacheWorker | ClusterWorker

WITHIN_S = 120
"""For what takes a few seconds on an idle machine."""


_PARTITIONS = 3


class Pipe:
    """A file whose lines go through a topic into another file: connectors `<name>in` and `<name>out`."""

    def __init__(self, name: str, bootstrap: str, folder: Path, tasks: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.source, self.sink, self.tasks = f"{name}in", f"{name}out", tasks
        self.topic = Topic(bootstrap, name, partitions=_PARTITIONS)
        self._read, self._written = folder / f"{name}.in", folder / f"{name}.out"
        self.lines: list[str] = []
        self._read.touch()

    @property
    def configs(self) -> dict[str, dict[str, str]]:
        """Of its two connectors."""
        source = {"connector.class": SOURCE, "file": str(self._read), "topic": self.topic.name, "tasks.max": "1"}
        sink = {
            "connector.class": SINK,
            "file": str(self._written),
            "topics": self.topic.name,
            "tasks.max": str(self.tasks),
        }
        return {self.source: source, self.sink: sink}

    @property
    def items(self) -> set[str]:
        """Its connectors and tasks."""
        return {self.source, f"{self.source}-0", self.sink, *(f"{self.sink}-{n}" for n in range(self.tasks))}

    def create(self, through: Worker) -> None:
        """Its connectors exist."""
        for name, config in self.configs.items():
            through.request("POST", "/connectors", {"name": name, "config": config})

    def add(self, about: str, count: int = 20) -> None:
        """So many new lines are there to read."""
        new = [f"{about} {number}" for number in range(count)]
        self.lines += new
        with self._read.open("a") as file:
            file.writelines(f"{line}\n" for line in new)

    def wait_moved(self) -> None:
        """Every line came out; nothing is lost and nothing came twice."""
        wanted = {line.encode() for line in self.lines}
        eventually(lambda: wanted <= set(lines_of(self._written)), WITHIN_S, self._missing)
        assert Counter(lines_of(self._written)) == Counter(dict.fromkeys(wanted, 1))
        assert Counter(self._sent()) == Counter({envelope(line): 1 for line in self.lines})

    def wait_stored(self, shown_by: Worker) -> None:
        """What was moved is stored in Kafka: offsets of the source and of the sink are at the ends."""
        end = self._read.stat().st_size

        def stored() -> bool:
            read, written = (shown_by.get(f"/connectors/{c}/offsets")["offsets"] for c in (self.source, self.sink))
            positions = {o["partition"]["kafka_partition"]: o["offset"]["kafka_offset"] for o in written}
            ends = {partition: self.topic.end(partition) for partition in range(_PARTITIONS)}
            at_end = [one["offset"]["position"] for one in read] == [end]
            return at_end and all(positions.get(partition, 0) == last for partition, last in ends.items())

        eventually(
            stored, WITHIN_S, lambda: [shown_by.get(f"/connectors/{c}/offsets") for c in (self.source, self.sink)]
        )

    def _missing(self) -> list[str]:
        return [line for line in self.lines if line.encode() not in set(lines_of(self._written))]

    def _sent(self) -> list[bytes]:
        """All that is in the topic."""
        ends = {partition: self.topic.end(partition) for partition in range(_PARTITIONS)}
        count = sum(ends.values())
        consumer = Consumer({"bootstrap.servers": self.topic.bootstrap, "group.id": "look"})
        try:
            consumer.assign([TopicPartition(self.topic.name, partition, 0) for partition in ends])
            got: list[bytes] = []
            while len(got) < count:
                got += [message.value() or b"" for message in consumer.consume(count - len(got), 1)]
            return got
        finally:
            consumer.close()


QUICK = {"offset.flush.interval.ms": "1000", "consumer.session.timeout.ms": "6000"}
"""Offsets are soon stored, and tasks of a killed worker soon out of the sink's consumer group."""


def java_worker(folder: Path, bootstrap: str, cluster: str) -> ApacheWorker:
    return ApacheWorker(folder, bootstrap, cluster, {**cluster_settings(cluster), **QUICK})


def our_worker(folder: Path, bootstrap: str, cluster: str) -> ClusterWorker:
    return ClusterWorker(folder, bootstrap, cluster, QUICK)


def statuses(worker: Worker) -> dict[str, dict[str, Any]]:
    """What a worker shows of every connector and task, by `name` and `name-0`."""
    found: dict[str, dict[str, Any]] = {}
    for name, shown in worker.get("/connectors?expand=status").items():
        found[name] = shown["status"]["connector"]
        found |= {f"{name}-{task['id']}": task for task in shown["status"]["tasks"]}
    return found


def leader(java: ApacheWorker) -> str:
    """The url of the leader, as Java's worker was told."""
    said: list[str] = re.findall(r"got assignment: Assignment\{.*?leaderUrl='(.*?)'", java.log)
    return said[-1].rstrip("/") if said else ""


def held_by(java: ApacheWorker) -> set[str]:
    """What Java's worker holds, by what it logged when it joined last."""
    said = re.findall(r"got assignment: Assignment\{.*connectorIds=\[(.*?)\], taskIds=\[(.*?)\]", java.log)
    return {item for items in (said[-1] if said else ()) for item in items.split(", ") if item}


def wait_shared(items: set[str], workers: Sequence[Worker]) -> None:
    """Every item runs on one of the workers, evenly shared, and all of the workers show the very same statuses."""
    ids = {worker.worker_id for worker in workers}

    def shared() -> bool:
        shown = [statuses(worker) for worker in workers]
        if any(one != shown[0] for one in shown) or set(shown[0]) != items:
            return False
        if {one["state"] for one in shown[0].values()} != {"RUNNING"}:
            return False
        for kind in ([i for i in items if "-" not in i], [i for i in items if "-" in i]):
            shares = Counter(shown[0][item]["worker_id"] for item in kind)
            if not shares.keys() <= ids or max(shares.values()) - min(shares[i] for i in ids) > 1:
                return False
        return all(
            held_by(worker) == {item for item, one in shown[0].items() if one["worker_id"] == worker.worker_id}
            for worker in workers
            if isinstance(worker, ApacheWorker)
        )

    eventually(shared, WITHIN_S, lambda: shown_by(workers))


def check_well(java: ApacheWorker) -> None:
    """Java's worker lives, and nothing that it met was an error to it."""
    assert java.alive
    assert java.get("/health").get("status") == "healthy", java.log[-3000:]
    assert not re.findall(r"^\[[^]]*] (?:ERROR|FATAL) .*", java.log, re.MULTILINE)


def shown_by(workers: Sequence[Worker]) -> str:
    """States and owners, as each worker shows them."""
    return "\n".join(
        f"{worker.worker_id} shows "
        + ", ".join(f"{i} {one['state']}@{one['worker_id']}" for i, one in sorted(statuses(worker).items()))
        for worker in workers
    )


def test_a_java_cluster_moves_over_and_back(broker: str, tmp_path: Path) -> None:
    cluster = new_cluster()
    pipe = Pipe("lines", broker, tmp_path, tasks=2)
    with java_worker(tmp_path / "java", broker, cluster) as java:
        java.wait_ready()
        pipe.create(java)
        wait_shared(pipe.items, [java])
        move([pipe], "Java alone")
        with our_worker(tmp_path / "ours", broker, cluster) as ours:
            ours.wait_ready()
            wait_shared(pipe.items, [java, ours])
            move([pipe], "both")
            check_well(java)
            java.stop()
            wait_shared(pipe.items, [ours])
            move([pipe], "ours alone")
            java.start()
            java.wait_ready()
            wait_shared(pipe.items, [java, ours])
            move([pipe], "both again")
            assert ours.stop() == 0
            wait_shared(pipe.items, [java])
            move([pipe], "Java alone again")
        check_well(java)


class Mixed:
    """A worker of Java, which leads at first, and two of ours; two pipes run on them."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        cluster = new_cluster()
        self.java = java_worker(folder / "java", bootstrap, cluster)
        self.ours = [our_worker(folder / f"ours{n}", bootstrap, cluster) for n in (1, 2)]
        self.pipes = [Pipe(name, bootstrap, folder, tasks=3) for name in ("a", "b")]
        self.folder, self.bootstrap = folder, bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    @property
    def items(self) -> set[str]:
        """All connectors and tasks that run all the time."""
        return self.pipes[0].items | self.pipes[1].items

    @property
    def workers(self) -> list[Worker]:
        """Java's first."""
        return [self.java, *self.ours]

    def members(self, pipes: Sequence[Pipe]) -> dict[str, set[str]]:
        """The member ids in the consumer group of each pipe's sink."""
        described = self._admin.describe_consumer_groups([f"connect-{pipe.sink}" for pipe in pipes])
        return {group: {member.member_id for member in found.result(30).members} for group, found in described.items()}

    def shown(self) -> str:
        """What each worker shows, for who asks why something did not happen."""
        return shown_by(self.workers)


@pytest.fixture(scope="module")
def mixed(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Everything runs, shared among all three, and Java leads."""
    if not broker_process.is_running:
        broker_process.start()
    mixed = Mixed(tmp_path_factory.mktemp("mixed"), broker_process.bootstrap_servers)
    first, second = mixed.ours
    with mixed.java as java:
        java.wait_ready()
        with first, second:
            first.wait_ready()
            second.wait_ready()
            for pipe, through in zip(mixed.pipes, mixed.ours, strict=True):
                pipe.create(through)
            wait_shared(mixed.items, mixed.workers)
            assert leader(java) == java.url
            yield mixed


def test_everything_runs_once_and_all_workers_show_the_same(mixed: Mixed) -> None:
    move(mixed.pipes, "shared")
    # Java's worker and ours are members of one consumer group: one for each task.
    assert [len(members) for members in mixed.members(mixed.pipes).values()] == [3, 3]
    wait_shared(mixed.items, mixed.workers)
    check_well(mixed.java)


def test_every_worker_takes_every_request_while_java_leads(mixed: Mixed) -> None:
    assert leader(mixed.java) == mixed.java.url
    ask_everything(mixed, "javaled")


def test_every_worker_takes_every_request_while_headrace_leads(mixed: Mixed) -> None:
    move(mixed.pipes, "before Java is killed")
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.ours[0])
    check_well(mixed.java)
    mixed.java.kill()
    wait_shared(mixed.items, mixed.ours)
    move(mixed.pipes, "without Java")
    mixed.java.start()
    mixed.java.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) in [worker.url for worker in mixed.ours]
    ask_everything(mixed, "ourled")


def test_java_leads_again_once_ours_are_killed(mixed: Mixed) -> None:
    move(mixed.pipes, "before ours are killed")
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.java)
    for worker in mixed.ours:
        worker.kill_family()
    wait_shared(mixed.items, [mixed.java])
    assert leader(mixed.java) == mixed.java.url
    move(mixed.pipes, "without ours")
    for worker in mixed.ours:
        worker.start()
        worker.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) == mixed.java.url
    move(mixed.pipes, "with ours again")
    assert [len(members) for members in mixed.members(mixed.pipes).values()] == [3, 3]
    check_well(mixed.java)


def ask_everything(mixed: Mixed, about: str) -> None:
    """Each worker is asked to do each thing once, with a pipe of its own, and all of them show that it was done."""
    # Names of their own: the offsets of deleted sources stay.
    extras = [Pipe(f"{about}{n}", mixed.bootstrap, mixed.folder, tasks=2) for n in range(len(mixed.workers))]
    asked = list(zip(mixed.workers, extras, strict=True))
    for through, pipe in asked:
        pipe.create(through)
    wait_all_run(mixed, extras)
    move(extras, about)
    pause_and_resume(mixed, asked)
    restart(mixed, asked)
    for through, pipe in asked:
        pipe.tasks = 3
        through.request("PUT", f"/connectors/{pipe.sink}/config", pipe.configs[pipe.sink])
        through.request("PATCH", f"/connectors/{pipe.source}/config", {"batch.size": "1000"})
    wait_all_run(mixed, extras)
    assert all(
        w.get(f"/connectors/{e.source}")["config"]["batch.size"] == "1000" for w in mixed.workers for e in extras
    )
    move(extras, f"{about} with more tasks")
    stop_and_set_back(mixed, asked)
    for through, pipe in asked:
        for name in pipe.configs:
            through.request("DELETE", f"/connectors/{name}")
    wait_shared(mixed.items, mixed.workers)
    move(mixed.pipes, about)
    check_well(mixed.java)


def pause_and_resume(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    names = [(through, name) for through, pipe in asked for name in pipe.configs]
    for ask, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        for through, name in names:
            through.request("PUT", f"/connectors/{name}/{ask}")
        wait_states(mixed, {name for _, name in names}, state)


def restart(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    """Every connector is restarted, with all its tasks, and then one of its tasks alone."""
    before = mixed.members([pipe for _, pipe in asked])
    for through, pipe in asked:
        for name in pipe.configs:
            shown = through.request("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false").json()
            assert {one["state"] for one in (shown["connector"], *shown["tasks"])} == {"RESTARTING"}
    pipes = [pipe for _, pipe in asked]

    def restarted(kept: int) -> bool:
        now = mixed.members(pipes)
        return all(len(now[sink]) == len(before[sink]) and len(now[sink] & before[sink]) == kept for sink in before)

    eventually(lambda: restarted(0), WITHIN_S, lambda: f"{before}, then {mixed.members(pipes)}")
    wait_states(mixed, {name for pipe in pipes for name in pipe.configs}, "RUNNING")
    before = mixed.members(pipes)
    for through, pipe in asked:
        through.request("POST", f"/connectors/{pipe.source}/restart")
        for name in pipe.configs:
            through.request("POST", f"/connectors/{name}/tasks/0/restart")
    eventually(lambda: restarted(1), WITHIN_S, lambda: f"{before}, then {mixed.members(pipes)}")
    wait_states(mixed, {name for pipe in pipes for name in pipe.configs}, "RUNNING")


def stop_and_set_back(mixed: Mixed, asked: Sequence[tuple[Worker, Pipe]]) -> None:
    """Stopped connectors have no tasks, and their offsets are what any worker was asked to make them."""
    for through, pipe in asked:
        for name in pipe.configs:
            through.request("PUT", f"/connectors/{name}/stop")
    stopped = {name for _, pipe in asked for name in pipe.configs}
    wait_states(mixed, stopped, "STOPPED")
    for through, pipe in asked:
        assert not through.get(f"/connectors/{pipe.sink}/tasks")
        [read] = through.get(f"/connectors/{pipe.source}/offsets")["offsets"]
        wanted = {"offsets": [{"partition": read["partition"], "offset": {"position": 3}}]}
        through.request("PATCH", f"/connectors/{pipe.source}/offsets", wanted)
        through.request("DELETE", f"/connectors/{pipe.sink}/offsets")
    set_back: list[tuple[list[Any], list[Any]]] = [([{"position": 3}], []) for _ in asked for _ in mixed.workers]
    eventually(lambda: [offsets(worker, pipe) for _, pipe in asked for worker in mixed.workers] == set_back, WITHIN_S)


def offsets(worker: Worker, pipe: Pipe) -> tuple[list[Any], list[Any]]:
    """The offsets of a pipe's source and of its sink, as the worker shows them."""
    read, written = (worker.get(f"/connectors/{name}/offsets")["offsets"] for name in (pipe.source, pipe.sink))
    return [one["offset"] for one in read], [one["offset"] for one in written]


def wait_states(mixed: Mixed, connectors: set[str], state: str) -> None:
    """All workers show this state of these connectors, and of the tasks that they have."""

    def all_are() -> bool:
        shown = [statuses(worker) for worker in mixed.workers]
        states = {one["state"] for each in shown for item, one in each.items() if item.split("-")[0] in connectors}
        return states == {state}

    eventually(all_are, WITHIN_S, lambda: mixed.shown())


def wait_all_run(mixed: Mixed, extras: Sequence[Pipe]) -> None:
    wait_shared(mixed.items.union(*(pipe.items for pipe in extras)), mixed.workers)


def move(pipes: Sequence[Pipe], about: str) -> None:
    """New lines come out of every pipe, once."""
    for pipe in pipes:
        pipe.add(about)
    for pipe in pipes:
        pipe.wait_moved()
