"""The memory, garbage collections and threads of the JVM that is Spark's driver, for Prometheus.

A scrape must not wait for a JVM that is busy or hangs: a thread of its own asks, and after `_WAIT_S` the scrape gets
the last figures read. There are none without a session, or for the rest of a session that failed to give them.

Decided: asked through the metrics library that Spark brings, because it answers all at once (py4j would take a call for
each figure, and may not call the JDK's own beans); loses: nothing that the beans have.

Source: the names of Prometheus' client for Java, which the JMX exporter uses.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import SparkSession

from headrace.plugins.interop.catalyst.spark_internals import jvm_of
from headrace.plugins.samples import Sample
from headrace.worker.engine.driver import EngineLost, Spark

log = logging.getLogger(__name__)

_WAIT_S: Final = 0.2
_AREAS: Final = {"heap": "heap", "non-heap": "nonheap"}
_MEMORY: Final = ("used", "committed", "max")


class JvmMetrics:
    """The figures of the driver's JVM, over all sessions. Any thread may ask."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._reading: threading.Thread | None = None
        self._beans: _Beans | None = None
        self._read: tuple[int, Sequence[Sample]] = (0, ())
        self._failed: int | None = None
        """The generation of a session that failed to give figures, and is asked no more."""

    @property
    def pid(self) -> int | None:
        """The JVM's process id."""
        return self._spark.pid

    def samples(self) -> Sequence[Sample]:
        """The figures of now, or the last ones if the JVM is slow; empty while no session gives them."""
        if not self._spark.is_ready or self._failed == self._spark.generation:
            return ()
        with self._lock:
            reading = self._reading
            if reading is None or not reading.is_alive():
                reading = self._reading = threading.Thread(target=self._ask, name="jvm-metrics", daemon=True)
                reading.start()
        reading.join(_WAIT_S)
        generation, samples = self._read
        return samples if generation == self._spark.generation else ()

    def _ask(self) -> None:
        generation = self._spark.generation
        try:
            with self._spark.using() as session:
                if self._beans is None or self._beans.generation != generation:
                    self._beans = _Beans(session, generation)
                self._read = generation, list(_samples(self._beans.figures()))
        except EngineLost:
            return  # the next session has figures again
        except Exception:
            self._read, self._failed = (generation, ()), generation
            log.exception(
                "The JVM's memory, collections and threads cannot be read: "
                "they are missing in /metrics until Spark's driver is restarted"
            )


class _Beans:
    """The metrics objects in a session's JVM."""

    def __init__(self, session: SparkSession, generation: int) -> None:
        self.generation = generation
        java = jvm_of(session)
        metrics = java.com.codahale.metrics
        self._registry = metrics.MetricRegistry()
        self._registry.registerAll("memory", metrics.jvm.MemoryUsageGaugeSet())
        self._registry.registerAll("gc", metrics.jvm.GarbageCollectorMetricSet())
        self._registry.register("threads", metrics.jvm.ThreadStatesGaugeSet().getMetrics().get("count"))
        seconds = java.java.util.concurrent.TimeUnit.SECONDS
        mapper = java.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper = mapper.registerModule(metrics.json.MetricsModule(seconds, seconds, False))

    def figures(self) -> Mapping[str, float]:
        """Fetch each figure by the library's name, in one call."""
        gauges = json.loads(self._mapper.writeValueAsString(self._registry))["gauges"]
        return {name: gauge["value"] for name, gauge in gauges.items() if "value" in gauge}


def _samples(figures: Mapping[str, float]) -> Iterator[Sample]:
    for area, shown in _AREAS.items():
        for what in _MEMORY:
            value = figures[f"memory.{area}.{what}"]
            yield Sample(f"jvm_memory_{what}_bytes", {"area": shown}, value, f"Memory of Spark's driver: {what}")
    for name, value in figures.items():
        prefix, _, rest = name.partition(".")
        collector, _, what = rest.rpartition(".")
        if prefix == "gc":
            suffix, scale = {"count": ("count", 1), "time": ("sum", 1000)}[what]
            text = "Time of garbage collections of Spark's driver"
            yield Sample(f"jvm_gc_collection_seconds_{suffix}", {"gc": collector}, value / scale, text)
    yield Sample("jvm_threads_current", {}, figures["threads"], "Threads of Spark's driver")
