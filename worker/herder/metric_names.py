"""Naming schemes of Connect's metrics for Prometheus; `metrics.names` chooses among them.

    strimzi-jmx         kafka_connect_worker_task_count                    Strimzi's rules for the JMX exporter
    strimzi-reporter    kafka_connect_connect_worker_metrics_task_count    Strimzi's Metrics Reporter
    confluent           the same, {connector="aggregate"}                  Confluent's jmx-monitoring-stacks

Source: Strimzi's examples/metrics (both dashboards of Connect and the rules of the exporter), Confluent's
shared-assets/jmx-exporter/kafka_connect.yml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from headrace.config.worker.settings import METRIC_NAMES
from headrace.plugins.samples import Sample
from headrace.worker.herder.exposition import Exposition, labels_text


class MetricName(NamedTuple):
    """A sample's name and labels."""

    name: str
    labels: Mapping[str, str]


_BEANS: Final = {
    "worker": "connect-worker-metrics",
    "worker-rebalance": "connect-worker-rebalance-metrics",
    "coordinator": "connect-coordinator-metrics",
    "version": "app-info",
}
"""MBean types of groups whose type is not their name plus `-metrics`."""


_CLIENTS: Final = ("producer", "consumer", "admin-client")
"""Groups of Kafka's clients; each has a domain of its own beside Connect's."""


def _bean(group: str) -> str:
    bean = _BEANS.get(group, f"{group}-metrics")
    return f"{group if group in _CLIENTS else 'connect'}_{bean}".replace("-", "_")


def _strimzi_jmx(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    if group in _CLIENTS:
        return MetricName(f"kafka_{group.replace('-', '_')}_{attribute}", {"clientid": labels["client_id"]})
    return MetricName(f"kafka_connect_{group.replace('-', '_')}_{attribute}", labels)


def _strimzi_reporter(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    # A text attribute is the label of a sample of its own; Prometheus' client reserves the suffix `_total`.
    shown = f"{attribute}_info" if attribute in labels else attribute.removesuffix("_total")
    return MetricName(f"kafka_{_bean(group)}_{shown}", labels)


def _confluent(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    if group == "version":
        return MetricName("kafka_connect_app_info", labels)
    if group == "connector":
        return MetricName("kafka_connect_connector_metrics", labels)
    more = {"connector": "aggregate"} if group == "worker" and "connector" not in labels else {}
    if group in _CLIENTS:
        more = {"client_type": group.removesuffix("-client")}
    return MetricName(f"kafka_{_bean(group)}_{attribute}", {**labels, **more})


_SCHEMES: Final[Mapping[str, Callable[[str, str, Mapping[str, str]], MetricName]]] = dict(
    zip(METRIC_NAMES, (_strimzi_jmx, _strimzi_reporter, _confluent), strict=True)
)


def named(scheme: str, group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    """Return the name and labels of a group's attribute in a scheme, one of `METRIC_NAMES`."""
    return _SCHEMES[scheme](group, attribute, labels)


class NamedSamples:
    """Adds samples of Connect's groups to an exposition, under the names of each chosen scheme."""

    def __init__(
        self, exposition: Exposition, schemes: Sequence[str], labels: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`labels`: added to those of every sample."""
        self._exposition = exposition
        self._schemes = schemes
        self._labels = labels

    def add(self, group: str, attribute: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Add a sample of an attribute of one of Connect's groups."""
        self.add_table([(group, attribute)], [labels or {}], [(value,)])

    def add_table(
        self,
        attributes: Sequence[tuple[str, str]],
        labels: Sequence[Mapping[str, str]],
        rows: Iterable[Sequence[float]],
    ) -> None:
        """Add a row of samples for each of these labels, one for each (group, attribute).

        All labels have the same names, and in each scheme all groups have the same labels.
        """
        columns = list(zip(*rows, strict=True))
        if not columns:
            return
        told = set()
        for scheme in self._schemes:
            names = [named(scheme, group, attribute, labels[0]) for group, attribute in attributes]
            is_same = names[0].labels is labels[0] and not self._labels
            texts = [labels_text(one if is_same else self._renamed(scheme, attributes[0], one)) for one in labels]
            for (group, attribute), name, column in zip(attributes, names, columns, strict=True):
                series = name.name, texts[0]
                if series not in told:  # two schemes may agree on a name
                    told.add(series)
                    self._exposition.add_column(name.name, f"Kafka Connect {group} {attribute}", texts, column)

    def _renamed(self, scheme: str, attribute: tuple[str, str], labels: Mapping[str, str]) -> Mapping[str, str]:
        return {**self._labels, **named(scheme, *attribute, labels).labels}

    def add_own(
        self, names: Sequence[tuple[str, str]], labels: Sequence[Mapping[str, str]], rows: Iterable[Sequence[float]]
    ) -> None:
        """Add a row of samples for each of these labels, one for each (name, help text), in no scheme."""
        texts = [labels_text({**self._labels, **one}) for one in labels]
        for (name, text), column in zip(names, zip(*rows, strict=True), strict=False):
            self._exposition.add_column(name, text, texts, column)

    def add_sample(self, sample: Sample) -> None:
        """Add a sample under its own name, in no scheme."""
        self._exposition.add(sample._replace(labels={**self._labels, **sample.labels}))
