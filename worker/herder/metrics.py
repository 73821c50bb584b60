"""A worker's metrics, gathered on each scrape: Connect's groups under Strimzi's Prometheus names.

    kafka_connect_<group without connect- and -metrics>_<attribute>{connector, task}

Strimzi's rules for the JMX exporter give these names to Apache Connect's MBeans, so that dashboards and alerts made for
them serve here. Ours beside them: `connector_task_unhealthy`, one for each task that is stuck.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace import CONNECT_VERSION
from headrace.plugins.samples import Sample
from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.measures import Rebalances, StartupCounter
from headrace.worker.model import ConnectorState, State, Status, TaskId
from headrace.worker.tasks.metrics import Stuck, TaskMetrics, TasksMetrics

log = logging.getLogger(__name__)

_COUNTED: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""The states by which a connector's tasks are counted."""
_PROTOCOLS: Final = {0: "EAGER", 1: "COMPATIBLE", 2: "SESSIONED"}


class GroupView(Protocol):
    """A worker's place in its group."""

    @property
    def generation(self) -> int: ...

    @property
    def leader_url(self) -> str | None: ...

    @property
    def protocol_version(self) -> int: ...


@dataclass
class WorkerMetrics(Collector):
    """The metrics of a worker, and those of its tasks that are stuck."""

    herder: Herder
    worker_id: str
    tasks: TasksMetrics
    connector_starts: StartupCounter
    group: GroupView | None = None
    """None for a standalone worker."""
    rebalances: Rebalances | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """What every sample has besides its own: the flow, in a process of several workers."""

    def stuck(self) -> dict[TaskId, Stuck]:
        """The tasks that are RUNNING and do not move."""
        found = ((task, metrics.stuck()) for task, metrics in sorted(self.tasks.all().items()))
        return {task: stuck for task, stuck in found if stuck is not None}

    def collect(self) -> Iterator[Metric]:
        """All families, each with all its samples."""
        yield from collected([self])

    def add_to(self, families: Families) -> None:
        """Add the worker's samples to the families."""
        families.labels = self.labels
        own = list(self._own())
        self._of_worker(families, own)
        for state, connector in own:
            _of_connector(families, state, connector, self._class_of(state.name))
        for task, metrics in self.tasks.all().items():
            labels = {"connector": task.connector, "task": str(task.task)}
            for (group, attribute), value in metrics.figures().items():
                families.add(group, attribute, value, labels)
            for sample in _plugin_samples(task, metrics):
                families.add_sample(sample)
        for task, stuck in self.stuck().items():
            labels = {"connector": task.connector, "task": str(task.task), "reason": stuck.reason}
            families.add("connector-task", "unhealthy", 1, labels)
        if self.group is not None and self.rebalances is not None:
            _of_group(families, self.group, self.rebalances, own)

    def _own(self) -> Iterator[tuple[ConnectorState, bool]]:
        """The connectors that run here, each with those of its tasks that do; whether the connector itself does."""
        for name in self.herder.connectors():
            try:
                state = self.herder.connector_state(name)
            except NotFound:
                continue  # it has no status yet, or has just gone
            tasks = {number: status for number, status in state.tasks.items() if self._is_own(status)}
            if tasks or self._is_own(state.connector):
                yield ConnectorState(name, state.connector, tasks, state.type), self._is_own(state.connector)

    def _is_own(self, status: Status) -> bool:
        return status.worker_id == self.worker_id and status.state is not State.UNASSIGNED

    def _class_of(self, name: str) -> str:
        try:
            return self.herder.connector_info(name).config.get("connector.class") or ""
        except NotFound:
            return ""

    def _of_worker(self, families: Families, own: list[tuple[ConnectorState, bool]]) -> None:
        counts = {
            "connector_count": sum(is_own for _, is_own in own),
            "task_count": len(self.tasks.all()),
            **_starts("connector", self.connector_starts),
            **_starts("task", self.tasks.starts),
        }
        for attribute, value in counts.items():
            families.add("worker", attribute, value)
        families.add("version", "info", 1, {"version": CONNECT_VERSION})


def collected(workers: Iterable[WorkerMetrics]) -> Iterator[Metric]:
    """The metrics of all workers of this process, and of the process."""
    families = Families()
    for worker in workers:
        worker.add_to(families)
    yield from families.made.values()
    yield from ProcessCollector(registry=None).collect()


def _plugin_samples(task: TaskId, metrics: TaskMetrics) -> list[Sample]:
    try:
        return list(metrics.plugin_samples())
    except Exception:
        log.exception("The plugin of task %s does not give its metrics", task)
        return []


def _of_connector(families: Families, state: ConnectorState, own: bool, class_name: str) -> None:
    labels = {"connector": state.name}
    if own:
        texts = {
            "status": str(state.connector.state).lower(),
            "connector_type": state.type,
            "connector_class": class_name,
            "connector_version": state.connector.version or "",
        }
        for attribute, text in texts.items():
            families.add("connector", attribute, 1, {**labels, attribute: text})
    counts = Counter(str(status.state).lower() for status in state.tasks.values())
    families.add("worker", "connector_total_task_count", len(state.tasks), labels)
    for name in _COUNTED:
        families.add("worker", f"connector_{name}_task_count", counts[name], labels)
    for number, status in state.tasks.items():
        shown = {**labels, "task": str(number), "status": str(status.state).lower()}
        families.add("connector-task", "status", 1, shown)


def _of_group(
    families: Families, group: GroupView, rebalances: Rebalances, own: list[tuple[ConnectorState, bool]]
) -> None:
    protocol = _PROTOCOLS.get(group.protocol_version, str(group.protocol_version))
    families.add("worker-rebalance", "connect_protocol", 1, {"connect_protocol": protocol})
    families.add("worker-rebalance", "leader_name", 1, {"leader_name": group.leader_url or ""})
    families.add("worker-rebalance", "epoch", group.generation)
    for attribute, value in rebalances.figures().items():
        families.add("worker-rebalance", attribute, value)
    families.add("coordinator", "assigned_connectors", sum(is_own for _, is_own in own))
    families.add("coordinator", "assigned_tasks", sum(len(state.tasks) for state, _ in own))


def _starts(what: str, starts: StartupCounter) -> dict[str, float]:
    attempts, failures = starts.attempts, starts.failures
    share = 100.0 * failures / attempts if attempts else 0.0
    return {
        f"{what}_startup_attempts_total": attempts,
        f"{what}_startup_success_total": attempts - failures,
        f"{what}_startup_failure_total": failures,
        f"{what}_startup_success_percentage": 100.0 - share if attempts else 0.0,
        f"{what}_startup_failure_percentage": share,
    }


class Families:
    """Metric families by name, in the order in which they came."""

    def __init__(self) -> None:
        self.made: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        self.labels: Mapping[str, str] = {}
        """What every sample that comes now has besides its own."""

    def add(self, group: str, attribute: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """A sample; all of a family have the same labels."""
        name = f"kafka_connect_{group.replace('-', '_')}_{attribute}"
        self.add_sample(Sample(name, labels or {}, value, f"Kafka Connect {group} {attribute}"))

    def add_sample(self, sample: Sample) -> None:
        """A sample under its full name."""
        labels = {**self.labels, **sample.labels}
        family = self.made.get(sample.name)
        if family is None:
            make = CounterMetricFamily if sample.name.endswith("_total") else GaugeMetricFamily
            family = self.made[sample.name] = make(sample.name, sample.text, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), sample.value)
