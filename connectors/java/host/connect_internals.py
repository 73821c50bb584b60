"""Kafka's private classes used from Python in a host: Connect's plugin class loader, and the metrics of plugins.

Seen in Kafka 4.3.1 (`config/jars.py` pins it) and 4.4.0. The Java files of this folder use two more: `RecordHeaders`
and `WorkerSinkTaskContext`. JPype is used by its public names only (`tests/unit/test_private_names.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jpype

_LOADER: Final = "org.apache.kafka.connect.runtime.isolation.PluginClassLoader"
_METRICS: Final = "org.apache.kafka.common.metrics"


def plugin_class_loader(location: Any, jars: Sequence[Any], parent: Any) -> Any:
    """Return the class loader of the plugin at this URL, with these jars."""
    return jpype.JClass(_LOADER)(location, list(jars), parent)


def new_plugin_metrics(tags: Mapping[str, str]) -> Any:
    """Return metrics of one plugin, with their own registry, which JMX shows."""
    named, settings = jpype.java.util.LinkedHashMap(), jpype.java.util.HashMap()
    for key, value in tags.items():
        named.put(key, value)
    reporter = jpype.JClass(f"{_METRICS}.JmxReporter")()
    settings.put("metrics.jmx.exclude", ".*type=kafka-metrics-count.*")  # each registry would count itself
    reporter.configure(settings)
    metrics = jpype.JClass(f"{_METRICS}.Metrics")(
        jpype.JClass(f"{_METRICS}.MetricConfig")(),
        jpype.java.util.ArrayList([reporter]),
        jpype.JClass("org.apache.kafka.common.utils.Time").SYSTEM,
        jpype.JClass(f"{_METRICS}.KafkaMetricsContext")("kafka.connect"),
    )
    return jpype.JClass(f"{_METRICS}.internals.PluginMetricsImpl")(metrics, named)
