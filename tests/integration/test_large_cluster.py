"""Workers of a cluster that has 1,000 paused connectors of 4 tasks each: how soon they are ready, answer and share.

What is asserted is the worker's own processor time; how long it took is printed, and tells of the machine's other work,
too. On two quiet cores: ready in 8 s, all listed in 0.1 s, shared among three workers in 10 s.
"""

from __future__ import annotations

import datetime as dt
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.plugins.interop.java.jackson import java_json
from tests.integration.cluster_worker import ClusterWorker, cluster_settings, new_cluster
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

CONNECTORS, TASKS = 1000, 4
ITEMS: Final = CONNECTORS * (1 + TASKS)
READY_CPU_S, EXPAND_CPU_S, REBALANCE_CPU_S = 24.0, 1.0, 24.0
"""About four times what it takes: machines differ by two, a busy one's caches cost a half more. Starts are in it."""
SOON_S: Final = 120.0
"""On a machine that is busy with other tests."""
_STARTED: Final = re.compile(r"^\[(.{23})\] INFO Kafka Connect started ", re.MULTILINE)


def paused(name: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The records of a paused connector, as Connect writes them."""
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": str(TASKS),
        "topics": f"{name}-topic",
        "file": str(folder / f"{name}.txt"),
        "name": name,
    }
    task = {**config, "task.class": "org.apache.kafka.connect.file.FileStreamSinkTask"}
    yield f"target-state-{name}", {"state": "PAUSED", "state.v2": "PAUSED"}
    yield f"connector-{name}", {"properties": config}
    yield from ((f"task-{name}-{number}", {"properties": task}) for number in range(TASKS))
    yield f"commit-{name}", {"tasks": TASKS}


def fill(broker: str, cluster: str, folder: Path) -> None:
    """The cluster has all its connectors."""
    topic = cluster_settings(cluster)["config.storage.topic"]
    new = NewTopic(topic, num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": broker})  # a future ends with its client
    admin.create_topics([new], operation_timeout=60)[topic].result(60)
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20, "enable.idempotence": True})
    for number in range(CONNECTORS):
        for key, value in paused(f"c{number:04}", folder):
            producer.produce(topic, java_json(value), key)
    assert producer.flush(60) == 0


def statuses(worker: ClusterWorker) -> list[dict[str, Any]]:
    """Of all connectors and tasks."""
    shown = [one["status"] for one in worker.get("/connectors?expand=status").values()]
    return [status for one in shown for status in (one["connector"], *one["tasks"])]


def shares(worker: ClusterWorker) -> str:
    """Counts of what is in which state on which worker."""
    return str(Counter((one["worker_id"], one["state"]) for one in statuses(worker)))


def all_paused(worker: ClusterWorker) -> bool:
    return Counter(one["state"] for one in statuses(worker)) == {"PAUSED": ITEMS}


def shared(worker: ClusterWorker, workers: Sequence[ClusterWorker]) -> bool:
    """True if all is paused, on these workers, as evenly as can be, by the statuses that this one shows."""
    shown = worker.get("/connectors?expand=status").values()
    connectors = Counter(one["status"]["connector"]["worker_id"] for one in shown)
    tasks = Counter(task["worker_id"] for one in shown for task in one["status"]["tasks"])
    return all_paused(worker) and all(
        set(share) == {one.worker_id for one in workers} and max(share.values()) - min(share.values()) <= 1
        for share in (connectors, tasks)
    )


def rebalancing(worker: ClusterWorker) -> bool:
    """True if the worker expects another rebalance."""
    return "\nkafka_connect_worker_rebalance_rebalancing 0.0\n" not in worker.request("GET", "/metrics").text


def cpu_s(worker: ClusterWorker) -> float:
    """Of the worker's own process, without Spark's."""
    times = psutil.Process(worker.process.pid).cpu_times()
    return float(times.user + times.system)


def started_at(worker: ClusterWorker) -> float:
    """The moment it began to join the group, in seconds of the epoch."""
    found = eventually(lambda: _STARTED.search(worker.log()), 90)
    return dt.datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()


@contextmanager
def asked_all_the_while(worker: ClusterWorker) -> Iterator[list[float]]:
    """Ask for `GET /connectors/{name}/status` all the while; yield the seconds that each answer took."""
    took: list[float] = []
    enough = threading.Event()

    def ask() -> None:
        while not enough.wait(0.1):
            began = time.monotonic()
            worker.get("/connectors/c0000/status")
            took.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took
    finally:
        enough.set()
        thread.join()


@pytest.mark.soak
def test_a_thousand_paused_connectors(broker: str, tmp_path: Path) -> None:
    cluster = new_cluster()
    fill(broker, cluster, tmp_path)
    workers = [ClusterWorker(tmp_path / f"w{number}", broker, cluster) for number in range(3)]
    first, *others = workers
    with ExitStack() as stack:
        began = time.monotonic()
        stack.enter_context(first)
        first.wait_ready(SOON_S)
        ready_s, ready_cpu_s = time.monotonic() - began, cpu_s(first)
        eventually(lambda: all_paused(first), SOON_S)
        paused_s, paused_cpu_s = time.monotonic() - began, cpu_s(first)
        threads = psutil.Process(first.process.pid).num_threads()

        before, answers_s = cpu_s(first), list[float]()
        for _ in range(5):
            asked = time.monotonic()
            shown = first.get("/connectors?expand=status&expand=info")
            answers_s.append(time.monotonic() - asked)
        assert len(shown) == CONNECTORS
        assert len(shown["c0999"]["info"]["tasks"]) == len(shown["c0999"]["status"]["tasks"]) == TASKS
        expand_s, expand_cpu_s = statistics.median(answers_s), (cpu_s(first) - before) / len(answers_s)

        before = cpu_s(first)
        for worker in others:
            stack.enter_context(worker)
        with asked_all_the_while(first) as took_s:
            joined = max(map(started_at, others))
            for worker in workers:
                eventually(partial(shared, worker, workers), SOON_S, partial(shares, first), every_s=0.25)
            rebalance_s = time.time() - joined
        rebalance_cpu_s = [cpu_s(first) - before, *map(cpu_s, others)]
        assert not any(map(rebalancing, workers))
    print(
        f"\nready {ready_s:.1f} s ({ready_cpu_s:.1f} s of CPU), all PAUSED {paused_s:.1f} s ({paused_cpu_s:.1f} s), "
        f"{threads} threads\nexpand=status&expand=info {expand_s:.2f} s ({expand_cpu_s:.2f} s)\nrebalance of 3 workers "
        f"{rebalance_s:.1f} s (CPU {', '.join(f'{one:.1f}' for one in rebalance_cpu_s)} s, starts included), "
        f"status answers meanwhile {statistics.median(took_s):.3f} s, at most {max(took_s):.3f} s"
    )
    assert threads < 200
    assert paused_cpu_s < READY_CPU_S
    assert expand_cpu_s < EXPAND_CPU_S
    assert max(rebalance_cpu_s) < REBALANCE_CPU_S
