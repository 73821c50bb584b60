"""The kit for sinks over the Iceberg sink, with a catalog in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.sink import task as module
from headrace.connectors.lake.iceberg.sink.columns import Op
from headrace.connectors.lake.iceberg.sink.connector import IcebergSinkConnector
from headrace.connectors.lake.iceberg.sink.settings import SinkOptions
from headrace.connectors.lake.iceberg.sink.task import IcebergSinkTask
from headrace.plugins.contracts import Connector, TaskContext
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType
from headrace.plugins.testkit import PreviewedSinkContract, SinkContract, SinkFencingContract, SinkRig
from headrace.plugins.testkit.driving import PLAIN
from headrace.plugins.testkit.frames import TOPIC
from tests.unit.connectors.lake.fake_catalog import FakeCatalog

TABLE = "db.t"
ROW = Schema(SchemaType.STRUCT, fields=(Field("value", OPTIONAL_STRING),))


class KitTask(IcebergSinkTask):
    """Knows the schema of rows that no expression has made."""

    def _specify(self, config: Mapping[str, str], context: TaskContext) -> tuple[SinkOptions, JvmCatalog]:
        made = super()._specify(config, context)
        self._columns.layouts.append(ROW)
        return made


class KitConnector(IcebergSinkConnector):
    task = KitTask


class IcebergRig(SinkRig):
    """A sink of rows with one column."""

    def __init__(self) -> None:
        self.catalog, self._count = FakeCatalog(), 0

    def connector(self) -> Connector:
        return KitConnector()

    def config(self) -> dict[str, str]:
        return {
            "name": "lake",
            "topics": TOPIC,
            "iceberg.tables": TABLE,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "0",
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": "http://127.0.0.1:1",
        }

    def contents(self) -> list[Any]:
        found = self.catalog.tables.get(TABLE)
        return [] if found is None else [row["value"] for row in found.rows]

    def state(self) -> Any:
        return {name: (table.state, list(table.rows)) for name, table in self.catalog.tables.items()}

    def previewed(self, effects: Sequence[Effect]) -> list[Any]:
        return [one.detail["value"]["value"] for one in effects if one.action == "append"]

    def offsets(self, values: Sequence[Any]) -> Sequence[int]:
        """New ones."""
        first, self._count = self._count, self._count + len(values)
        return range(first, self._count)

    def rows(self, values: Sequence[Any]) -> pa.RecordBatch:
        count = len(values)
        return pa.RecordBatch.from_pydict(
            {
                "origin_topic": pa.array([TOPIC] * count, pa.string()),
                "origin_partition": pa.array([0] * count, pa.int32()),
                "offset": pa.array(self.offsets(values), pa.int64()),
                "error": pa.nulls(count, pa.string()),
                "route": pa.nulls(count, pa.string()),
                "op": pa.array([Op.APPEND.value] * count, pa.int8()),
                "layout": pa.array([0] * count, pa.int32()),
                "value_0": pa.array([{"value": one} for one in values], pa.struct([("value", pa.string())])),
            }
        )


class FencedRig(IcebergRig):
    """As the base; a value that comes again has the same offset."""

    def offsets(self, values: Sequence[Any]) -> Sequence[int]:
        return [PLAIN.index(one) for one in values]


class TestIcebergSink(SinkContract, PreviewedSinkContract):
    @pytest.fixture
    def rig(self, monkeypatch: pytest.MonkeyPatch) -> IcebergRig:
        rig = IcebergRig()
        monkeypatch.setattr(module, "JvmCatalog", lambda *arguments: rig.catalog)
        return rig


class TestFencedIcebergSink(SinkFencingContract):
    @pytest.fixture
    def rig(self, monkeypatch: pytest.MonkeyPatch) -> IcebergRig:
        rig = FencedRig()
        monkeypatch.setattr(module, "JvmCatalog", lambda *arguments: rig.catalog)
        return rig
