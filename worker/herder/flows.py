"""The flows of a MirrorMaker process, as REST asks for them: the herder, the health and the metrics of each."""

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
    """The worker of a flow."""

    @property
    def herder(self) -> Herder: ...

    @property
    def metrics(self) -> WorkerMetrics: ...


@dataclass(frozen=True)
class FlowView:
    """A flow's worker in this process."""

    worker: FlowWorker
    waits_for: str | None = None
    """Why it has not taken up its work; None once it has."""

    def health(self) -> Health:
        """The health of the worker."""
        if self.waits_for is not None:
            return Health("starting", f"Worker is still starting up. {self.waits_for}")
        return self.worker.herder.health()


class Flows:
    """The flows by source and target; a flow's worker may be replaced at any time."""

    def __init__(self, process: ProcessMetrics) -> None:
        """`process`: the metrics that they share."""
        self._process = process
        self._views: dict[tuple[str, str], FlowView] = {}

    def show(self, source: str, target: str, view: FlowView) -> None:
        """Have this be the flow's worker from now on."""
        self._views[source, target] = view

    def herder(self, source: str, target: str) -> Herder:
        """The herder of a flow.

        Errors: NotFound.
        """
        view = self._views.get((source, target))
        if view is None:
            raise NotFound(f"No replication flow found for source '{source}' and target '{target}'")
        return view.worker.herder

    def health(self) -> dict[str, Health]:
        """The health of each flow; asked at once, for a busy herder answers late."""
        views = dict(self._views)
        with ThreadPoolExecutor(max(1, len(views)), "flows-health") as pool:
            found = pool.map(FlowView.health, views.values())
            return {f"{source}->{target}": health for (source, target), health in zip(views, found, strict=True)}

    def metrics(self) -> dict[str, WorkerMetrics]:
        """The metrics of each flow's worker."""
        return {f"{source}->{target}": view.worker.metrics for (source, target), view in dict(self._views).items()}

    def metrics_text(self) -> str:
        """The metrics of all flows and of the process, for Prometheus; samples of a flow have its label."""
        return metrics_text(self.metrics().values(), self._process)
