"""The samples of a scrape as numbers with labels, for outputs other than Prometheus' text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.plugins.samples import Sample
from headrace.worker.herder.metric_names import NamedSamples
from headrace.worker.herder.metrics import WorkerMetrics


class Column(NamedTuple):
    """The samples of one name."""

    name: str
    text: str
    """Help text."""
    labels: Sequence[Mapping[str, str]]
    values: Sequence[float]

    @property
    def is_counter(self) -> bool:
        """True for a total that only grows."""
        return self.name.endswith("_total")

    def numbers(self) -> Iterator[tuple[Mapping[str, str], float]]:
        """Yield the samples that have a value."""
        for labels, value in zip(self.labels, self.values, strict=True):
            if math.isfinite(value):
                yield labels, value


@dataclass
class Numbers:
    """Takes the samples of a scrape, as `exposition.Exposition` does."""

    columns: list[Column] = field(default_factory=list)

    @staticmethod
    def shown(labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels as they are."""
        return labels

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        self.add_column(sample.name, sample.text, [sample.labels], [sample.value])

    def add_column(self, name: str, text: str, labels: Sequence[Mapping[str, str]], values: Sequence[float]) -> None:
        """Add samples of one name."""
        self.columns.append(Column(name, text, labels, values))


def collected(metrics: WorkerMetrics, states: bool = True) -> list[Column]:
    """Collect what GET /metrics has; `states`: also the samples that show a text, or a state, as a label."""
    numbers = Numbers()
    metrics.add_to(numbers, states)
    metrics.process.add_to(NamedSamples(numbers, metrics.names, states=states))
    return numbers.columns
