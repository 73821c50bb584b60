"""A worker's metrics, gathered on each scrape: Connect's groups under Strimzi's Prometheus names.

    kafka_connect_<group without connect- and -metrics>_<attribute>{connector, task}

Strimzi's rules for the JMX exporter give these names to Apache Connect's MBeans, so that dashboards and alerts made for
them serve here; `metrics.names` chooses others (`metric_names.py`). Added here: `connector_task_unhealthy`, one sample
for each stuck task.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace import CONNECT_VERSION
from headrace.config.worker.settings import METRIC_NAMES
from headrace.plugins.samples import Sample
from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.exposition import Exposition
from headrace.worker.herder.metric_names import NamedSamples, SampleTarget
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.herder.series import Series
from headrace.worker.hosting.measures import RebalanceTimes, StartupCounter
from headrace.worker.model import ConnectorState, State, Status, TaskId
from headrace.worker.tasks.metrics import ATTRIBUTES, OWN, STAGE_SECONDS, Stuck, TaskMetrics, TasksMetrics

log = logging.getLogger(__name__)

_COUNTED: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""States that a connector's tasks are counted by."""
_UNHEALTHY: Final = "kafka_connect_connector_task_unhealthy"
_PROTOCOLS: Final = {0: "EAGER", 1: "COMPATIBLE", 2: "SESSIONED"}


class GroupView(Protocol):
    """A worker's place in its group."""

    @property
    def generation(self) -> int: ...

    @property
    def leader_url(self) -> str | None: ...

    @property
    def protocol_version(self) -> int: ...

    def traffic(self) -> Mapping[str, float]: ...


@dataclass
class WorkerMetrics:
    """Metrics of a worker, and its stuck tasks."""

    herder: Herder
    worker_id: str
    tasks: TasksMetrics
    connector_starts: StartupCounter
    group: GroupView | None = None
    """None for a standalone worker."""
    rebalances: RebalanceTimes | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every sample: the flow, in a process of several workers."""
    names: Sequence[str] = METRIC_NAMES[:1]
    """Naming schemes of its metrics (`metrics.names`)."""
    process: ProcessMetrics = field(default_factory=ProcessMetrics)
    """Metrics shared with the other workers of its process."""
    version: str = CONNECT_VERSION
    """The version of Kafka Connect that it claims to be (`rest.connect.version`)."""
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    series: Series = field(init=False)
    """The last hour of its connectors."""

    def __post_init__(self) -> None:
        self.series = Series(self.tasks)

    def stuck(self) -> dict[TaskId, Stuck]:
        """Return the tasks that are RUNNING without progress."""
        found = [(task, metrics.stuck()) for task, metrics in self.tasks.all().items()]
        return dict(sorted((task, stuck) for task, stuck in found if stuck is not None))

    def failed(self) -> list[tuple[str, str]]:
        """List this worker's FAILED connectors and tasks. Shape: (connector, name of the failed one)."""
        found = []
        for state, is_own in self._own():
            name = state.name
            found += [(name, name)] if is_own and state.connector.state is State.FAILED else []
            found += [(name, str(TaskId(name, n))) for n, one in state.tasks.items() if one.state is State.FAILED]
        return sorted(found)

    def metrics_text(self) -> str:
        """Return the metrics of the worker and of its process as Prometheus text."""
        return metrics_text([self], self.process)

    def add_to(self, target: SampleTarget, states: bool = True) -> None:
        """Add the worker's samples; `states`: as of `NamedSamples`."""
        samples = NamedSamples(target, self.names, self.labels, states)
        own = list(self._own())
        self._of_worker(samples, own)
        self._of_connectors(samples, own)
        self._of_tasks(samples)
        if self.group is not None and self.rebalances is not None:
            _of_group(samples, self.group, self.rebalances, own)
            for name, value in self.group.traffic().items():
                samples.add("connect", name.replace("-", "_"), value, {"client_id": f"connect-{self.worker_id}"})

    def _own(self) -> Iterator[tuple[ConnectorState, bool]]:
        """Yield connectors that run or have tasks here, with these tasks; True if the connector itself runs here."""
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

    def _of_worker(self, samples: NamedSamples, own: list[tuple[ConnectorState, bool]]) -> None:
        counts = {
            "connector_count": sum(is_own for _, is_own in own),
            "task_count": len(self.tasks.all()),
            **_starts("connector", self.connector_starts),
            **_starts("task", self.tasks.starts),
        }
        for attribute, value in counts.items():
            samples.add("worker", attribute, value)
        for attribute, label, text in (
            ("info", "version", self.version),
            ("start_time_ms", "start_time_ms", str(self.started_ms)),
        ):
            samples.add("version", attribute, 1, {"client_id": self.worker_id, label: text})

    def _of_connectors(self, samples: NamedSamples, own: list[tuple[ConnectorState, bool]]) -> None:
        shown = [(state, self._class_of(state.name)) for state, is_own in own if is_own]
        for attribute, text in _TEXTS.items():
            labels = [{"connector": state.name, attribute: text(state, class_name)} for state, class_name in shown]
            samples.add_table([("connector", attribute)], labels, [(1,)] * len(labels))
        attributes = [("worker", f"connector_{name}_task_count") for name in ("total", *_COUNTED)]
        samples.add_table(
            attributes, [{"connector": state.name} for state, _ in own], [_counts(state) for state, _ in own]
        )
        statuses = [
            {"connector": state.name, "task": str(number), "status": _shown(status.state)}
            for state, _ in own
            for number, status in state.tasks.items()
        ]
        samples.add_table([("connector-task", "status")], statuses, [(1,)] * len(statuses))

    def _of_tasks(self, samples: NamedSamples) -> None:
        for kind, attributes in ATTRIBUTES.items():
            found = {task: metrics for task, metrics in self.tasks.all().items() if metrics.kind == kind}
            labels = [{"connector": task.connector, "task": str(task.task)} for task in found]
            samples.add_table(attributes, labels, [metrics.figures() for metrics in found.values()])
            _own_of_tasks(samples, labels, list(found.values()), with_lag=kind == "sink")
            for task, metrics in found.items():
                for sample in _plugin_samples(task, metrics):
                    samples.add_sample(sample)
        for task, stuck in self.stuck().items() if samples.states else ():
            shown = {"connector": task.connector, "task": str(task.task), "reason": stuck.reason}
            samples.add_sample(Sample(_UNHEALTHY, shown, 1, "A task that is stuck"))


