"""OpenTelemetry: what a collector gets over HTTP, read by OpenTelemetry's own messages."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.contracts import PartitionResult
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.model import TaskId
from headrace.worker.telemetry.output import TelemetryOutput
from tests.held_ports import held_port
from tests.otlp_receiver import Receiver
from tests.unit.worker.herder.test_metrics import worker
from tests.unit.worker.telemetry.test_servers import WORKER


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def started(url: str) -> tuple[WorkerMetrics, TelemetryOutput]:
    metrics = worker({})
    output = TelemetryOutput(WorkerConfig.standalone({**WORKER, "otel.exporter.otlp.endpoint": url}), metrics)
    output.start()
    return metrics, output


def attributes(one: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in one.attributes}


def test_metrics_are_those_of_a_scrape(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    metrics, output = started(f"{receiver.url}/")
    for name in ("a", "b"):
        metrics.tasks.begin(TaskId(name, 0), "sink").moved([PartitionResult(written=5)])
    ((seconds, send),) = output.periodic()
    assert seconds == 60
    send()
    output.stop()
    (of_worker,) = receiver.got[0].resource_metrics
    resource = attributes(of_worker.resource)
    assert resource["service.name"] == "kafka-connect"
    assert resource["service.instance.id"] == "here:8083"
    assert resource["deployment.environment"] == "test"
    found = {one.name: one for one in of_worker.scope_metrics[0].metrics}
    sent = found["kafka_connect_sink_task_sink_record_send_total"]
    assert sent.sum.is_monotonic
    assert {attributes(one)["connector"]: one.as_double or one.as_int for one in sent.sum.data_points} == {
        "a": 5,
        "b": 5,
    }
    assert len(found["kafka_connect_connector_task_batch_size_max"].gauge.data_points) == 2
    assert "kafka_connect_sink_task_sink_record_lag" not in found, "it is not known"


def test_a_batch_is_a_span_with_its_stages(receiver: Receiver) -> None:
    metrics, output = started(receiver.url)
    source, sink = (metrics.tasks.begin(TaskId(name, 1), name) for name in ("source", "sink"))  # type: ignore[arg-type]
    before = time.time_ns()
    with source.attempt():
        pass  # nothing new
    with source.attempt():
        with source.stages.timed("read"):
            source.stages.add("convert", 0)
        source.moved([PartitionResult(written=3, bytes=30)])
        source.stages.add("commit", 0)
    sink.stages.add("commit", 0)
    sink.fetched(7)
    with sink.attempt():
        sink.stages.add("write", 0)
    sink.moved([PartitionResult(written=1)])
    with pytest.raises(OSError, match="away"), sink.attempt():
        raise OSError("away")
    output.stop()
    spans = receiver.spans()
    batches = {one.span_id: one for one in spans if not one.parent_span_id}
    shown = [(one.name, attributes(one), one.status.code) for one in batches.values()]
    assert shown == [
        ("source batch", {"connector": "source", "task": 1, "records": 3, "bytes": 30}, 0),
        ("sink batch", {"connector": "sink", "task": 1, "records": 1, "bytes": 7}, 0),
        ("sink batch", {"connector": "sink", "task": 1, "records": 0, "bytes": 0}, 2),
    ]
    stages = [(batches[one.parent_span_id].name, one.name) for one in spans if one.parent_span_id]
    assert sorted(stages) == [
        ("sink batch", "write"),
        *(("source batch", stage) for stage in ("commit", "convert", "read")),
    ]
    for one in spans:
        assert before - 1e9 <= one.start_time_unix_nano <= one.end_time_unix_nano <= time.time_ns()


def test_a_collector_that_is_away_holds_up_nothing() -> None:
    port = held_port()
    metrics, output = started(f"http://127.0.0.1:{port}")
    task = metrics.tasks.begin(TaskId("a", 0), "source")
    began = time.monotonic()
    for _ in range(10_000):  # more than the queue holds
        with task.attempt():
            task.moved([PartitionResult(written=1)])
    output.stop()
    assert time.monotonic() - began < 60
    assert metrics.tasks.begin(TaskId("a", 1), "source").on_batch is None


def test_nothing_is_traced_unless_a_collector_is_named() -> None:
    metrics = worker({})
    output = TelemetryOutput(WorkerConfig.standalone(WORKER), metrics)
    output.start()
    assert list(output.periodic()) == []
    assert metrics.tasks.begin(TaskId("a", 0), "source").on_batch is None
    output.stop()


@pytest.mark.parametrize(
    ("value", "why"),
    [("localhost:4318", "It must be a URL"), ("grpc://h:4317", "It must be a URL"), ("http://", "a URL")],
)
def test_a_wrong_endpoint_is_refused(value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        WorkerConfig.standalone({**WORKER, "otel.exporter.otlp.endpoint": value})


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.config.worker import metrics_output

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    assert importlib.util.find_spec("opentelemetry.sdk") is not None
    monkeypatch.setattr(metrics_output, "find_spec", missing)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[otel\]'"):
        WorkerConfig.standalone({**WORKER, "otel.exporter.otlp.endpoint": "http://localhost:4318"})
