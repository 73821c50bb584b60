"""Naming schemes of Connect's metrics for Prometheus; `metrics.names` chooses among them.

    strimzi-jmx         kafka_connect_worker_task_count                    Strimzi's rules for the JMX exporter
    strimzi-reporter    kafka_connect_connect_worker_metrics_task_count    Strimzi's Metrics Reporter
    confluent           the same, {connector="aggregate"}                  Confluent's jmx-monitoring-stacks

The last one has two names of a few metrics: versions of the JMX exporter from 1.0 on take the ends `_info` and `_total`
off, and the two sets of dashboards read one each.

Source: Strimzi's examples/metrics (both dashboards of Connect and the rules of the exporter), Confluent's
shared-assets/jmx-exporter/kafka_connect.yml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from headrace.config.worker.settings import METRIC_NAMES
from headrace.plugins.samples import Sample


class MetricName(NamedTuple):
    """A sample's name and labels."""

    name: str
    labels: Mapping[str, str]


_OF_GROUPS_CLIENT: Final = "connect"
"""The client with which a worker is a member of its group."""
_BEANS: Final = {
    "worker": "connect-worker-metrics",
    "worker-rebalance": "connect-worker-rebalance-metrics",
    "coordinator": "connect-coordinator-metrics",
    "version": "app-info",
}
"""MBean types of groups whose type is not their name plus `-metrics`."""


_TEXTS: Final = ("version", "status")
"""Labels that show a text, beside those that are named like their attribute."""
_CLIENTS: Final = ("producer", "consumer", "admin-client")
"""Groups of Kafka's clients; each has a domain of its own beside Connect's."""


def _bean(group: str) -> str:
    bean = _BEANS.get(group, f"{group}-metrics")
    return f"{group if group in _CLIENTS else 'connect'}_{bean}".replace("-", "_")


def _strimzi_jmx(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName | None:
    if group == _OF_GROUPS_CLIENT or attribute == "start_time_ms":
        return None  # there are no such rules
    if group == "version":
        labels = {key: value for key, value in labels.items() if key != "client_id"}
    if group in _CLIENTS:
        return MetricName(f"kafka_{group.replace('-', '_')}_{attribute}", {"clientid": labels["client_id"]})
    return MetricName(f"kafka_connect_{group.replace('-', '_')}_{attribute}", labels)


def _strimzi_reporter(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    # A text attribute is the label of a sample of its own; Prometheus' client reserves the suffix `_total`.
    shown = f"{attribute}_info" if attribute in labels else attribute.removesuffix("_total")
    return MetricName(f"kafka_{_bean(group)}_{shown}", labels)


def _confluent_of_new_exporter(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    name, labels = _confluent(group, attribute, labels)
    if group == "version":
        return MetricName("kafka_connect_app", labels)
    return MetricName(name.removesuffix("_total") if attribute == "completed_rebalances_total" else name, labels)


def _confluent(group: str, attribute: str, labels: Mapping[str, str]) -> MetricName:
    if group == "version":
        return MetricName("kafka_connect_app_info", labels)
    if group == "connector":
        return MetricName("kafka_connect_connector_metrics", labels)
    more = {"connector": "aggregate"} if group == "worker" and "connector" not in labels else {}
    if group in _CLIENTS:
        more = {"client_type": group.removesuffix("-client")}
    return MetricName(f"kafka_{_bean(group)}_{attribute}", {**labels, **more})


Naming = Callable[[str, str, Mapping[str, str]], MetricName | None]
"""Gives the name and labels of a group's attribute; None if there is none."""
_NAMINGS: Final[Mapping[str, Sequence[Naming]]] = dict(
    zip(
        METRIC_NAMES,
        ((_strimzi_jmx,), (_strimzi_reporter,), (_confluent, _confluent_of_new_exporter)),
        strict=True,
    )
)


class SampleTarget(Protocol):
    """Takes the samples of a scrape."""

    def shown(self, labels: Mapping[str, str], /) -> Any:
        """Make of a sample's labels what `add_column` takes."""

    def add(self, sample: Sample) -> None:
        """Add a sample."""

    def add_column(self, name: str, text: str, labels: Sequence[Any], values: Sequence[float]) -> None:
        """Add samples of one name, with its help text."""


class NamedSamples:
    """Adds samples of Connect's groups to a target, under the names of each chosen scheme."""

    def __init__(
        self,
        target: SampleTarget,
        schemes: Sequence[str],
        labels: Mapping[str, str] = MappingProxyType({}),
        states: bool = True,
    ) -> None:
        """`labels`: added to those of every sample; `states`: also add what shows a text, or a state, as a label."""
        self._target = target
        self.states = states
        self._namings = [naming for scheme in schemes for naming in _NAMINGS[scheme]]
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
        if not columns or not (self.states or labels[0].keys().isdisjoint({attributes[0][1], *_TEXTS})):
            return
        told = set()
        for naming in self._namings:
            names = [naming(group, attribute, labels[0]) for group, attribute in attributes]
            if (first := names[0]) is None:
                continue
            is_same = first.labels is labels[0] and not self._labels
            shown = self._target.shown
            texts = [shown(one if is_same else self._renamed(naming, attributes[0], one)) for one in labels]
            for (group, attribute), name, column in zip(attributes, names, columns, strict=True):
                if name is None:
                    continue
                series = name.name, str(texts[0])
                if series not in told:  # two schemes may agree on a name
                    told.add(series)
                    self._target.add_column(name.name, f"Kafka Connect {group} {attribute}", texts, column)

    def _renamed(self, naming: Naming, attribute: tuple[str, str], labels: Mapping[str, str]) -> Mapping[str, str]:
        renamed = naming(*attribute, labels)
        return self._labels if renamed is None else {**self._labels, **renamed.labels}

    def add_own(
        self, names: Sequence[tuple[str, str]], labels: Sequence[Mapping[str, str]], rows: Iterable[Sequence[float]]
    ) -> None:
        """Add a row of samples for each of these labels, one for each (name, help text), in no scheme."""
        texts = [self._target.shown({**self._labels, **one}) for one in labels]
        for (name, text), column in zip(names, zip(*rows, strict=True), strict=False):
            self._target.add_column(name, text, texts, column)

    def add_sample(self, sample: Sample) -> None:
        """Add a sample under its own name, in no scheme."""
        self._target.add(sample._replace(labels={**self._labels, **sample.labels}))
