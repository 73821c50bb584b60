"""Prometheus' text: read with its own parser, and compared with what its own client writes of the same samples."""

from __future__ import annotations

import math
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from headrace.plugins.samples import Sample
from headrace.worker.herder.exposition import Exposition, labels_text

AWKWARD = 'a "quoted" \\ name,\nof two lines {x} %s nan\n ä'
VALUES = [0, 7, 0.1, 1e-7, 1e21, 123456789.123, -3.5, math.nan, math.inf, -math.inf, True]
SAMPLES = [
    Sample("plain", {}, 1.5, "One\nof two \\ lines"),
    *(Sample("of_each", {"n": str(n), "name": AWKWARD}, value, "Each") for n, value in enumerate(VALUES)),
    Sample("moved_total", {"b": "2", "a": "1"}, 3, "Moved"),
    Sample("plain", {"late": ""}, 2, "Not said again"),
]


class OfTheClient(Collector):
    """The same samples, as prometheus_client's families."""

    def collect(self) -> list[Metric]:
        made: dict[str, Metric] = {}
        for sample in SAMPLES:
            kind = CounterMetricFamily if sample.name.endswith("_total") else GaugeMetricFamily
            family = made.setdefault(sample.name, kind(sample.name, sample.text))
            family.add_sample(sample.name, dict(sample.labels), sample.value)
        return list(made.values())


def read(text: str) -> list[tuple[object, ...]]:
    """The families with their samples, as Prometheus' parser reads them."""
    return [
        (family.name, family.type, family.documentation, *map(_read, family.samples))
        for family in text_string_to_metric_families(text)
    ]


def _read(sample: Any) -> tuple[object, ...]:
    return sample.name, sorted(sample.labels.items()), repr(float(sample.value))


def test_the_text_says_what_prometheus_own_client_would() -> None:
    exposition = Exposition()
    for sample in SAMPLES:
        exposition.add(sample)
    assert read(exposition.text()) == read(generate_latest(OfTheClient()).decode())


def test_a_column_says_what_its_samples_would() -> None:
    columns, single = Exposition(), Exposition()
    labels = [{"n": str(n), "name": AWKWARD} for n in range(len(VALUES))]
    columns.add_column("of_each", "Each", [labels_text(one) for one in labels], [*VALUES[:-1], 1])
    for one, value in zip(labels, VALUES, strict=True):
        single.add(Sample("of_each", one, value, "Each"))
    assert read(columns.text()) == read(single.text())


def test_sum_and_count_of_seconds_are_a_summary() -> None:
    exposition = Exposition()
    exposition.add(Sample("gc_seconds_sum", {"gc": "Copy"}, 0.5, "Collections"))
    exposition.add(Sample("gc_seconds_count", {"gc": "Copy"}, 2, "Collections"))
    exposition.add(Sample("task_count", {}, 4, "Tasks"))
    families = {family.name: family for family in text_string_to_metric_families(exposition.text())}
    assert (families["gc_seconds"].type, len(families["gc_seconds"].samples)) == ("summary", 2)
    assert families["task_count"].type == "gauge"
