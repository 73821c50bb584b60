"""`python -m tests.bench.scrape`: the CPU time of a scrape of 4,000 sink tasks, idle and after a batch."""

from __future__ import annotations

import time

from headrace.plugins.interop.kafka.client_statistics import ClientStatistics
from headrace.plugins.offsets import PartitionResult
from headrace.worker.model import State, Status, TaskId
from tests.unit.worker.herder.test_metrics import HERE, worker

CONNECTORS = 1_000
TASKS = 4
REPEATS = 5


def main() -> None:
    """Print both figures."""
    running = Status(State.RUNNING, HERE)
    made = worker({f"connector-{number}": (running, [running] * TASKS) for number in range(CONNECTORS)})
    names = [TaskId(f"connector-{number}", task) for number in range(CONNECTORS) for task in range(TASKS)]
    tasks = [made.tasks.begin(name, "sink") for name in names]
    for task in tasks:
        task.is_in(State.RUNNING)
    clients = [ClientStatistics("consumer", {"client.id": f"connector-consumer-{name}"}) for name in names]

    def measure(what: str) -> None:
        took = []
        for _ in range(REPEATS):
            began = time.process_time()
            size = len(made.metrics_text().encode())
            took.append(time.process_time() - began)
        ms = min(took) * 1000
        print(f"{len(tasks)} tasks and {len(clients)} clients, {what}: {ms:.0f} ms of CPU, {size / 1e6:.1f} MB")

    measure("idle")
    for task in tasks:
        with task.attempt():
            task.moved([PartitionResult(written=5)])
        task.committed(0.012)
        task.stands(partitions=3, uncommitted=17, lag=5)
    measure("after a batch")


if __name__ == "__main__":
    main()
