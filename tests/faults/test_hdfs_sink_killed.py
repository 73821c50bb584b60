"""`kill -9` of the worker, of HDFS and of S3 at any moment: each record is in one file, and nothing else is left."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.hdfs_server import HdfsServer
from tests.integration.sink_places import S3, Hdfs, Local, Numbers, Place
from tests.integration.worker_process import WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS = 2
FLUSH = 5000
MERGED = {"rotate.interval.ms": "300", "compact.files": "3"}
SOON_FORGOTTEN = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "2000"}


def _nothing(*_: str) -> None:
    pass


@dataclass
class Case:
    """A store, and what is done to it whenever the worker was killed."""

    place: Place
    settings: dict[str, str]
    harm: Callable[[str], None] = _nothing
    """Called with the topic's name."""
    check: Callable[[], None] = _nothing
    """Nothing of the harm is left."""


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """The store that the test is for; where it renames, also the clock ends files, and small ones are merged."""
    if request.param == "local":
        return Case(Local(tmp_path / "store"), MERGED)
    if request.param == "s3":
        return _s3(S3(request.getfixturevalue("s3_server")))
    server: HdfsServer = request.getfixturevalue("hdfs_server")
    nodes = itertools.cycle((server.name_node, server.data_node))

    def restart(_: str) -> None:
        next(nodes).kill()
        server.start()

    return Case(Hdfs.by_web(server), MERGED, restart)


def _s3(place: S3) -> Case:
    """An upload is left open each time."""
    client = place.client

    def begin_upload(topic: str) -> None:
        key = f"topics/{topic}/partition=0/{topic}+0+0000000000.snappy.parquet"
        client.create_multipart_upload(Bucket=place.bucket, Key=key)

    def check() -> None:
        assert not client.list_multipart_uploads(Bucket=place.bucket).get("Uploads")

    return Case(place, {}, begin_upload, check)


@pytest.mark.parametrize(
    ("case", "batches", "kills", "seed"),
    [
        pytest.param("local", 20, 2, 1, id="local", marks=pytest.mark.soak),
        pytest.param("hdfs", 20, 2, 2, id="hdfs", marks=pytest.mark.long),
        pytest.param("s3", 20, 2, 3, id="s3", marks=pytest.mark.soak),
        pytest.param("local", 200, 20, 4, id="local-long", marks=pytest.mark.soak),
        pytest.param("hdfs", 200, 20, 5, id="hdfs-long", marks=pytest.mark.soak),
        pytest.param("s3", 200, 20, 6, id="s3-long", marks=pytest.mark.soak),
    ],
    indirect=["case"],
)
@pytest.mark.timeout(1800)
def test_each_record_is_in_one_file(
    broker: str, tmp_path: Path, case: Case, batches: int, kills: int, seed: int
) -> None:
    settings = {"tasks.max": "2", **case.settings, **SOON_FORGOTTEN}
    chance, numbers = random.Random(seed), Numbers(broker, case.place, FLUSH, PARTITIONS, **settings)
    share = batches // (kills + 1) * FLUSH
    with WorkerProcess(tmp_path, broker, [connector_file(tmp_path, "sink", **numbers.config)]) as worker:
        for _ in range(kills):
            before = numbers.count()
            numbers.send(share)
            wanted = before + chance.randrange(1, PARTITIONS * share // 2)
            eventually(lambda: numbers.count() >= wanted, 120, worker.log, every_s=0.05)  # noqa: B023
            worker.kill()
            case.harm(numbers.topic.name)
            worker.start()
        numbers.send(share)
        eventually(lambda: numbers.count() >= PARTITIONS * numbers.sent, 180, worker.log, every_s=0.5)
        worker.wait_states("sink", "RUNNING", "RUNNING")
        assert worker.stop() == 0
    numbers.check()
    if "compact.files" in case.settings:
        assert len(case.place.paths(numbers.topic.name)) < PARTITIONS * numbers.sent // FLUSH
    case.check()
