"""Apache Iceberg's sink from its jars: it commits its offsets itself, in transactions, so that no row comes twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.integration.java_plugins import hosts, iceberg
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 4
SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "item", "type": "string", "optional": True},
    ],
}


def rows(begin: int, end: int) -> list[bytes]:
    payloads = ({"id": number, "item": f"item {number}"} for number in range(begin, end))
    return [json.dumps({"schema": SCHEMA, "payload": payload}).encode() for payload in payloads]


def send(topic: Topic, begin: int, end: int) -> None:
    for partition in range(PARTITIONS):
        topic.send(rows(begin, end)[partition::PARTITIONS], partition)


class Table:
    """A table in the folder of a Hadoop catalog, read without Iceberg."""

    def __init__(self, folder: Path) -> None:
        self._metadata = folder / "metadata"

    def ids(self) -> Counter[int]:
        """The count of each id in the current snapshot."""
        found = Counter[int]()
        for file in self._data_files():
            found.update(pq.read_table(file)["id"].to_pylist())
        return found

    def _data_files(self) -> Iterator[str]:
        try:
            version = (self._metadata / "version-hint.text").read_text().strip()
        except FileNotFoundError:  # also for a moment, each time that it is replaced
            return
        table = json.loads((self._metadata / f"v{version}.metadata.json").read_text())
        current = table.get("current-snapshot-id")
        lists = [one["manifest-list"] for one in table["snapshots"] if one["snapshot-id"] == current]
        manifests = [one["manifest_path"] for listed in lists for one in _records(listed)]
        for entry in (one for manifest in manifests for one in _records(manifest)):
            if entry["status"] != 2:  # deleted
                yield urlsplit(entry["data_file"]["file_path"]).path


def _records(file: str) -> list[Any]:
    with open(urlsplit(file).path, "rb") as opened:
        return list(fastavro.reader(opened))


@pytest.mark.soak
def test_each_row_is_in_the_table_once_whatever_is_killed(broker: str, tmp_path: Path) -> None:
    topic, control = Topic(broker, "java-ice", PARTITIONS), Topic(broker, "java-ice-control")
    send(topic, 0, 2_000)
    config = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "2",
        "topics": topic.name,
        "iceberg.tables": "db.events",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{tmp_path}/warehouse",
        "iceberg.control.topic": control.name,
        "iceberg.control.commit.interval-ms": "1000",
        "iceberg.control.commit.timeout-ms": "5000",
        "iceberg.kafka.auto.offset.reset": "earliest",
        "iceberg.kafka.transaction.timeout.ms": "5000",
        "consumer.override.session.timeout.ms": "6000",
    }
    settings = {"plugin.path": str(iceberg(tmp_path)), "task.restart.backoff.ms": "200"}
    table = Table(tmp_path / "warehouse" / "db" / "events")
    connector = connector_file(tmp_path, topic.name, **config)
    with WorkerProcess(tmp_path / "worker", broker, [connector], settings) as worker:

        def has(count: int) -> bool:
            found = table.ids()
            assert not found or max(found.values()) == 1, f"{sum(found.values())} rows of {len(found)}"
            return len(found) == count

        eventually(lambda: has(2_000), 120, worker.log, 0.5)
        send(topic, 2_000, 6_000)
        for process in hosts(worker):
            process.kill()
        send(topic, 6_000, 8_000)
        eventually(lambda: has(8_000), 120, worker.log, 0.5)
        send(topic, 8_000, 12_000)
        worker.kill_family()
        worker.start()
        eventually(lambda: has(12_000), 120, worker.log, 0.5)
        eventually(lambda: committed(worker, topic) == [3_000] * PARTITIONS, 60, lambda: worker.offsets(topic.name))


def committed(worker: WorkerProcess, topic: Topic) -> list[int]:
    """The group's offsets, which only the plugin commits."""
    return sorted(one["offset"]["kafka_offset"] for one in worker.offsets(topic.name))
