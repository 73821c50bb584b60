"""What becomes of a lane's callers, and of the lane, where the JVM fails or hangs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.worker.engine import inline as here
from headrace.worker.engine.inline import ProjectionPool

ROWS = pa.record_batch({"a": [1]})


class Output:
    """A stream of the JVM that is closed only once the test has ended, and then fails."""

    def __init__(self) -> None:
        self.closing, self.ended = threading.Event(), threading.Event()

    def close(self) -> None:
        self.closing.set()
        assert self.ended.wait(10)
        raise ValueError("an answer that is none")


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[Output]:
    """That of every channel, each of which fails."""
    made = Output()

    class Channel(here._Channel):
        def __init__(self, _session: Any, generation: int, *_: Any) -> None:
            self.generation, self._out = generation, made

        def run(self, *_: Any) -> pa.RecordBatch:
            raise RuntimeError("the JVM is lost")

    monkeypatch.setattr(here, "_Channel", Channel)
    yield made
    made.ended.set()


def test_callers_are_answered_by_a_lane_whose_jvm_hangs_and_which_goes_on(output: Output) -> None:
    spark: Any = SimpleNamespace(using=lambda: contextlib.nullcontext(object()), generation=1)
    program: Any = SimpleNamespace(generation=1)
    pool = ProjectionPool(spark, threads=1)
    assert str(pool.submit(program, ROWS).exception(10)) == "the JVM is lost"
    assert output.closing.wait(10)
    output.ended.set()
    assert str(pool.submit(program, ROWS).exception(10)) == "the JVM is lost"
    pool.stop()