def _own_of_tasks(
    samples: NamedSamples,
    labels: Sequence[Mapping[str, str]],
    found: Sequence[TaskMetrics],
    with_lag: bool,
) -> None:
    """Add what Connect's groups do not have; a source does not know what waits."""
    shown = OWN if with_lag else OWN[:-1]
    samples.add_own(shown, labels, [metrics.own_figures()[: len(shown)] for metrics in found])
    stages = [
        ({**named, "stage": stage}, (seconds,))
        for named, metrics in zip(labels, found, strict=True)
        for stage, seconds in metrics.stages.totals().items()
    ]
    samples.add_own([STAGE_SECONDS], [named for named, _ in stages], [row for _, row in stages])


def metrics_text(workers: Collection[WorkerMetrics], process: ProcessMetrics) -> str:
    """Return the metrics of a process and of all its workers as Prometheus text."""
    exposition = Exposition()
    for worker in workers:
        worker.add_to(exposition)
    names = list(dict.fromkeys(name for worker in workers for name in worker.names))
    process.add_to(NamedSamples(exposition, names))
    return exposition.text()


def _plugin_samples(task: TaskId, metrics: TaskMetrics) -> list[Sample]:
    try:
        return list(metrics.plugin_samples())
    except Exception:
        log.exception("The plugin of task %s does not give its metrics", task)
        return []


def _shown(state: State) -> str:
    return str(state).lower()


_TEXTS: Final[Mapping[str, Callable[[ConnectorState, str], str]]] = {
    "status": lambda state, _: _shown(state.connector.state),
    "connector_type": lambda state, _: state.type,
    "connector_class": lambda _, class_name: class_name,
    "connector_version": lambda state, _: state.connector.version or "",
}
"""Text attributes of a connector: each is the label of a sample of its own."""


def _counts(state: ConnectorState) -> list[float]:
    counts = Counter(status.state.name.lower() for status in state.tasks.values())
    return [len(state.tasks), *(counts[name] for name in _COUNTED)]


def _of_group(
    samples: NamedSamples, group: GroupView, rebalances: RebalanceTimes, own: list[tuple[ConnectorState, bool]]
) -> None:
    protocol = _PROTOCOLS.get(group.protocol_version, str(group.protocol_version))
    samples.add("worker-rebalance", "connect_protocol", 1, {"connect_protocol": protocol})
    samples.add("worker-rebalance", "leader_name", 1, {"leader_name": group.leader_url or ""})
    samples.add("worker-rebalance", "epoch", group.generation)
    for attribute, value in rebalances.figures().items():
        samples.add("worker-rebalance", attribute, value)
    samples.add("coordinator", "assigned_connectors", sum(is_own for _, is_own in own))
    samples.add("coordinator", "assigned_tasks", sum(len(state.tasks) for state, _ in own))


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
