"""Tables that the sink wrote, by Iceberg's own reader, pyiceberg and DuckDB: values, partitions, deletes."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.iceberg_pipe import SINK, TABULAR
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import DuckDb, LakeTable, Row
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

_CONNECT = "org.apache.kafka.connect.data."
_DAY = 20_454
"""2026-01-01."""


def field(name: str, kind: str, logical: str = "", **more: Any) -> Row:
    named = {"name": logical and f"{_CONNECT}{logical}", "version": 1} if logical else {}
    return {"field": name, "type": kind, "optional": name != "id", **named, **more}


FIELDS = [
    field("id", "int64"),
    field("small", "int8"),
    field("flag", "boolean"),
    field("ratio", "double"),
    field("text", "string"),
    field("raw", "bytes"),
    field("price", "bytes", "Decimal", parameters={"scale": "2"}),
    field("day", "int32", "Date"),
    field("clock", "int32", "Time"),
    field("at", "int64", "Timestamp"),
    field("tags", "array", items={"type": "string", "optional": True}),
    field("counts", "map", keys={"type": "string"}, values={"type": "int64"}),
    field("inner", "struct", fields=[field("x", "int32"), field("y", "string")]),
]


def record(number: int) -> Row:
    """A record; each third has nothing but its id."""
    if number % 3 == 2:
        return {"id": number, **{one["field"]: None for one in FIELDS[1:]}}
    return {
        "id": number,
        "small": number - 5,
        "flag": number % 2 == 0,
        "ratio": number / 4,
        "text": f"Grüße {number} 🌊",
        "raw": base64.b64encode(bytes([0, number, 255])).decode(),
        "price": base64.b64encode((12_345 + number).to_bytes(4, "big", signed=True)).decode(),
        "day": _DAY + number,
        "clock": 3_600_000 * number + 1,
        "at": _DAY * 86_400_000 + 3_600_000 * number + 7,
        "tags": ["a", None, f"t{number}"],
        "counts": {"one": number},
        "inner": {"x": number, "y": None},
    }


def stored(number: int) -> Row:
    """The same as readers find it."""
    if number % 3 == 2:
        return record(number)
    return {
        **record(number),
        "raw": bytes([0, number, 255]).hex(),
        "price": f"{(12_345 + number) / 100:.2f}",
        "day": f"2026-01-{1 + number:02d}",
        "clock": f"{number:02d}:00:00.001000",
        "at": f"2026-01-01T{number:02d}:00:00.007000+00:00",
        "counts": [["one", number]],
    }


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> DuckDb:
    return DuckDb(tmp_path_factory.mktemp("duckdb"))


class Sinking:
    """One sink of these records."""

    def __init__(self, worker: WorkerProcess, broker: str, server: IcebergRestServer, **settings: str) -> None:
        self.worker, self.topic = worker, Topic(broker, "readers")
        self.table = LakeTable(server, server.properties, f"db.t_{uuid.uuid4().hex[:8]}")
        config = {
            "topics": self.topic.name,
            "iceberg.tables": self.table.name,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            **{f"iceberg.catalog.{key}": value for key, value in server.properties.items()},
            **settings,
        }
        worker.request("PUT", f"/connectors/{self.topic.name}/config", config)

    def send(self, *rows: Row, fields: list[Row] = FIELDS) -> None:
        schema = {"type": "struct", "optional": False, "fields": fields}
        self.topic.send([json.dumps({"schema": schema, "payload": row}).encode() for row in rows])

    def await_rows(self, *wanted: Row) -> None:
        def are_there() -> bool:
            try:
                return self.table.rows("id") == list(wanted)
            except LookupError:
                return False

        eventually(are_there, 120, lambda: f"{self.table.metadata()}: {self.worker.log()[-3000:]}")

    def delete(self) -> None:
        self.worker.request("DELETE", f"/connectors/{self.topic.name}")


@pytest.fixture
def started(worker: WorkerProcess, broker: str, iceberg_rest: IcebergRestServer) -> Iterator[Any]:
    """Starts sinks, which are deleted at the end."""
    made: list[Sinking] = []

    def start(**settings: str) -> Sinking:
        made.append(Sinking(worker, broker, iceberg_rest, **settings))
        return made[-1]

    yield start
    for one in made:
        one.delete()


@pytest.mark.parametrize("version", ["2", "3"])
def test_all_types_by_all_readers(started: Any, duckdb: DuckDb, version: str) -> None:
    sink = started(
        **{
            "connector.class": SINK,
            "iceberg.tables.default-partition-by": "bucket(id, 4), day(at), truncate(text, 2)",
            "iceberg.tables.auto-create-props.format-version": version,
        }
    )
    rows = range(12)
    sink.send(*map(record, rows))
    sink.await_rows(*map(stored, rows))
    assert sink.table.by_pyiceberg("id") == [stored(row) for row in rows]
    assert sink.table.by_duckdb(duckdb, "id") == [stored(row) for row in rows]
    # Partition values and statistics are what readers skip files by.
    found = sink.table.static().scan(row_filter="id = 4 and at >= '2026-01-01T00:00:00+00:00'").to_arrow()
    assert found["id"].to_pylist() == [4]
    assert sink.table.static().metadata.format_version == int(version)


@pytest.mark.parametrize("partition_by", ["", "bucket(id, 2)", "day(at)"], ids=["none", "by-key", "by-another"])
def test_deletes_are_applied_by_readers(started: Any, duckdb: DuckDb, partition_by: str) -> None:
    sink = started(
        **{
            "connector.class": TABULAR,
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.cdc-field": "text",
            "iceberg.tables.default-id-columns": "id",
            "iceberg.tables.default-partition-by": partition_by,
        }
    )
    fields = [one for one in FIELDS if one["field"] in {"id", "text", "at"}]

    def change(number: int, op: str, hour: int) -> Row:
        return {"id": number, "text": op, "at": _DAY * 86_400_000 + 3_600_000 * hour}

    def row(number: int, op: str, hour: int) -> Row:
        return {"id": number, "text": op, "at": f"2026-01-0{1 + hour // 24}T{hour % 24:02d}:00:00.000000+00:00"}

    sink.send(*(change(number, "I", 1) for number in range(6)), fields=fields)
    sink.await_rows(*(row(number, "I", 1) for number in range(6)))
    # Rows move to another day, and go.
    sink.send(change(0, "U", 30), change(1, "D", 1), change(2, "U", 2), change(2, "D", 2), fields=fields)
    wanted = [row(0, "U", 30), *(row(number, "I", 1) for number in range(3, 6))]
    sink.await_rows(*wanted)
    assert sink.table.by_duckdb(duckdb, "id") == wanted
    sink.table.compact()
    assert sink.table.rows("id") == wanted
    assert sink.table.by_duckdb(duckdb, "id") == wanted
