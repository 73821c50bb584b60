"""The series that dashboards of Strimzi, of Confluent and ours read, on a worker with a source and a sink."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.test_monitoring import names_read
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually, lines_of
from tests.otlp_receiver import Receiver

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

OF_THE_JMX_EXPORTER = [
    "kafka_connect_worker_connector_count",
    "kafka_connect_worker_task_count",
    "kafka_consumer_connection_count",
    "kafka_producer_connection_count",
    "kafka_admin_client_connection_count",
    "kafka_producer_outgoing_byte_total",
    "kafka_consumer_incoming_byte_total",
    "kafka_connect_coordinator_assigned_connectors",
    "kafka_connect_coordinator_assigned_tasks",
    "kafka_connect_worker_rebalance_rebalancing",
    "kafka_connect_worker_connector_paused_task_count",
    "kafka_connect_worker_connector_failed_task_count",
    "kafka_connect_worker_connector_unassigned_task_count",
    "kafka_connect_worker_connector_destroyed_task_count",
    "kafka_connect_worker_connector_running_task_count",
    "kafka_connect_connector_status",
    "kafka_connect_connector_connector_class",
    "kafka_connect_connector_connector_version",
    "kafka_connect_connector_connector_type",
    "kafka_connect_task_error_total_record_failures",
    "kafka_connect_connector_task_status",
    "jvm_memory_used_bytes",
    "jvm_gc_collection_seconds_sum",
    "jvm_threads_current",
]
"""All but container_cpu_usage_seconds_total, which Kubernetes gives for every container."""

OF_THE_METRICS_REPORTER = [
    "kafka_connect_connect_worker_metrics_connector_count",
    "kafka_connect_connect_worker_metrics_task_count",
    "kafka_consumer_consumer_metrics_connection_count",
    "kafka_producer_producer_metrics_connection_count",
    "kafka_admin_client_admin_client_metrics_connection_count",
    "kafka_producer_producer_metrics_outgoing_byte",
    "kafka_connect_connect_coordinator_metrics_assigned_connectors",
    "kafka_connect_connect_coordinator_metrics_assigned_tasks",
    "kafka_connect_connect_worker_rebalance_metrics_rebalancing",
    "kafka_connect_connect_worker_metrics_connector_paused_task_count",
    "kafka_connect_connect_worker_metrics_connector_failed_task_count",
    "kafka_connect_connect_worker_metrics_connector_unassigned_task_count",
    "kafka_connect_connect_worker_metrics_connector_destroyed_task_count",
    "kafka_connect_connect_worker_metrics_connector_running_task_count",
    "kafka_connect_connector_metrics_status_info",
    "kafka_connect_connector_metrics_connector_class_info",
    "kafka_connect_connector_metrics_connector_version_info",
    "kafka_connect_connector_metrics_connector_type_info",
    "kafka_connect_task_error_metrics_total_record_failures",
    "kafka_connect_connector_task_metrics_status_info",
    "process_cpu_seconds_total",
    "jvm_memory_used_bytes",
    "jvm_gc_collection_seconds_sum",
    "jvm_threads_current",
]
"""All but kafka_producer_producer_node_metrics_incoming_byte: producers' answers by node, shown as consumers' bytes."""

OF_CONFLUENT = [
    "kafka_connect_app",
    "kafka_connect_app_info",
    *(
        f"kafka_connect_connect_metrics_{name}"
        for name in (
            "connection_count",
            "incoming_byte_rate",
            "network_io_rate",
            "outgoing_byte_rate",
            "request_rate",
            "response_rate",
        )
    ),
    *(
        f"kafka_connect_connect_worker_metrics_{name}"
        for name in (
            "connector_count",
            "connector_startup_failure_total",
            "connector_startup_success_total",
            "task_count",
            "task_startup_failure_total",
            "task_startup_success_total",
            *(f"connector_{state}_task_count" for state in ("total", "destroyed", "failed", "paused", "running")),
            "connector_unassigned_task_count",
        )
    ),
    *(
        f"kafka_connect_connect_worker_rebalance_metrics_{name}"
        for name in (
            "completed_rebalances",
            "completed_rebalances_total",
            "rebalance_avg_time_ms",
            "time_since_last_rebalance_ms",
        )
    ),
    "kafka_connect_connector_metrics",
    *(
        f"kafka_connect_connector_task_metrics_{name}"
        for name in (
            "batch_size_avg",
            "batch_size_max",
            "offset_commit_avg_time_ms",
            "offset_commit_success_percentage",
            "pause_ratio",
            "running_ratio",
        )
    ),
    *(
        f"kafka_connect_sink_task_metrics_{name}"
        for name in (
            "offset_commit_completion_rate",
            "offset_commit_skip_rate",
            "partition_count",
            "put_batch_avg_time_ms",
            "put_batch_max_time_ms",
            "sink_record_active_count_avg",
            "sink_record_active_count_max",
            "sink_record_read_rate",
            "sink_record_send_rate",
        )
    ),
    *(
        f"kafka_connect_source_task_metrics_{name}"
        for name in (
            "poll_batch_avg_time_ms",
            "poll_batch_max_time_ms",
            "source_record_active_count_avg",
            "source_record_active_count_max",
            "source_record_poll_rate",
            "source_record_write_rate",
        )
    ),
    *(
        f"kafka_connect_task_error_metrics_{name}"
        for name in (
            "deadletterqueue_produce_failures",
            "deadletterqueue_produce_requests",
            "total_errors_logged",
            "total_record_errors",
            "total_record_failures",
            "total_records_skipped",
            "total_retries",
        )
    ),
]
"""All of both sets of dashboards but four of kafka_connect_connect_metrics_, which the group's client does not count:
failed_authentication, failed_authentication_total, successful_authentication_rate, io_ratio."""

STUCK = "kafka_connect_connector_task_unhealthy"
"""It is there only while a task is stuck (`tests/unit/worker/herder/test_metrics.py`)."""

Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scraped(worker: ClusterWorker) -> Series:
    """Each sample's values by its name and labels."""
    found: Series = {}
    for family in text_string_to_metric_families(worker.http.get("/metrics").text):
        for one in family.samples:
            found.setdefault(one.name, {})[tuple(sorted(one.labels.items()))] = float(one.value)
    return found


