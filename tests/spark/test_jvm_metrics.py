"""Metrics of Spark's JVM in a scrape, and the time that it waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from headrace.worker.engine import jvm_metrics
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.jvm_metrics import JvmMetrics

pytestmark = pytest.mark.spark


def figures(metrics: JvmMetrics) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for sample in metrics.samples()}


def test_memory_collections_and_threads(engine: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_metrics, "_WAIT_S", 60)
    metrics = JvmMetrics(engine)
    before = figures(metrics)
    assert before["jvm_memory_used_bytes", "heap"] > 1e6
    assert before["jvm_memory_used_bytes", "nonheap"] > 1e6
    assert before["jvm_memory_committed_bytes", "heap"] <= before["jvm_memory_max_bytes", "heap"]
    assert before["jvm_threads_current",] > 10
    engine.session()._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    after = figures(metrics)
    assert (
        after["jvm_gc_collection_seconds_count", "MarkSweepCompact"]
        == 1 + (before["jvm_gc_collection_seconds_count", "MarkSweepCompact"])
    )
    seconds = "jvm_gc_collection_seconds_sum", "MarkSweepCompact"
    assert before[seconds] < after[seconds] < before[seconds] + 60


def test_a_jvm_that_hangs_is_not_waited_for(engine: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = JvmMetrics(engine)
    monkeypatch.setattr(jvm_metrics, "_WAIT_S", 60)
    last = metrics.samples()
    assert last
    asked, go_on = [], threading.Event()

    def hang(_: object) -> Mapping[str, float]:
        asked.append(threading.current_thread())
        go_on.wait(60)
        return {}

    monkeypatch.setattr(jvm_metrics, "_WAIT_S", 0.01)
    monkeypatch.setattr(jvm_metrics._Beans, "figures", hang)
    began = time.monotonic()
    assert [metrics.samples() for _ in range(3)] == [last] * 3
    assert time.monotonic() - began < 30
    assert len(asked) == 1
    go_on.set()
    asked[0].join()


def test_without_a_session_there_are_none() -> None:
    spark = Spark({}, [])
    assert list(JvmMetrics(spark).samples()) == []
    assert JvmMetrics(spark).pid is None
