"""`kill -9` of the worker, of HDFS and of S3 at any moment: each record is in one file, and nothing else is left."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import hdfs
import pyarrow.parquet as pq
import pytest
from hdfs.util import HdfsError
from pyarrow import BufferReader

from tests.integration.hdfs_server import HdfsServer
from tests.integration.s3_server import S3Server
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"int64","optional":false,"field":"id"}]},'
PARTITIONS = 2
FLUSH = 5000
MERGED = {"rotate_interval_ms": "300", "compact_files": "3"}
SOON_FORGOTTEN = {"consumer_override_session_timeout_ms": "6000", "consumer_override_heartbeat_interval_ms": "2000"}


class Place(ABC):
    """A store that files go to, and its server."""

    connector = "HdfsSink"
    settings: dict[str, str]

    @abstractmethod
    def paths(self, folder: str = "") -> list[str]:
        """All files below this folder of the topics' folder, relative to the latter."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """What is in a file."""

    def restart(self, topic: str) -> None:  # noqa: B027
        """Its server is killed and comes back, where it keeps its files over that; else an upload is left open."""

    def check_clean(self) -> None:  # noqa: B027
        """Nothing of a crash is left."""


class Local(Place):
    """The local disk; also the clock ends files, and small ones are merged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "store"
        self.settings = {"store_url": f"file://{self.folder}", **MERGED}

    def paths(self, folder: str = "") -> list[str]:
        above = self.folder / "topics"
        return [str(path.relative_to(above)) for path in (above / folder).rglob("*") if path.is_file()]

    def read(self, path: str) -> bytes:
        return (self.folder / "topics" / path).read_bytes()


class Hdfs(Place):
    """HDFS, whose nodes are killed in turn; also the clock ends files, and small ones are merged."""

    def __init__(self, server: HdfsServer, name: str) -> None:
        self.server, self.name, self.turn = server, name, 0
        self.settings = {"store_url": f"{server.web_url}/{name}", **MERGED}

    def paths(self, folder: str = "") -> list[str]:
        above = f"/{self.name}/topics"
        if self._client.status(f"{above}/{folder}", strict=False) is None:
            return []
        walked = self._client.walk(f"{above}/{folder}".rstrip("/"))
        return [f"{inside}/{name}"[len(above) + 1 :] for inside, _, names in walked for name in names]

    def read(self, path: str) -> bytes:
        with self._client.read(f"/{self.name}/topics/{path}") as reader:
            return bytes(reader.read())

    @property
    def _client(self) -> Any:
        return hdfs.InsecureClient(f"http://{urlsplit(self.server.web_url).netloc}", user="root")

    def restart(self, topic: str) -> None:
        node = (self.server.name_node, self.server.data_node)[self.turn % 2]
        self.turn += 1
        node.kill()
        self.server.start()


class S3(Place):
    """A bucket; only counts end files, so that a file comes again as it was."""

    connector = "S3Sink"

    def __init__(self, server: S3Server) -> None:
        self.server, self.bucket = server, server.bucket()
        access = server.settings()
        self.settings = {
            "store_url": server.endpoint,
            "s3_bucket_name": self.bucket,
            "s3_region": access.region,
            "aws_access_key_id": access.access_key,
            "aws_secret_access_key": access.secret_key.value if access.secret_key else "",
        }

    def paths(self, folder: str = "") -> list[str]:
        pages = (
            self.server.client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self.bucket, Prefix=f"topics/{folder}")
        )
        return [one["Key"].removeprefix("topics/") for page in pages for one in page.get("Contents", ())]

    def read(self, path: str) -> bytes:
        answer = self.server.client().get_object(Bucket=self.bucket, Key=f"topics/{path}")
        return bytes(answer["Body"].read())

    def restart(self, topic: str) -> None:
        key = f"topics/{topic}/partition=0/{topic}+0+0000000000.snappy.parquet"
        self.server.client().create_multipart_upload(Bucket=self.bucket, Key=key)

    def check_clean(self) -> None:
        assert not self.server.client().list_multipart_uploads(Bucket=self.bucket).get("Uploads")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The store that the test is for."""
    if request.param == "local":
        yield Local(tmp_path)
    elif request.param == "hdfs":
        yield Hdfs(request.getfixturevalue("hdfs_server"), tmp_path.name)
    else:
        yield S3(request.getfixturevalue("s3_server"))


