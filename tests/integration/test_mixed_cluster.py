"""Apache's own worker and ours in one cluster, as real processes: work moves between them, and either leads.

Whatever is compared is what operators see: both REST APIs, the consumer groups of the sinks, and the lines that come
out. Workers are killed only after all that was moved is stored, so that every line must come out exactly once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.worker.kafka_broker import Broker
from tests.compat.apache_worker import ApacheWorker
from tests.integration.cluster_worker import ClusterWorker, cluster_settings, new_cluster
from tests.integration.worker_process import SINK, SOURCE, Topic, envelope, eventually, lines_of

Worker = ApacheWorker | ClusterWorker

WITHIN_S = 120
"""For what takes a few seconds on an idle machine."""


class Pipe:
    """A file whose lines go through a topic into another file: connectors `<name>in` and `<name>out`."""

    def __init__(self, name: str, bootstrap: str, folder: Path, tasks: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.source, self.sink, self.tasks = f"{name}in", f"{name}out", tasks
        self._partitions = tasks
        self.topic = Topic(bootstrap, name, partitions=self._partitions)
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

    def move(self, about: str, count: int = 20) -> None:
        """So many new lines come out; nothing is lost and nothing comes twice, now or earlier."""
        new = [f"{about} {number}" for number in range(count)]
        self.lines += new
        with self._read.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        wanted = {line.encode() for line in self.lines}
        eventually(lambda: wanted <= set(lines_of(self._written)), WITHIN_S, lambda: f"missing {self._missing()}")
        assert Counter(lines_of(self._written)) == Counter(dict.fromkeys(wanted, 1))
        sent = [value for partition in range(self._partitions) for value in self.topic.values(partition)]
        assert Counter(sent) == Counter({envelope(line): 1 for line in self.lines})

    def wait_stored(self, shown_by: Worker) -> None:
        """What was moved is stored in Kafka: offsets of the source and of the sink are at the ends."""
        end = self._read.stat().st_size

        def stored() -> bool:
            read, written = (shown_by.get(f"/connectors/{c}/offsets")["offsets"] for c in (self.source, self.sink))
            positions = {o["partition"]["kafka_partition"]: o["offset"]["kafka_offset"] for o in written}
            ends = {partition: self.topic.end(partition) for partition in range(self._partitions)}
            return bool(
                read
                and read[0]["offset"]["position"] == end
                and all(positions.get(p, 0) == end for p, end in ends.items())
            )

        eventually(stored, WITHIN_S)

    def _missing(self) -> list[str]:
        return [line for line in self.lines if line.encode() not in set(lines_of(self._written))]


def java_worker(folder: Path, bootstrap: str, cluster: str) -> ApacheWorker:
    settings = {**cluster_settings(cluster), "offset.flush.interval.ms": "1000"}
    return ApacheWorker(folder, bootstrap, cluster, settings)


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


def wait_shared(items: set[str], workers: Sequence[Worker], unless: Callable[[], bool] = lambda: False) -> None:
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

    eventually(shared, WITHIN_S, lambda: "\n".join(f"{w.url} shows {_short(statuses(w))}" for w in workers))


def check_well(java: ApacheWorker) -> None:
    """Java's worker lives, and nothing that it met was an error to it."""
    assert java.alive
    assert java.get("/health").get("status") == "healthy", java.log[-3000:]
    assert not re.findall(r"^\[[^]]*] (?:ERROR|FATAL) .*", java.log, re.MULTILINE)


