"""A cluster of Apache's own worker and of ours, and pipes whose lines tell what was lost or came twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

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
        """Wait until Kafka has stored what was moved: the offsets of the source and of the sink are at the ends."""
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
        return [value for partition in range(_PARTITIONS) for value in self.topic.values(partition)]


QUICK = {
    "offset.flush.interval.ms": "1000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "1500",
}


def java_worker(folder: Path, bootstrap: str, cluster: str, settings: Mapping[str, str] | None = None) -> ApacheWorker:
    return ApacheWorker(folder, bootstrap, cluster, {**cluster_settings(cluster), **QUICK, **(settings or {})})


def our_worker(folder: Path, bootstrap: str, cluster: str, settings: Mapping[str, str] | None = None) -> ClusterWorker:
    return ClusterWorker(folder, bootstrap, cluster, {**QUICK, **(settings or {})})


def statuses(worker: Worker) -> dict[str, dict[str, Any]]:
    """The statuses that a worker shows of every connector and task, by `name` and `name-0`."""
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
    """The items that Java's worker holds, by what it logged when it joined last."""
    said = re.findall(r"got assignment: Assignment\{.*connectorIds=\[(.*?)\], taskIds=\[(.*?)\]", java.log)
    return {item for items in (said[-1] if said else ()) for item in items.split(", ") if item}


def wait_shared(items: set[str], workers: Sequence[Worker]) -> None:
    """Every item runs on one of the workers, evenly shared, and all workers show the very same statuses and configs."""
    ids = {worker.worker_id for worker in workers}

    def shared() -> bool:
        shown = [statuses(worker) for worker in workers]
        documents = [worker.get("/connectors?expand=status&expand=info") for worker in workers]
        if any(document != documents[0] for document in documents) or any(one != shown[0] for one in shown):
            return False
        if set(shown[0]) != items:
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
    # A refusal that it hands on from another worker is an error in its log too, whoever leads, and so is its own
    # while it expects a rebalance.
    wrong = re.findall(r"^\[[^]]*] (?:ERROR|FATAL) (?!Error forwarding REST request).*\n.*", java.log, re.MULTILINE)
    assert not [one for one in wrong if "RebalanceNeededException" not in one], wrong


def shown_by(workers: Sequence[Worker]) -> str:
    """States and owners, as each worker shows them."""
    return "\n".join(
        f"{worker.worker_id} shows "
        + ", ".join(f"{i} {one['state']}@{one['worker_id']}" for i, one in sorted(statuses(worker).items()))
        for worker in workers
    )


class Mixed:
    """A worker of Java, which leads at first, and two of ours; two pipes run on them."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        cluster = new_cluster()
        self.java = java_worker(folder / "java", bootstrap, cluster)
        history = {"config.history.topic": f"{cluster}-history", "config.history.replication.factor": "1"}
        self.ours = [our_worker(folder / f"ours{n}", bootstrap, cluster, history) for n in (1, 2)]
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
        return {group: {member.member_id for member in found.result(60).members} for group, found in described.items()}

    def shown(self) -> str:
        """Text of what each worker shows, to find out why something did not happen."""
        return shown_by(self.workers)


def move(pipes: Sequence[Pipe], about: str) -> None:
    """New lines come out of every pipe, once."""
    for pipe in pipes:
        pipe.add(about)
    for pipe in pipes:
        pipe.wait_moved()
