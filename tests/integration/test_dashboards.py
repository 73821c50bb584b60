"""The series that Strimzi's two dashboards of Kafka Connect and ours read, on a worker with a source and a sink."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.test_monitoring import names_read
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually, lines_of

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


def test_a_worker_has_every_series_of_the_dashboards(broker: str, tmp_path: Path) -> None:
    settings = {"metrics.names": "strimzi-jmx,strimzi-reporter"}
    with ClusterWorker(tmp_path, broker, new_cluster(), settings) as worker:
        topic, source, sink = Topic(broker, "lines"), tmp_path / "in.txt", tmp_path / "out.txt"
        source.write_text("one\n")
        worker.wait_ready()
        worker.create("src", connector_class=SOURCE, file=str(source), topic=topic.name, tasks_max="1")
        worker.create("snk", connector_class=SINK, file=str(sink), topics=topic.name, tasks_max="1")
        wait_balanced(worker, among=1, items=4)
        eventually(lambda: lines_of(sink) == [b"one"], 60)
        found = scraped(worker)
        missing = [name for name in (*OF_THE_JMX_EXPORTER, *OF_THE_METRICS_REPORTER) if name not in found]
        assert missing == []
        assert names_read() - {STUCK} - found.keys() == set()
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
    """Whether the sink's consumer and the source's producer are shown as connected, with bytes."""
    consumer, producer = (("clientid", "connector-consumer-snk-0"),), (("clientid", "connector-producer-src-0"),)
    return all(
        found[name][client] > 0
        for client, names in (
            (consumer, ("kafka_consumer_connection_count", "kafka_consumer_incoming_byte_total")),
            (producer, ("kafka_producer_connection_count", "kafka_producer_outgoing_byte_total")),
        )
        for name in names
    )