def _short(shown: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {item: f"{one['state']}@{one['worker_id'].rpartition(':')[2]}" for item, one in sorted(shown.items())}


def test_a_java_cluster_moves_over_and_back(broker: str, tmp_path: Path) -> None:
    cluster = new_cluster()
    pipe = Pipe("lines", broker, tmp_path, tasks=2)
    with java_worker(tmp_path / "java", broker, cluster) as java:
        java.wait_ready()
        pipe.create(java)
        wait_shared(pipe.items, [java])
        pipe.move("Java alone")
        with ClusterWorker(tmp_path / "ours", broker, cluster) as ours:
            ours.wait_ready()
            wait_shared(pipe.items, [java, ours])
            pipe.move("both")
            check_well(java)
            java.stop()
            wait_shared(pipe.items, [ours])
            pipe.move("ours alone")
            java.start()
            java.wait_ready()
            wait_shared(pipe.items, [java, ours])
            pipe.move("both again")
            assert ours.stop() == 0
            wait_shared(pipe.items, [java])
            pipe.move("Java alone again")
        check_well(java)


class Mixed:
    """A worker of Java, which leads at first, and two of ours; two pipes run on them."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        cluster = new_cluster()
        self.java = java_worker(folder / "java", bootstrap, cluster)
        self.ours = [ClusterWorker(folder / f"ours{n}", bootstrap, cluster) for n in (1, 2)]
        self.pipes = [Pipe(name, bootstrap, folder, tasks=3) for name in ("a", "b")]
        self.bootstrap = bootstrap

    @property
    def items(self) -> set[str]:
        """All connectors and tasks that run all the time."""
        return self.pipes[0].items | self.pipes[1].items

    @property
    def workers(self) -> list[Worker]:
        """Java's first."""
        return [self.java, *self.ours]

    def move(self, about: str) -> None:
        """New lines come out of every pipe, once."""
        for pipe in self.pipes:
            pipe.move(about)

    def check_members(self) -> None:
        """The consumer group of each sink has just as many members as the sink has tasks."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        groups = [f"connect-{pipe.sink}" for pipe in self.pipes]
        for group, described in admin.describe_consumer_groups(groups).items():
            assert len(described.result(30).members) == 3, group


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
    mixed.move("shared")
    mixed.check_members()
    wait_shared(mixed.items, mixed.workers)
    check_well(mixed.java)


def test_every_worker_takes_every_request_while_java_leads(mixed: Mixed) -> None:
    assert leader(mixed.java) == mixed.java.url
    ask_everything(mixed, "java-leads")


def test_every_worker_takes_every_request_while_headrace_leads(mixed: Mixed) -> None:
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.ours[0])
    check_well(mixed.java)
    mixed.java.kill()
    wait_shared(mixed.items, mixed.ours)
    mixed.move("without Java")
    mixed.java.start()
    mixed.java.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) in [worker.url for worker in mixed.ours]
    ask_everything(mixed, "headrace-leads")


def test_java_leads_again_once_ours_are_killed(mixed: Mixed) -> None:
    for pipe in mixed.pipes:
        pipe.wait_stored(mixed.java)
    for worker in mixed.ours:
        worker.kill_family()
    wait_shared(mixed.items, [mixed.java])
    assert leader(mixed.java) == mixed.java.url
    mixed.move("without ours")
    for worker in mixed.ours:
        worker.start()
        worker.wait_ready()
    wait_shared(mixed.items, mixed.workers)
    assert leader(mixed.java) == mixed.java.url
    mixed.move("with ours again")
    mixed.check_members()
    check_well(mixed.java)


def ask_everything(mixed: Mixed, about: str) -> None:
    """Each worker is asked to do each thing once, and all of them show that it was done."""
    for number, (through, other) in enumerate(zip(mixed.workers, [*mixed.workers[1:], mixed.java], strict=True)):
        extra = Pipe(f"x{number}", mixed.bootstrap, mixed.pipes[0].folder, tasks=2)
        extra.create(through)
        items = mixed.items | extra.items
        wait_shared(items, mixed.workers)
        extra.move(about)
        for name in extra.configs:
            pause_and_resume(mixed, through, name)
            restart(mixed, through, name)
        reconfigure(mixed, through, extra)
        wait_shared(mixed.items | extra.items, mixed.workers)
        extra.move(f"{about} with more tasks")
        stop_and_move_offsets(mixed, through, extra)
        for name in extra.configs:
            through.request("DELETE", f"/connectors/{name}")
        eventually(lambda: all(set(statuses(worker)) == mixed.items for worker in mixed.workers), WITHIN_S)
        assert other.get("/connectors") and extra.sink not in other.get("/connectors")
        wait_shared(mixed.items, mixed.workers)
    mixed.move(about)
    check_well(mixed.java)
