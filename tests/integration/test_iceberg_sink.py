"""Topics into tables of Iceberg by a real worker: appended, replaced and deleted by keys, made and changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import LakeTable
from tests.integration.previewing import Previewing, Surroundings
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

WITHIN_S = 180
"""A first job on a cold Spark takes a busy machine more than a minute."""


def struct(**kinds: str) -> dict[str, Any]:
    """The schema of a struct; a kind with `?` is optional."""
    fields = [{"field": name, "type": kind.rstrip("?"), "optional": "?" in kind} for name, kind in kinds.items()]
    return {"type": "struct", "optional": False, "fields": fields}


ORDER = struct(id="int64", item="string?")


def value(schema: dict[str, Any], **payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


class Lake:
    """Topics, sinks and a catalog on the local disk."""

    def __init__(self, worker: WorkerProcess, broker: str, server: IcebergRestServer, folder: Path) -> None:
        self.worker, self.broker, self._server = worker, broker, server
        self.catalog = {"type": "hadoop", "warehouse": f"file://{folder}"}
        self.names: list[str] = []

    def topic(self, partitions: int = 1) -> Topic:
        return Topic(self.broker, "lake", partitions)

    def table(self, topic: Topic) -> LakeTable:
        return LakeTable(self._server, self.catalog, f"db.{topic.name.replace('-', '_')}")

    def config(self, topic: Topic, **settings: str) -> dict[str, str]:
        """The config of a sink of this topic to its table."""
        return {
            "name": f"sink-of-{topic.name}",
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": topic.name,
            "iceberg.tables": self.table(topic).name,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.commit.interval-ms": "200",
            **{f"iceberg.catalog.{key}": text for key, text in self.catalog.items()},
            **settings,
        }

    def sink(self, topic: Topic, **settings: str) -> str:
        """Create such a sink; return its name."""
        config = self.config(topic, **settings)
        self.names.append(config["name"])
        self.worker.create(**config)
        return config["name"]

    def status(self, topic: Topic) -> object:
        """The status of the topic's sink."""
        return self.worker.get(f"/connectors/sink-of-{topic.name}/status")

    def wait_rows(self, topic: Topic, expected: list[dict[str, Any]], order: str = "id") -> None:
        """Wait until the table has just these rows."""
        found: list[Any] = []

        def has_them() -> bool:
            try:
                found[:] = self.table(topic).rows(order)
            except LookupError as error:
                found[:] = [str(error)]
            return found == expected

        eventually(has_them, WITHIN_S, lambda: f"{found}; {self.status(topic)}", every_s=1)


@pytest.fixture
def lake(worker: WorkerProcess, broker: str, iceberg_rest: IcebergRestServer, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(worker, broker, iceberg_rest, tmp_path / "lake")
    yield lake
    for name in lake.names:
        worker.request("DELETE", f"/connectors/{name}")


def test_records_are_appended_once_to_a_table_that_grows_with_them(lake: Lake) -> None:
    topic = lake.topic()
    topic.send([value(ORDER, id=number, item=f"item {number}") for number in range(3)])
    lake.sink(topic, **{"iceberg.tables.default-partition-by": "bucket(id, 2)"})
    rows: list[dict[str, Any]] = [{"id": number, "item": f"item {number}"} for number in range(3)]
    lake.wait_rows(topic, rows)
    topic.send([value(struct(id="int64", item="string?", price="double?"), id=3, item=None, price=1.5)])
    rows = [{**row, "price": None} for row in rows] + [{"id": 3, "item": None, "price": 1.5}]
    lake.wait_rows(topic, rows)


def test_rows_are_replaced_and_deleted_by_their_keys(lake: Lake) -> None:
    topic = lake.topic()
    keys = [value(struct(id="int64"), id=number) for number in range(4)]
    values = [value(ORDER, id=1, item="a"), value(ORDER, id=2, item="b"), value(ORDER, id=1, item="c")]
    topic.send(values, keys=[keys[1], keys[2], keys[1]])
    lake.sink(
        topic,
        **{
            "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "id",
        },
    )
    lake.wait_rows(topic, [{"id": 1, "item": "c"}, {"id": 2, "item": "b"}])
    topic.send([value(ORDER, id=2, item="d"), None, value(ORDER, id=3, item="e")], keys=keys[2:0:-1] + keys[3:])
    lake.wait_rows(topic, [{"id": 2, "item": "d"}, {"id": 3, "item": "e"}])


def test_a_backlog_is_previewed_without_a_trace_and_read_by_jobs(lake: Lake, tmp_path: Path) -> None:
    topic, each = lake.topic(partitions=2), 40_000
    for partition in range(2):
        topic.send([b'{"id":%d,"part":%d}' % (number, partition) for number in range(each)], partition)
    converter = "org.apache.kafka.connect.json.JsonConverter"
    config = lake.config(topic, **{"value.converter": converter, "value.converter.schemas.enable": "false"})
    previewing = Previewing(Surroundings(lake.worker, lake.broker, [tmp_path]))
    answer = previewing.unchanged(config, **{"from": "earliest", "records": "2"})
    (made,) = answer["effects"]
    assert (made["action"], made["detail"]["columns"]) == ("create table", {"id": "long", "part": "long"})
    first, second = (one["effects"] for one in answer["records"])
    assert [one["action"] for one in first + second] == ["append", "append"]
    assert first[0]["detail"]["value"].startswith('{"id":0,')
    lake.sink(topic, **config)
    found: list[tuple[int, int]] = []

    def has_all() -> bool:
        with contextlib.suppress(LookupError):
            rows = lake.table(topic).static().scan().to_arrow()
            found[:] = zip(rows["part"].to_pylist(), rows["id"].to_pylist(), strict=True)
        return len(found) >= 2 * each

    eventually(has_all, WITHIN_S, lambda: f"{len(found)}; {lake.status(topic)}", every_s=1)
    assert sorted(found) == [(partition, number) for partition in range(2) for number in range(each)]
