"""A batch that runs as a Spark job has a time limit, in which waiting for a place of others does not count."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.worker.engine import bounds, programs
from headrace.worker.engine.bounds import Bounds, TooSlow
from headrace.worker.engine.programs import JobProgram
from headrace.worker.engine.quota import Quota

BATCH = pa.record_batch({"v": [1]})
LIMIT = Bounds(limit_s=0.05)
LOOKS = 50
"""Ten times the looks that the limit allows."""


class Group:
    """Jobs that have a place, or wait for one, at each look; `looked` is set once there were enough."""

    def __init__(self, has_place: bool, looked: threading.Event) -> None:
        self._has_place, self._looked, self._looks = has_place, looked, 0

    def waits(self) -> bool:
        self._looks += 1
        if self._looks == LOOKS:
            self._looked.set()
        return not self._has_place


def run(monkeypatch: pytest.MonkeyPatch, has_place: bool) -> pa.RecordBatch:
    """The outcome of a batch whose job ends once it was looked at often enough."""
    looked = threading.Event()

    def table(*_: object) -> pa.Table:
        looked.wait(60)
        return pa.Table.from_batches([BATCH])

    monkeypatch.setattr(bounds, "LOOK_S", 0.01)
    monkeypatch.setattr(programs, "JobGroup", lambda *_: Group(has_place, looked))
    monkeypatch.setattr(JobProgram, "_table", table)
    spark = SimpleNamespace(generation=1, using=contextlib.nullcontext)
    given_up = SimpleNamespace(add_job=lambda _group, _job: looked.set())
    engine: Any = SimpleNamespace(
        jobs=Quota(1), projections=SimpleNamespace(spark=spark, given_up=given_up), count=lambda _rows: None
    )
    return JobProgram(engine, StructType(), lambda frame: frame).run(BATCH, LIMIT)


def test_a_batch_that_waits_for_a_place_is_not_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, has_place=False) == BATCH


def test_a_batch_that_has_a_place_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooSlow, match="A batch of one record"):
        run(monkeypatch, has_place=True)
