"""`kill -9` of the worker and its driver at any moment: a topic has each row of a table, snapshot after snapshot."""

from __future__ import annotations

import json
import random
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

SHARE = 3000
"""Rows of a snapshot."""
WITHIN_S = 240
_JSON = {"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": "false"}


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_the_topic_has_the_table(broker: str, tmp_path: Path, kills: int) -> None:
    lake = SqlCatalog("iceberg", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    lake.create_namespace("shop")
    table = lake.create_table("shop.orders", pa.schema([("id", pa.int64())]))
    topic, chance, sent = Topic(broker, "lake-source-killed"), random.Random(1), 0

    def append() -> None:
        nonlocal sent
        table.append(pa.table({"id": pa.array(range(sent, sent + SHARE), pa.int64())}))
        sent += SHARE

    config = {
        "connector.class": "IcebergSource",
        "iceberg.tables": "shop.orders",
        "topic": topic.name,
        "poll.interval.ms": "100",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "iceberg.catalog.warehouse": f"file://{tmp_path}/lake",
        **{f"{side}.converter{key}": value for side in ("key", "value") for key, value in _JSON.items()},
    }
    settings = {"task.restart.backoff.ms": "200", "offset.flush.interval.ms": "500"}
    with WorkerProcess(tmp_path / "worker", broker, [connector_file(tmp_path, "source", **config)], settings) as worker:
        for number in range(kills):
            append()
            wanted = topic.end() + chance.randrange(1, SHARE)
            eventually(lambda: topic.end() >= wanted, WITHIN_S, worker.log, every_s=0.05)  # noqa: B023
            if number % 2:
                driver: psutil.Process = worker.jvm()
                driver.kill()
            else:
                worker.kill()
                worker.start()
        append()
        eventually(lambda: set(ids(topic)) == set(range(sent)), WITHIN_S, worker.log, every_s=1)
        assert worker.stop() == 0
    firsts = list(dict.fromkeys(ids(topic)))
    assert firsts == sorted(firsts), "rows come again at most, and none before one of an earlier snapshot"


def ids(topic: Topic) -> list[int]:
    return [json.loads(value)["id"] for value in topic.values() if value is not None]
