"""A Delta table on the local disk as the outside system of a sink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from headrace.connectors.lake.delta.connector import DeltaSinkConnector
from headrace.connectors.lake.delta.task import DeltaSinkTask
from headrace.plugins.contracts import TaskContext
from headrace.plugins.extensions import Effect
from headrace.plugins.schema import OPTIONAL_STRING, Field, Schema, SchemaType
from headrace.plugins.testkit import SinkRig

LINE = Schema(SchemaType.STRUCT, fields=(Field("n", Schema(SchemaType.INT64)), Field("line", OPTIONAL_STRING)))


class LinesTask(DeltaSinkTask):
    """A task that has met lines, as a worker has it do before it wants a writer."""

    told: Mapping[str, str] = {}
    """The ids of topics that Kafka tells."""

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        super().start(config, replace(context, topic_ids=lambda _: self.told))
        self._columns.layouts.append(LINE)

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        super().start_preview(config, context)
        self._columns.layouts.append(LINE)


class LinesSink(DeltaSinkConnector):
    task = LinesTask


class DeltaRig(SinkRig):
    """Lines into a table. The texts `row N` have offset N, so that they may come again."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.path = folder / "t"
        self.worker = {"file.allowed.paths": [str(folder)]}
        self.settings = {"commit.interval.ms": "0", **settings}
        self._others = count(1_000_000)

    def connector(self) -> DeltaSinkConnector:
        return LinesSink()

    def config(self) -> dict[str, str]:
        return {"name": "under-test", "topics": "t", "table.path": str(self.path), **self.settings}

    def rows(self, values: Sequence[Any]) -> pa.RecordBatch:
        rows = [re.fullmatch(r"row (\d+)", value) for value in values]
        return delta_rows(
            [
                (int(found[1]) if found else next(self._others), value, False)
                for found, value in zip(rows, values, strict=True)
            ]
        )

    def previewed(self, effects: Sequence[Effect]) -> list[Any]:
        return [effect.detail["line"] for effect in effects if effect.action in ("append", "upsert")]

    def state(self) -> Any:
        return sorted(str(path) for path in self.path.rglob("*"))

    def contents(self) -> list[Any]:
        return [] if not self.path.exists() else table_of(self.path)["line"].to_pylist()


def delta_rows(lines: Sequence[tuple[int, str | None, bool]], partition: int = 0) -> pa.RecordBatch:
    """Rows as `columns` makes them of lines: number, text, and true for a delete; the number is the offset."""
    size = len(lines)
    numbers = pa.array([number for number, _, _ in lines], pa.int64())
    texts = pa.array([text for _, text, _ in lines], pa.string())
    return pa.record_batch(
        {
            "topic": pa.array(["t"] * size, pa.string()),
            "origin_topic": pa.array(["t"] * size, pa.string()),
            "origin_partition": pa.array([partition] * size, pa.int32()),
            "offset": numbers,
            "error": pa.nulls(size, pa.string()),
            "layout": pa.array([0] * size, pa.int32()),
            "is_delete": pa.array([is_delete for _, _, is_delete in lines], pa.bool_()),
            "value_0": pa.StructArray.from_arrays([numbers, texts], names=["n", "line"]),
        }
    )


def table_of(path: Path) -> pa.Table:
    """The rows of a table, by their number."""
    return DeltaTable(str(path)).to_pyarrow_table().sort_by("n")
