"""`kill -9` of the worker, its driver and the catalog at any moment: a table has each record once, or each last row."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.iceberg_pipe import KeyedPipe, Pipe
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.worker_process import WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

SHARE = 3000
"""Records of a partition between two kills."""
WITHIN_S = 240


@pytest.fixture
def server(tmp_path: Path) -> Iterator[IcebergRestServer]:
    """A catalog of this test's own, to kill."""
    server = IcebergRestServer(tmp_path / "rest")
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize(
    ("kind", "kills", "seed"),
    [
        pytest.param(Pipe, 2, 1, id="append", marks=pytest.mark.long),
        pytest.param(KeyedPipe, 4, 2, id="upsert", marks=pytest.mark.soak),
        pytest.param(Pipe, 30, 3, id="append-long", marks=pytest.mark.soak),
        pytest.param(KeyedPipe, 30, 4, id="upsert-long", marks=pytest.mark.soak),
    ],
)
def test_the_table_is_the_topic(
    broker: str, tmp_path: Path, server: IcebergRestServer, kind: type[Pipe], kills: int, seed: int
) -> None:
    pipe, chance = kind(broker, server, server.properties), random.Random(seed)
    settings = {"task.restart.backoff.ms": "200"}
    with WorkerProcess(
        tmp_path / "worker", broker, [connector_file(tmp_path, "sink", **pipe.config)], settings
    ) as worker:

        def kill_worker() -> None:
            worker.kill()
            worker.start()

        def kill_driver() -> None:
            driver: psutil.Process = worker.jvm()
            driver.kill()

        def kill_catalog() -> None:
            server.kill()
            server.start()

        ways: list[Callable[[], None]] = [kill_worker, kill_driver, kill_catalog, kill_worker]
        done = []
        for number in range(kills):
            before = max(pipe.written(), 0)
            pipe.send(SHARE)
            wanted = before + chance.randrange(1, SHARE)
            eventually(lambda: pipe.written() >= wanted, WITHIN_S, worker.log, every_s=0.05)  # noqa: B023
            way = ways[number % len(ways)]
            done.append(way.__name__)
            way()
        pipe.send(SHARE)
        eventually(pipe.is_complete, WITHIN_S, lambda: f"{pipe.written()} after {done}: {worker.log()[-3000:]}", 0.5)
        worker.wait_states("sink", "RUNNING", "RUNNING")
        # A new owner removes what a dead one left after its own first commit.
        pipe.send(1)
        eventually(pipe.is_complete, WITHIN_S, worker.log, 0.5)
        assert worker.stop() == 0
    pipe.check()
