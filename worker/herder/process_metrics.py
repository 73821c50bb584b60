"""Metrics of a process, shared by its workers: its own, Spark's driver's, Java plugins' and the Kafka clients'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client import ProcessCollector

from headrace.plugins.interop.kafka.client_statistics import KINDS, traffic
from headrace.plugins.samples import Sample
from headrace.worker.herder.metric_names import NamedSamples


class MeasuredJvm(Protocol):
    """A JVM beside the worker: Spark's driver, or that of Java plugins."""

    @property
    def pid(self) -> int | None:
        """Process id; None while it does not run."""

    def samples(self) -> Sequence[Sample]:
        """Return its metrics; none while it does not run."""


class ProcessMetrics:
    """Metrics of this process."""

    def __init__(self, executors_trouble: Callable[[], str | None] = lambda: None, **jvms: MeasuredJvm) -> None:
        """`jvms`: the JVMs beside it, by the label of their process metrics.

        `executors_trouble` returns what keeps Spark's executors from running jobs; None if nothing is known.
        """
        self.executors_trouble = executors_trouble
        self._jvms = jvms

    def add_to(self, samples: NamedSamples) -> None:
        """Add all samples."""
        for sample in _of_process("self"):
            samples.add_sample(sample)
        for name, jvm in self._jvms.items():
            if (pid := jvm.pid) is not None:
                for sample in _of_process(str(pid)):
                    samples.add_sample(sample._replace(labels={"process": name}))
                for sample in jvm.samples():
                    samples.add_sample(sample)
        for kind in KINDS:
            found = traffic(kind)
            attributes = [(kind, name) for name in ("connection_count", "outgoing_byte_total", "incoming_byte_total")]
            labels = [{"client_id": client_id} for client_id in found]
            samples.add_table(attributes, labels, list(found.values()))


def _of_process(pid: str) -> Iterator[Sample]:
    """Yield the metrics of a process, by its name in /proc; none if it has ended."""
    for family in ProcessCollector(pid=lambda: pid, registry=None).collect():
        for name, labels, value, *_ in family.samples:
            yield Sample(name, labels, value, family.documentation)
