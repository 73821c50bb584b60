"""Places that sinks of files write to in tests, and topics of numbers whose every offset is looked for there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import hdfs
import pyarrow.parquet as pq
from hdfs.util import HdfsError
from pyarrow import BufferReader
from urllib3.exceptions import HTTPError

from tests.files_below import files_below
from tests.integration.hdfs_server import USER, HdfsServer
from tests.integration.s3_server import REGION, S3Server
from tests.integration.worker_process import Topic

SCHEMA = b'{"schema":{"type":"struct","optional":false,"fields":[{"type":"int64","optional":false,"field":"id"}]},'


class Place(ABC):
    """A store that files go to."""

    connector = "HdfsSink"
    settings: dict[str, str]

    @abstractmethod
    def paths(self, folder: str = "") -> list[str]:
        """All files below this folder of the topics' folder, relative to the latter."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the bytes of a file."""


class Local(Place):
    """The local disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = {"store.url": f"file://{folder}"}

    def paths(self, folder: str = "") -> list[str]:
        above = self.folder / "topics"
        return [str(path.relative_to(above)) for path in files_below(above / folder)]

    def read(self, path: str) -> bytes:
        return (self.folder / "topics" / path).read_bytes()


class Hdfs(Place):
    """A folder of HDFS; read by WebHDFS, which any of the `addresses` serves."""

    def __init__(self, store_url: str, addresses: Sequence[str], user: str = USER, **settings: str) -> None:
        self.name = uuid4().hex
        self.client = hdfs.InsecureClient(";".join(f"http://{one}" for one in addresses), user=USER)
        self.settings = {"store.url": f"{store_url}/{self.name}", "hadoop.user": user, **settings}

    @classmethod
    def by_web(cls, server: HdfsServer, user: str = USER) -> Hdfs:
        """Written by WebHDFS."""
        return cls(server.web_url, [server.web_address], user)

    @classmethod
    def by_jvm(cls, server: HdfsServer, user: str = USER) -> Hdfs:
        """Written by Hadoop's client in Spark's JVM."""
        return cls(server.url, [server.web_address], user)

    def paths(self, folder: str = "") -> list[str]:
        above = f"/{self.name}/topics"
        if self.client.status(f"{above}/{folder}", strict=False) is None:
            return []
        walked = self.client.walk(f"{above}/{folder}".rstrip("/"))
        return [f"{inside}/{name}"[len(above) + 1 :] for inside, _, names in walked for name in names]

    def read(self, path: str) -> bytes:
        with self.client.read(f"/{self.name}/topics/{path}") as reader:
            return bytes(reader.read())


class S3(Place):
    """A bucket; only counts end files, so that a file comes again as it was."""

    connector = "S3Sink"

    def __init__(self, server: S3Server, bucket: str = "", login: Sequence[str] = ()) -> None:
        self.bucket, self.client = bucket or server.bucket(), server.client()
        key, secret = login or (server.access_key, server.secret_key)
        self.settings = {
            "store.url": server.endpoint,
            "s3.bucket.name": self.bucket,
            "s3.region": REGION,
            "aws.access.key.id": key,
            "aws.secret.access.key": secret,
        }

    def paths(self, folder: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.bucket, Prefix=f"topics/{folder}")
        return [one["Key"].removeprefix("topics/") for page in found for one in page.get("Contents", ())]

    def read(self, path: str) -> bytes:
        answer = self.client.get_object(Bucket=self.bucket, Key=f"topics/{path}")
        return bytes(answer["Body"].read())


class Numbers:
    """A topic of numbers, the config of the sink of its files, and what is in these."""

    def __init__(self, bootstrap: str, place: Place, flush: int, partitions: int = 1, **settings: str) -> None:
        self.topic, self.place, self.sent = Topic(bootstrap, "rows", partitions), place, 0
        self._partitions = range(partitions)
        self.config = {
            "connector.class": place.connector,
            "topics": self.topic.name,
            "format.class": "parquet",
            "flush.size": str(flush),
            **place.settings,
            **settings,
        }

    def send(self, count: int) -> None:
        """So many more numbers are in each partition."""
        for partition in self._partitions:
            numbers = range(self.sent, self.sent + count)
            self.topic.send([SCHEMA + b'"payload":{"id":%d}}' % number for number in numbers], partition)
        self.sent += count

    def rows(self) -> dict[int, Counter[int]]:
        """The count of each number in a partition's files."""
        found: dict[int, Counter[int]] = {partition: Counter() for partition in self._partitions}
        for path in self.place.paths(self.topic.name):
            numbers = pq.read_table(BufferReader(self.place.read(path)))["id"].to_pylist()
            _, partition, *offsets = path.rpartition("/")[2].partition(".")[0].split("+")
            assert [int(offset) for offset in offsets] == [numbers[0], numbers[-1]][: len(offsets)], path
            found[int(partition)].update(numbers)
        return found

    def count(self) -> int:
        """The number of rows in files; -1 while the store cannot say."""
        try:
            return sum(len(numbers) for numbers in self.rows().values())
        except (HdfsError, HTTPError, OSError):  # a name node in safe mode, no data node, a file replaced meanwhile
            return -1

    def check(self) -> None:
        """All that was sent is there, once; what is not committed is gone."""
        for numbers in self.rows().values():
            assert sorted(numbers) == list(range(self.sent))
            assert set(numbers.values()) == {1}
        assert not self.staged()

    def staged(self) -> set[str]:
        """The paths of files that are not committed, or were not cleaned up after the commit."""
        others = set(self.place.paths()) - set(self.place.paths(self.topic.name))
        return {path for path in others if "/at+" not in path}
