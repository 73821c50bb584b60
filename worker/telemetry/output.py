"""Sends a worker's metrics and batches, as its settings say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.metrics_output import INTERVAL, OTLP
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.telemetry.numbers import collected
from headrace.worker.telemetry.servers import servers_of

if TYPE_CHECKING:  # the extra headrace[otel] may not be installed
    from headrace.worker.telemetry.otlp import Collector

_OTEL_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_OTEL_INTERVAL_MS: Final = 60_000


class TelemetryOutput:
    """The outputs of one worker; without settings there is none, and nothing costs anything."""

    def __init__(self, config: WorkerConfig, metrics: WorkerMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._servers = servers_of(config)
        self._collector: Collector | None = None

    def start(self) -> None:
        """Begin to take batches, if they are sent anywhere."""
        if self._config[OTLP] is not None:
            from headrace.worker.telemetry.otlp import Collector

            self._collector = Collector(self._config[OTLP], self._metrics.worker_id, self._metrics.labels)
            self._metrics.tasks.on_batch = self._collector.batch

    def periodic(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """Yield what is to be called regularly, with its interval in seconds."""
        if self._servers:
            yield self._config[INTERVAL] / 1000, self._send_to_servers
        if self._collector is not None:
            yield int(os.environ.get(_OTEL_INTERVAL) or _OTEL_INTERVAL_MS) / 1000, self._send_to_collector

    def stop(self) -> None:
        """Take no batch any more, and end what was begun."""
        self._metrics.tasks.on_batch = None
        if self._collector is not None:
            self._collector.close()

    def _send_to_servers(self) -> None:
        columns = collected(self._metrics, states=False)
        for server in self._servers:
            server.send(columns)

    def _send_to_collector(self) -> None:
        if self._collector is not None:
            self._collector.send(collected(self._metrics))