class Pipe:
    """A topic of numbers, and the sink of its files."""

    def __init__(self, bootstrap: str, place: Place, folder: Path) -> None:
        self.topic, self.place, self.sent = Topic(bootstrap, "rows", partitions=PARTITIONS), place, 0
        self.connector = connector_file(
            folder,
            "sink",
            **{**place.settings, **SOON_FORGOTTEN},
            connector_class=place.connector,
            topics=self.topic.name,
            tasks_max="2",
            format_class="parquet",
            flush_size=str(FLUSH),
        )

    def send(self, count: int) -> None:
        """So many more numbers are in each partition."""
        for partition in range(PARTITIONS):
            numbers = range(self.sent, self.sent + count)
            self.topic.send([SCHEMA + b'"payload":{"id":%d}}' % number for number in numbers], partition)
        self.sent += count

    def rows(self) -> dict[int, Counter[int]]:
        """How often each number is in a partition's files."""
        found: dict[int, Counter[int]] = {partition: Counter() for partition in range(PARTITIONS)}
        for path in self.place.paths(self.topic.name):
            numbers = pq.read_table(BufferReader(self.place.read(path)))["id"].to_pylist()
            _, partition, *offsets = path.rpartition("/")[2].partition(".")[0].split("+")
            assert [int(offset) for offset in offsets] == [numbers[0], numbers[-1]][: len(offsets)], path
            found[int(partition)].update(numbers)
        return found

    def count(self) -> int:
        """How many rows are in files; -1 while the store cannot say."""
        try:
            return sum(len(numbers) for numbers in self.rows().values())
        except (HdfsError, OSError):  # its name node is in safe mode, its data node away, a file replaced by another
            return -1

    def check(self) -> None:
        """All that was sent is there, once; what is not committed is gone."""
        for numbers in self.rows().values():
            assert sorted(numbers) == list(range(self.sent))
            assert set(numbers.values()) == {1}
        if "compact_files" in self.place.settings:
            assert len(self.place.paths(self.topic.name)) < PARTITIONS * self.sent // FLUSH
        left = set(self.place.paths()) - set(self.place.paths(self.topic.name))
        assert all("/at+" in path for path in left), left
        self.place.check_clean()


@pytest.mark.parametrize(
    ("place", "batches", "kills", "seed"),
    [
        pytest.param("local", 20, 2, 1, id="local"),
        pytest.param("hdfs", 20, 2, 2, id="hdfs"),
        pytest.param("s3", 20, 2, 3, id="s3"),
        pytest.param("local", 200, 20, 4, id="local-long", marks=pytest.mark.soak),
        pytest.param("hdfs", 200, 20, 5, id="hdfs-long", marks=pytest.mark.soak),
        pytest.param("s3", 200, 20, 6, id="s3-long", marks=pytest.mark.soak),
    ],
    indirect=["place"],
)
@pytest.mark.timeout(1800)
def test_each_record_is_in_one_file(
    broker: str, tmp_path: Path, place: Place, batches: int, kills: int, seed: int
) -> None:
    chance, pipe = random.Random(seed), Pipe(broker, place, tmp_path)
    share = batches // (kills + 1) * FLUSH
    with WorkerProcess(tmp_path, broker, [pipe.connector]) as worker:
        for _ in range(kills):
            before = pipe.count()
            pipe.send(share)
            wanted = before + chance.randrange(1, PARTITIONS * share // 2)
            eventually(lambda: pipe.count() >= wanted, 120, worker.log, every_s=0.05)  # noqa: B023
            worker.kill()
            place.restart(pipe.topic.name)
            worker.start()
        pipe.send(share)
        eventually(lambda: pipe.count() >= PARTITIONS * pipe.sent, 180, worker.log, every_s=0.5)
        worker.wait_states("sink", "RUNNING", "RUNNING")
        assert worker.stop() == 0
    pipe.check()
