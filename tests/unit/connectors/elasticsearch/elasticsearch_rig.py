"""The sink over a fake server, for the kit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.connectors.elasticsearch.connector import ElasticsearchSinkConnector
from headrace.plugins import Record
from headrace.plugins.contracts import Connector
from headrace.plugins.extensions import Effect
from headrace.plugins.testkit import SinkRig
from tests.unit.connectors.elasticsearch.fake_server import FakeServer

CONFLUENT = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"


class ElasticsearchRig(SinkRig):
    """A sink of documents `{"value": text}`."""

    def __init__(self) -> None:
        self.outside: FakeServer = FakeServer()
        self._count = 0

    def connector(self) -> Connector:
        return ElasticsearchSinkConnector()

    def config(self) -> dict[str, str]:
        return {
            "name": "documents",
            "connector.class": CONFLUENT,
            "topics": "t",
            "connection.url": self.outside.url,
            "read.timeout.ms": "60000",
            "schema.ignore": "true",
            "max.retries": "0",
        }

    def contents(self) -> list[str]:
        found = self.outside.indices.get("t", {})
        return [found[name]["value"] for name in sorted(found)]

    def state(self) -> Any:
        return json.dumps([self.outside.indices, self.outside.mappings])

    def previewed(self, effects: Sequence[Effect]) -> list[str]:
        return [effect.detail["document"]["value"] for effect in effects if effect.action == "index"]

    def record(self, value: Any, number: int) -> Record:
        return Record({"value": value}, key=f"{number:06}")

    def rows(self, values: Sequence[str]) -> pa.RecordBatch:
        first, self._count = self._count, self._count + len(values)
        return rows_of(
            [index_line(f"{first + n:06}", n + first, {"value": one}) for n, one in enumerate(values)], first
        )


def index_line(key: str, version: int, document: Any, index: str = "t") -> str:
    """The piece of a bulk request that writes a document with a version."""
    action = {"_index": index, "_id": key, "version": version, "version_type": "external"}
    return json.dumps({"index": action}) + "\n" + json.dumps(document) + "\n"


def rows_of(
    lines: Sequence[str | None], first: int = 0, *, partition: int = 0, index: str = "t", lanes: Sequence[int] = ()
) -> pa.RecordBatch:
    """The rows of a writer, of records from this offset on."""
    count = len(lines)
    return pa.record_batch(
        {
            "lines": pa.array(lines, pa.string()),
            "refused": pa.array([None if line is not None else "no document" for line in lines], pa.string()),
            "index": pa.array([index] * count, pa.string()),
            "mapping": pa.nulls(count, pa.int32()),
            "lane": pa.array(list(lanes) or [None] * count, pa.int32()),
            "origin_topic": pa.array(["t"] * count, pa.string()),
            "origin_partition": pa.array([partition] * count, pa.int32()),
            "origin_offset": pa.array(range(first, first + count), pa.int64()),
        }
    )
