"""A session whose figures cannot be read, without a JVM."""

from __future__ import annotations

import contextlib
import logging

import pytest

from headrace.worker.engine import jvm_metrics
from headrace.worker.engine.jvm_metrics import JvmMetrics


class OddSpark:
    """Sessions that give no figures."""

    is_ready = True
    generation = 1

    def __init__(self) -> None:
        self.asked = 0

    def using(self) -> contextlib.AbstractContextManager[object]:
        self.asked += 1
        return contextlib.nullcontext(object())


def test_a_session_that_gives_no_figures_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jvm_metrics, "_WAIT_S", 60)
    spark = OddSpark()
    metrics = JvmMetrics(spark)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        assert [metrics.samples() for _ in range(3)] == [()] * 3
        assert (spark.asked, len(caplog.records)) == (1, 1)
        spark.generation = 2
        assert metrics.samples() == ()
        assert (spark.asked, len(caplog.records)) == (2, 2)