class Graphite:
    """Keeps the lines that it gets."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.paths: set[str] = set()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection, connection.makefile() as file:
                    self.paths |= {line.split()[0] for line in file}

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def graphite() -> Iterator[Graphite]:
    made = Graphite()
    yield made
    made.close()


@pytest.fixture
def collector() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_a_worker_has_every_series_of_the_dashboards(
    broker: str, tmp_path: Path, graphite: Graphite, collector: Receiver
) -> None:
    settings = {
        "metrics.names": "strimzi-jmx,strimzi-reporter,confluent",
        "metrics.graphite.host": "127.0.0.1",
        "metrics.graphite.port": str(graphite.port),
        "metrics.output.interval.ms": "1000",
        "otel.exporter.otlp.endpoint": collector.url,
    }
    with ClusterWorker(tmp_path, broker, new_cluster(), settings) as worker:
        topic, source, sink = Topic(broker, "lines"), tmp_path / "in.txt", tmp_path / "out.txt"
        source.write_text("one\n")
        worker.wait_ready()
        worker.create("src", connector_class=SOURCE, file=str(source), topic=topic.name, tasks_max="1")
        worker.create("snk", connector_class=SINK, file=str(sink), topics=topic.name, tasks_max="1")
        wait_balanced(worker, among=1, items=4)
        eventually(lambda: lines_of(sink) == [b"one"], 60)
        found = scraped(worker)
        read = (*OF_THE_JMX_EXPORTER, *OF_THE_METRICS_REPORTER, *OF_CONFLUENT)
        missing = [name for name in read if name not in found]
        assert missing == []
        assert names_read() - {STUCK} - found.keys() == set()
        sent = "connect.kafka_connect_sink_task_sink_record_send_total.snk.0"
        eventually(lambda: sent in graphite.paths, 60)
        eventually(lambda: {"source batch", "sink batch", "write"} <= {one.name for one in collector.spans()}, 60)
        assert found["jvm_memory_used_bytes"][("area", "heap"),] > 1e6
        assert found["jvm_threads_current"][()] > 10
        assert set(found["process_cpu_seconds_total"]) == {(), (("process", "spark"),)}
        assert (("clientid", "connector-consumer-snk-0"),) in found["kafka_consumer_connection_count"]
        assert (("clientid", "connector-producer-src-0"),) in found["kafka_producer_outgoing_byte_total"]
        # Clients tell their traffic once a minute.
        eventually(lambda: _have_told(scraped(worker)), 90)
        # Each scrape asks the JVM on a thread of its own, which leaves none there.
        before = scraped(worker)["jvm_threads_current"][()]
        for _ in range(50):
            after = scraped(worker)["jvm_threads_current"][()]
        assert after < before + 10
        for name, client in (("snk", "consumer-snk"), ("src", "producer-src")):
            worker.request("DELETE", f"/connectors/{name}").raise_for_status()
            eventually(lambda client=client: f"connector-{client}-0" not in worker.http.get("/metrics").text, 60)


def _have_told(found: Series) -> bool:
    """True if the sink's consumer and the source's producer are shown as connected, with bytes."""
    consumer, producer = (("clientid", "connector-consumer-snk-0"),), (("clientid", "connector-producer-src-0"),)
    return all(
        found[name][client] > 0
        for client, names in (
            (consumer, ("kafka_consumer_connection_count", "kafka_consumer_incoming_byte_total")),
            (producer, ("kafka_producer_connection_count", "kafka_producer_outgoing_byte_total")),
        )
        for name in names
    )
