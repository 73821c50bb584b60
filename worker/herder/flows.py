"""Flows of a MirrorMaker process, for REST: each one's herder, health and metrics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from headrace.worker.errors import NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.metrics import WorkerMetrics, metrics_text
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.model import Health


class FlowWorker(Protocol):
    """Worker of a flow."""

    @property
    def herder(self) -> Herder: ...

    @property
    def metrics(self) -> WorkerMetrics: ...


@dataclass(frozen=True)
class FlowView:
    """A flow's worker in this process."""

    worker: FlowWorker
    waits_for: str | None = None
    """The reason that it has not begun its work; None once it has."""

    def health(self) -> Health:
        """Return the worker's health; `starting` while it waits."""
        if self.waits_for is not None:
            return Health("starting", f"Worker is still starting up. {self.waits_for}")
        return self.worker.herder.health()


class Flows:
    """Flows by source and target; a flow's worker may be replaced at any time."""

    def __init__(self, process: ProcessMetrics) -> None:
        """`process`: the metrics shared by all flows."""
        self._process = process
        self._views: dict[tuple[str, str], FlowView] = {}

    def show(self, source: str, target: str, view: FlowView) -> None:
        """Set the flow's worker."""
        self._views[source, target] = view

    def herder(self, source: str, target: str) -> Herder:
        """Return the herder of a flow. Errors: NotFound."""
        view = self._views.get((source, target))
        if view is None:
            raise NotFound(f"No replication flow found for source '{source}' and target '{target}'")
        return view.worker.herder

    def health(self) -> dict[str, Health]:
        """Return the health of each flow; asks them in parallel, since a busy herder answers late."""
        views = dict(self._views)
        with ThreadPoolExecutor(max(1, len(views)), "flows-health") as pool:
            found = pool.map(FlowView.health, views.values())
            return {f"{source}->{target}": health for (source, target), health in zip(views, found, strict=True)}

    def metrics(self) -> dict[str, WorkerMetrics]:
        """Return the metrics of each flow's worker."""
        return {f"{source}->{target}": view.worker.metrics for (source, target), view in dict(self._views).items()}

    def metrics_text(self) -> str:
        """Return the metrics of all flows and of the process as Prometheus text; a flow's samples have its label."""
        return metrics_text(self.metrics().values(), self._process)
