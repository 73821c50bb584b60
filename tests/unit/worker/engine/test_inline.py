"""A lane, and those who share it, after the JVM fails."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.worker.engine import inline
from headrace.worker.engine.driver import EngineLost
from headrace.worker.engine.inline import ProjectionPool

ROWS = pa.record_batch({"a": [1]})


class Lane:
    """A lane that is lost with its first batch, as the JVM is."""

    made = 0

    def __init__(self, _session: Any, generation: int, *_: Any) -> None:
        self.generation, self.is_usable, self.closed = generation, True, False
        Lane.made += 1

    def run(self, *_: Any) -> pa.RecordBatch:
        self.is_usable = False
        raise RuntimeError("the JVM is lost")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> ProjectionPool:
    monkeypatch.setattr(inline, "Lane", Lane)
    Lane.made = 0
    spark: Any = SimpleNamespace(using=lambda: contextlib.nullcontext(object()), generation=1)
    return ProjectionPool(spark, lanes=1)


def test_a_lane_that_was_lost_is_made_anew(pool: ProjectionPool) -> None:
    program: Any = SimpleNamespace(generation=1, compiled=None, is_slow=False)
    for number in (1, 2):
        with pytest.raises(RuntimeError, match="the JVM is lost"):
            pool.run(program, ROWS)
        assert Lane.made == number
    pool.stop()


def test_nothing_runs_after_the_end(pool: ProjectionPool) -> None:
    pool.stop()
    with pytest.raises(EngineLost):
        pool.run(SimpleNamespace(generation=1, compiled=None, is_slow=False), ROWS)  # type: ignore[arg-type]
