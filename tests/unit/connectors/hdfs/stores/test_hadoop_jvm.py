"""Hadoop's client while Spark starts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from headrace.connectors.hdfs.stores.hadoop_jvm import context_of_worker
from headrace.plugins.errors import RetriableError


def test_a_spark_that_is_about_to_run_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for context in (None, SimpleNamespace(_jvm="there")):  # pyspark shows its context before it is complete
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        with pytest.raises(RetriableError, match="does not run yet"):
            context_of_worker()
    ready = SimpleNamespace(_jvm="there", _jsc="there")
    monkeypatch.setattr(SparkContext, "_active_spark_context", ready)
    assert context_of_worker() is ready
