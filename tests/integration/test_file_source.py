"""Files of the local disk, of HDFS and of S3 into topics, by a real worker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import HadoopSettings, StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from tests.integration.hdfs_server import USER, HdfsServer
from tests.integration.s3_server import REGION, S3Server
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = pytest.mark.spark

PLAIN = {"file.min.age.ms": "0", "poll.interval.ms": "100"}
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
TEXT = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "files")
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def numbers(topic: Topic) -> list[int]:
    return sorted(json.loads(value)["n"] for value in topic.values())


def placed(path: Path, text: str) -> None:
    """The file appears with all of its text."""
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").rename(path)


def staged(folder: Path, number: int, rows: range) -> Path:
    """A file of orders, Avro and Parquet by turns."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.{'avro' if number % 2 else 'parquet'}"
    if number % 2:
        with path.open("wb") as file:
            fastavro.writer(file, ORDER, [{"n": row} for row in rows])
    else:
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), path)
    return path


def test_lines_of_the_local_disk(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    name, folder = topic.name, tmp_path / "in" / topic.name / "partition=0"
    folder.mkdir(parents=True)
    placed(folder / "a.txt", "one\ntwo\n")
    local = {"connector.class": "HdfsSource", "store.url": f"file://{tmp_path}", "path": "in"}
    worker.create(name, **local, **PLAIN, **TEXT)
    eventually(lambda: topic.values() == [b"one", b"two"], 60, worker.log)
    placed(folder / "b.txt", "three")
    eventually(lambda: topic.values() == [b"one", b"two", b"three"], 60, worker.log)
    stored = eventually(lambda: len(found := worker.offsets(name)) == 2 and found, 60)
    assert stored == [
        {"partition": {"slot": 0}, "offset": {"file": f"in/{name}/partition=0/a.txt", "rows": 2, "done": True}},
        {"partition": {"slot": 1}, "offset": {"file": f"in/{name}/partition=0/b.txt", "rows": 1, "done": True}},
    ]
    worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")
    worker.wait_states(name, "RUNNING")
    placed(folder / "c.txt", "four")
    eventually(lambda: topic.end() >= 4, 60, worker.log)
    assert topic.values() == [b"one", b"two", b"three", b"four"]


def test_a_large_parquet_file_is_a_job_of_pieces(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    name, folder, many = topic.name, tmp_path / topic.name, 120_000
    folder.mkdir()
    table = pa.table({"n": range(many), "text": [uuid.uuid4().hex for _ in range(many)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=10_000)
    local = {"connector.class": "HdfsSource", "store.url": f"file://{tmp_path}", "path": "", "split.bytes": "1048576"}
    worker.create(name, **local, **PLAIN, **JSON)
    eventually(lambda: topic.end() >= many, 120, worker.log)
    assert numbers(topic) == list(range(many))
    pieces = eventually(lambda: len(found := worker.offsets(name)) > 2 and found, 60)
    assert sum(one["offset"]["rows"] for one in pieces) == many
    assert f"{name}-0: a job moved {many} rows" in worker.log()


def _goes_into_its_topic(worker: WorkerProcess, topic: Topic, store: Store, tmp_path: Path, **config: str) -> None:
    name = topic.name
    for number in range(4):
        local = staged(tmp_path / "staged", number, range(number * 10, number * 10 + 10))
        store.upload(str(local), f"topics/{name}/day={number}/{local.name}")
    worker.create(name, **config, **PLAIN, **JSON)
    eventually(lambda: topic.end() >= 40, 60, worker.log)
    local = staged(tmp_path / "staged", 4, range(40, 50))
    store.upload(str(local), f"topics/{name}/day=4/{local.name}")
    eventually(lambda: topic.end() >= 50, 60, worker.log)
    assert numbers(topic) == list(range(50))


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs"])
def test_files_of_hdfs(
    worker: WorkerProcess, topic: Topic, hdfs_server: HdfsServer, tmp_path: Path, scheme: str
) -> None:
    folder = uuid.uuid4()
    store = store_of(StoreSettings(f"{hdfs_server.web_url}/{folder}", HadoopSettings(user=USER)))
    # Without Hadoop's configuration nothing says where WebHDFS is: Hadoop's client in the JVM reads.
    url = f"{hdfs_server.web_url if scheme == 'webhdfs' else hdfs_server.url}/{folder}"
    config = {"connector.class": "HdfsSource", "store.url": url, "hadoop.user": USER}
    _goes_into_its_topic(worker, topic, store, tmp_path, **config)


def test_objects_of_s3(worker: WorkerProcess, topic: Topic, s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    store = store_of(StoreSettings(f"s3://{bucket}", s3=s3_server.settings()))
    config = {
        "connector.class": "S3Source",
        "s3.bucket.name": bucket,
        "s3.region": REGION,
        "store.url": s3_server.endpoint,
        "aws.access.key.id": s3_server.access_key,
        "aws.secret.access.key": s3_server.secret_key,
    }
    _goes_into_its_topic(worker, topic, store, tmp_path, **config)


def test_a_broken_file_fails_the_task_or_is_passed_over(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    name, folder = topic.name, tmp_path / topic.name
    folder.mkdir()
    (folder / "a.avro").write_bytes(b"no avro")
    local: dict[str, Any] = {
        "connector.class": "HdfsSource",
        "store.url": f"file://{tmp_path}",
        "path": "",
        "files": f"{name}/*",
    }
    worker.create(name, **local, **PLAIN, **JSON)
    worker.wait_states(name, "FAILED")
    assert f"{name}/a.avro cannot be read: The file is not an Avro container file" in worker.trace(name)
    worker.request("PUT", f"/connectors/{name}/config", {**local, **PLAIN, **JSON, "errors.tolerance": "all"})
    staged(tmp_path / "staged", 1, range(3)).rename(folder / "b.avro")
    eventually(lambda: topic.end() == 3, 60, worker.log)
    assert numbers(topic) == [0, 1, 2]
