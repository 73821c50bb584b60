"""The Iceberg source by a real worker, over tables that PyIceberg writes: a large table as a job, then increments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.integration import partitions
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROWS = 120_000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "shop", StringType()),
    identifier_field_ids=[1],
)
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "lake-source")
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def rows(*numbers: int) -> pa.Table:
    names = pa.array([f"name {number}" for number in numbers])
    shops = pa.array([f"shop {number % 3}" for number in numbers])
    shape = pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string()), ("shop", pa.string())])
    return pa.table([pa.array(numbers, pa.int64()), names, shops], shape)


def config(folder: Path, topic: Topic) -> dict[str, str]:
    catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    return {
        "connector.class": "IcebergSource",
        "iceberg.tables": "shop.orders",
        "topic": topic.name,
        "poll.interval.ms": "200",
        **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
        **{f"{side}.converter{key}": value for side in ("key", "value") for key, value in _JSON.items()},
    }


_JSON = {"": JSON, ".schemas.enable": "false"}


def test_a_partitioned_table_and_what_is_appended(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    lake = SqlCatalog("iceberg", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    lake.create_namespace("shop")
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "shop"))
    table = lake.create_table("shop.orders", SCHEMA, partition_spec=spec)
    table.append(rows(*range(ROWS)))
    worker.create(topic.name, **config(tmp_path, topic))
    eventually(lambda: topic.end() >= ROWS, 120, worker.log)
    table.append(rows(ROWS))
    eventually(lambda: topic.end() >= ROWS + 1, 60, worker.log)
    worker.stop()
    table.append(rows(ROWS + 1))
    worker.start()
    worker.wait_ready()
    worker.create(topic.name, **config(tmp_path, topic))
    eventually(lambda: topic.end() >= ROWS + 2, 180, worker.log)
    found = [json.loads(value)["id"] for value in topic.values()]
    assert (len(found), set(found)) == (ROWS + 2, set(range(ROWS + 2)))
    message = partitions.messages(topic.bootstrap, topic.name)[-1]
    assert json.loads(message.key() or b"") == {"id": ROWS + 1}
    (stored,) = _offsets(worker, topic)
    assert stored["partition"] == {"table": "shop.orders"}
    assert stored["offset"]["snapshot"] == table.refresh().metadata.current_snapshot_id

    table.delete("id < 10")
    eventually(lambda: worker.states(topic.name)[-1] == "FAILED", 60, worker.log)
    assert "on.delete=skip" in worker.trace(topic.name)


def _offsets(worker: WorkerProcess, topic: Topic) -> list[dict[str, Any]]:
    def stored() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = worker.offsets(topic.name)
        return [one for one in found if one["offset"]["done"]]

    return list(eventually(stored, 60))
