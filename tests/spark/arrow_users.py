"""Functions as users of headrace.transforms.Python write them."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CALLS: list[tuple[int, pa.RecordBatch]] = []
"""Batches that functions were given in this process, each with the process's id."""


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    CALLS.append((os.getpid(), batch))
    return batch.set_column(0, "id", pc.multiply(batch["id"], 2))


def scored(batch: pa.RecordBatch, settings: dict[str, str]) -> tuple[pa.RecordBatch, Any]:
    score = pc.multiply(batch["id"].cast(pa.float64()), float(settings["factor"]))
    topic = pc.binary_join_element_wise(batch["_topic"], "scored", "-")
    made = pa.RecordBatch.from_arrays([batch["id"], score, topic], names=["id", "score", "_topic"])
    return made, pc.greater(score, 1.0)


def keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pc.utf8_upper(batch["value"]), batch["_key"].cast(pa.string())], names=["_value", "_key"]
    )


keyed.schema = "_value STRING, _key STRING NOT NULL"  # type: ignore[attr-defined]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = batch["value"].to_pylist()
    headers = pa.array([{"h": str(one)} for one in numbers], pa.map_(pa.string(), pa.string()))
    partitions = pa.array([one + 1 for one in numbers], pa.int64())
    return pa.record_batch({"_value": batch["value"], "_partition": partitions, "_headers": headers})


def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise ZeroDivisionError("of the user's own")


def too_few(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(1)


def forgetful(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["name"])


def no_batch(batch: pa.RecordBatch) -> list[int]:
    return [1]


def endless(batch: pa.RecordBatch) -> pa.RecordBatch:
    while True:
        pass
