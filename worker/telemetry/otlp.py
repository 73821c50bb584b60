"""Sends metrics, and a span for each batch, to an OpenTelemetry collector by the SDK's exporters over HTTP.

The SDK's own variables hold: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS,
OTEL_TRACES_SAMPLER, OTEL_BSP_…, and so on. Spans wait in a bounded queue, and what does not fit is dropped.

Decided: metrics are those of GET /metrics, made into OTLP's messages here, because the SDK's instruments would count
everything a second time; loses: its views and readers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from headrace import __version__
from headrace.worker.model import TaskId
from headrace.worker.tasks.batch_trace import BatchTrace
from headrace.worker.telemetry.numbers import Column

log = logging.getLogger(__name__)

_SCOPE: Final = "headrace"
_SERVICE: Final = "kafka-connect"
_END_S: Final = 2.0
"""The most that the end of a worker waits for a collector."""


class Collector:
    """A collector; any thread may call."""

    def __init__(self, endpoint: str, worker_id: str, labels: Mapping[str, str]) -> None:
        """`labels`: those of each of the worker's samples."""
        base = endpoint.rstrip("/")
        # The environment's attributes win, and so does its name for the service.
        own = {SERVICE_NAME: _SERVICE, SERVICE_INSTANCE_ID: worker_id, **labels}
        given = Resource.create().attributes
        unnamed = str(given.get(SERVICE_NAME, "")).startswith("unknown_service")
        self._resource = Resource.create({key: own[key] for key in own if key not in given or unnamed})
        self._metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics")
        self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces")))
        self._tracer = self._provider.get_tracer(_SCOPE, __version__)
        self._began_ns = time.time_ns()

    def send(self, columns: Sequence[Column]) -> None:
        """Send these samples; the exporter logs what cannot be sent."""
        now_ns = time.time_ns()
        made = [self._metric(one, now_ns) for one in _together(columns)]
        known = [one for one in made if one.data.data_points]
        scope = ScopeMetrics(InstrumentationScope(_SCOPE, __version__), known, "")
        self._metrics.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))

    def batch(self, task: TaskId, batch: BatchTrace) -> None:
        """Take a batch of a task as a span, with one below it for each stage."""
        began_ns, zero = time.time_ns(), time.monotonic()

        def at_ns(moment: float) -> int:
            return began_ns - int((zero - moment) * 1e9)

        attributes: dict[str, str | int] = {
            "connector": task.connector,
            "task": task.task,
            "records": batch.records,
            "bytes": batch.bytes,
        }
        span = self._tracer.start_span(f"{batch.kind} batch", start_time=at_ns(batch.began), attributes=attributes)
        if span.is_recording():
            below = trace.set_span_in_context(span)
            for stage, times in batch.stages.items():
                child = self._tracer.start_span(
                    stage, below, attributes={"busy_ms": times.busy_s * 1000}, start_time=at_ns(times.began)
                )
                child.end(at_ns(times.ended))
            if batch.error is not None:
                span.set_status(trace.Status(trace.StatusCode.ERROR, batch.error))
        span.end(at_ns(batch.ended))

    def close(self) -> None:
        """Send the last spans, if the collector takes them within a moment."""
        ending = threading.Thread(target=self._shut_down, name="otlp-end", daemon=True)
        ending.start()
        ending.join(_END_S)

    def _shut_down(self) -> None:
        self._provider.shutdown()
        self._metrics.shutdown()

    def _metric(self, column: Column, now_ns: int) -> Metric:
        points = [
            NumberDataPoint(dict(labels), self._began_ns if column.is_counter else 0, now_ns, value)
            for labels, value in column.numbers()
        ]
        data: Any = Gauge(points)
        if column.is_counter:
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return Metric(column.name, column.text, "", data)


def _together(columns: Sequence[Column]) -> list[Column]:
    """Join the columns of one name."""
    of: dict[str, Column] = {}
    for one in columns:
        before = of.get(one.name)
        if before is not None:
            one = Column(one.name, one.text, [*before.labels, *one.labels], [*before.values, *one.values])
        of[one.name] = one
    return list(of.values())
