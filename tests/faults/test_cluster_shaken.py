"""Workers of a cluster are killed, paused, stopped and started at random while records move: nothing is lost."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.numbered_records import Flow, numbered_plugins
from tests.integration.worker_process import Topic, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

WORKERS = 3
TASKS = 4
SESSION_S = 6.0
SOON_FORGOTTEN = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "2000"}
RECORDS_PER_S = 100
"""Of each stream."""
UNCOMMITTED_S = 20.0
"""The time since a sink's last commit, at most; a rebalance that waits for a disturbed worker comes on top."""
READY_S = 300


class Shaker:
    """Does one thing after another to workers."""

    def __init__(self, workers: Sequence[ClusterWorker], chance: random.Random) -> None:
        self._workers = workers
        self._chance = chance
        self._to_come: list[Callable[[ClusterWorker], None]] = []
        self.done: list[str] = []
        self.longest_s = 0.0
        """From a disturbance until its worker was ready again."""

    def shake(self) -> None:
        """One worker has been disturbed, and is ready again; any three times in a row each is disturbed another way."""
        worker = self._chance.choice(self._workers)
        if not self._to_come:
            self._to_come = self._chance.sample((self._kill, self._pause, self._stop), 3)
        action = self._to_come.pop()
        self.done.append(f"{action.__name__} {worker.worker_id}")
        began = time.monotonic()
        action(worker)
        worker.wait_ready(READY_S)
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    def _kill(self, worker: ClusterWorker) -> None:
        worker.kill()
        self._wait(0, 5)
        worker.start()

    def _pause(self, worker: ClusterWorker) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        self._wait(SESSION_S + 1, SESSION_S + 4)
        worker.process.send_signal(signal.SIGCONT)

    def _stop(self, worker: ClusterWorker) -> None:
        assert worker.stop(READY_S) == 0
        worker.start()

    def _wait(self, least_s: float, most_s: float) -> None:
        time.sleep(self._chance.uniform(least_s, most_s))


@contextlib.contextmanager
def appending(flows: Sequence[Flow]) -> Iterator[Callable[[], None]]:
    """Records are appended to all flows until the answer is called."""
    enough = threading.Event()

    def append() -> None:
        while not enough.wait(0.2):
            for flow in flows:
                flow.append(RECORDS_PER_S // 5)

    thread = threading.Thread(target=append)
    thread.start()

    def end() -> None:
        enough.set()
        thread.join()

    try:
        yield end
    finally:
        end()


@pytest.mark.parametrize(
    ("seconds", "outage_s", "seed"),
    [
        pytest.param(0, 0, 7, id="short"),
        pytest.param(300, 30, 1, id="long", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1800)
def test_a_shaken_cluster_loses_nothing(
    broker: str, broker_process: Broker, tmp_path: Path, seconds: float, outage_s: float, seed: int
) -> None:
    cluster, plugins = new_cluster(), numbered_plugins(tmp_path / "plugins")
    settings = {"plugin.path": str(plugins), "task.shutdown.graceful.timeout.ms": "10000"}
    workers = [ClusterWorker(tmp_path / f"w{n}", broker, cluster, settings) for n in range(WORKERS)]
    topics = [Topic(broker, f"flow{n}", partitions=TASKS) for n in range(3)]
    flows = [Flow.in_folder(tmp_path / "flows", f"f{n}", topic.name, TASKS) for n, topic in enumerate(topics)]
    items = len(flows) * 2 * (1 + TASKS)
    with contextlib.ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker)
        for worker in workers:
            worker.wait_ready(READY_S)
        for flow in flows:
            for name, config in flow.connectors().items():
                overrides = SOON_FORGOTTEN if name.endswith("sink") else {}
                workers[0].request("PUT", f"/connectors/{name}/config", {**config, **overrides})
        wait_balanced(workers[0], among=WORKERS, items=items, within_s=READY_S)
        shaker = Shaker(workers, random.Random(seed))
        with appending(flows) as end:
            began = time.monotonic()
            outage_at = began + seconds / 2 if outage_s else float("inf")
            while time.monotonic() - began < seconds or len(shaker.done) < 3:
                shaker.shake()
                if time.monotonic() > outage_at:
                    outage_at = float("inf")
                    broker_process.kill()
                    time.sleep(outage_s)
                    broker_process.start()
            end()
        eventually(
            lambda: not any(flow.arrived().missing for flow in flows),
            READY_S,
            lambda: f"{[flow.arrived().brief() for flow in flows]} after {shaker.done}",
        )
        wait_balanced(workers[0], among=WORKERS, items=items, within_s=READY_S)
    most = int((UNCOMMITTED_S + shaker.longest_s) * RECORDS_PER_S * TASKS)
    for flow in flows:
        print(flow.arrived().brief(), shaker.done)
        flow.arrived().check(longest_replay=most)
