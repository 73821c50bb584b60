"""The order of tests: which run one after the other in one process of pytest-xdist, and which begin first.

A module's tests stay together for its fixtures' sake. Modules that share what is slow to start (a worker, HDFS, the
schema registry, a second broker) stay together, too, so that it starts once. What takes longest begins first, so that
all processes end together. What needs Spark in the test's own process goes to two processes of three as long as there
is other work for the third: a Spark driver is quick only after a minute of work.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

TOGETHER: Final = {
    "tests/compat/test_rest_vectors.py": "REST workers",
    "tests/compat/test_rest_clients.py": "REST workers",
    "tests/compat/test_avro_registry.py": "shared servers",
    "tests/compat/test_protobuf_registry.py": "shared servers",
    "tests/compat/test_json_schema_registry.py": "shared servers",
    "tests/compat/test_apicurio_registry.py": "shared servers",
    "tests/integration/test_jdbc_round_trip.py": "shared servers",
    "tests/integration/test_registry.py": "shared servers",
    "tests/integration/test_registry_converters.py": "shared servers",
    "tests/integration/test_secured_pipeline.py": "shared servers",
    "tests/integration/test_hdfs_stores.py": "shared servers",
    "tests/faults/test_hdfs_sink_killed.py": "shared servers",
    "tests/integration/test_spark_cluster.py": "shared servers",
    "tests/integration/test_hive_tables.py": "shared servers",
    "tests/integration/test_iceberg_hive.py": "shared servers",
    "tests/integration/test_mirror_verify.py": "two clusters",
    "tests/integration/test_mirror_copy.py": "two clusters",
    "tests/faults/test_mirror_faults.py": "two clusters",
    "tests/integration/test_java_sources.py": "worker with Java plugins",
    "tests/integration/test_java_sinks.py": "worker with Java plugins",
    "tests/integration/test_java_transforms.py": "worker with Java plugins",
    "tests/faults/test_hdfs_failover.py": "shared servers",
    "tests/faults/test_kafka_semantics.py": "shared servers",
    "tests/faults/test_task_failures.py": "shared servers",
    "tests/integration/test_dead_letters.py": "shared servers",
    "tests/integration/test_elasticsearch_sink.py": "shared servers",
    "tests/faults/test_elasticsearch_sink_killed.py": "shared servers",
    "tests/integration/test_file_source.py": "shared servers",
    "tests/integration/test_logs.py": "shared servers",
    "tests/integration/test_delta_sink.py": "shared servers",
    "tests/integration/test_hdfs_sink.py": "shared servers",
    "tests/integration/test_hdfs_sink_schemas.py": "shared servers",
    "tests/integration/test_hdfs_sink_troubles.py": "shared servers",
    "tests/integration/test_jdbc_interrupts.py": "shared servers",
    "tests/integration/test_jdbc_no_lost_rows.py": "shared servers",
    "tests/integration/test_jdbc_source_worker.py": "shared servers",
    "tests/integration/test_mirror_records.py": "shared servers",
    "tests/integration/test_s3_restore.py": "shared servers",
    "tests/integration/test_replicator.py": "shared servers",
    "tests/integration/test_datagen.py": "shared servers",
    "tests/integration/test_preview.py": "previews",
    "tests/integration/test_preview_sinks.py": "previews",
}
"""Modules that are one piece of work, in this order, by its name; every other module is a piece of its own."""

SECONDS: Final = {
    "shared servers": 1100,
    "previews": 250,
    "tests/integration/test_exactly_once_sources.py": 240,
    "worker with Java plugins": 165,
    "tests/integration/test_mixed_cluster.py": 164,
    "two clusters": 160,
    "tests/integration/test_console.py": 160,
    "tests/integration/test_record_plugins.py": 160,
    "tests/integration/test_mirror_maker.py": 150,
    "tests/faults/test_broker_away.py": 126,
    "tests/integration/test_java_iceberg.py": 125,
    "tests/faults/test_engine_lost.py": 117,
    "tests/integration/test_standalone.py": 114,
    "tests/integration/test_java_stage.py": 110,
    "tests/faults/test_iceberg_sink_killed.py": 110,
    "tests/faults/test_iceberg_sink_shared.py": 150,
    "tests/faults/test_iceberg_source_killed.py": 90,
    "tests/integration/test_iceberg_catalogs.py": 120,
    "tests/integration/test_iceberg_published.py": 90,
    "tests/integration/test_iceberg_readers.py": 60,
    "tests/integration/test_jdbc_sink.py": 110,
    "tests/integration/test_plugin_install.py": 170,
    "tests/integration/test_quickstart.py": 103,
    "tests/faults/test_log_files_killed.py": 70,
    "tests/faults/test_jdbc_sink_killed.py": 98,
    "tests/integration/test_topic_creation.py": 95,
    "tests/integration/test_http.py": 90,
    "tests/integration/test_jdbc_exactly_once.py": 90,
    "tests/compat/test_transforms_two.py": 84,
    "tests/faults/test_cluster_shaken.py": 84,
    "tests/integration/test_jdbc_source_reading.py": 84,
    "tests/integration/test_java_clusters.py": 80,
    "tests/integration/test_kafka_rights.py": 80,
    "tests/integration/test_java_debezium_mariadb.py": 80,
    "tests/integration/test_java_debezium_versions.py": 60,
    "tests/integration/test_upgrade.py": 40,
    "tests/compat/test_json_oracle.py": 78,
    "tests/spark/test_converters.py": 71,
    "tests/integration/test_mirror_takeover.py": 70,
    "REST workers": 70,
    "tests/spark/test_sql_transform.py": 70,
    "tests/integration/test_mirror_checkpoints.py": 70,
    "tests/integration/test_login.py": 65,
    "tests/faults/test_task_restarts.py": 64,
    "tests/faults/test_worker_killed.py": 61,
    "tests/integration/test_mirror_secured.py": 60,
    "tests/integration/test_plugin_run.py": 60,
    "tests/integration/test_kafka_broker.py": 60,
    "tests/compat/test_json_oracle_structures.py": 60,
    "tests/integration/test_hdfs_kerberos.py": 60,
    "tests/integration/test_group.py": 57,
    "tests/integration/test_distributed.py": 50,
    "tests/spark/test_decoding.py": 56,
    "tests/integration/test_jdbc_source_windows.py": 54,
    "tests/spark/test_partitioners.py": 50,
    "tests/spark/test_protobuf.py": 60,
    "tests/spark/test_joda.py": 50,
    "tests/integration/test_jdbc_source.py": 50,
    "tests/integration/test_jdbc_sink_postgresql.py": 48,
    "tests/spark/test_hdfs_formats.py": 45,
    "tests/spark/test_elasticsearch_columns.py": 40,
    "tests/integration/test_java_debezium.py": 45,
    "tests/spark/test_inline.py": 42,
    "tests/integration/test_spool_source.py": 60,
    "tests/integration/test_tenants.py": 40,
    "tests/spark/test_slow_batches.py": 40,
    "tests/compat/test_config_topic.py": 38,
    "tests/faults/test_python_workers.py": 37,
    "tests/integration/test_cluster_stores.py": 37,
    "tests/integration/test_singer.py": 50,
    "tests/unit/connectors/http/test_sources.py": 50,
    "tests/unit/connectors/http/test_sink.py": 40,
    "tests/integration/test_rest_tls.py": 36,
    "tests/integration/test_mirror_topics.py": 36,
    "tests/spark/test_python_transform.py": 35,
    "tests/spark/test_file_connectors.py": 34,
    "tests/integration/test_large_cluster.py": 32,
    "tests/spark/test_json_structures.py": 30,
    "tests/spark/test_apicurio.py": 40,
    "tests/spark/test_json_schema.py": 30,
    "tests/integration/test_registry_converters.py": 40,
    "tests/integration/test_strimzi.py": 60,
    "tests/integration/test_kafka_own_tests.py": 60,
    "tests/integration/test_kafka_bounces.py": 1500,
    "tests/integration/test_kafka_standalone.py": 400,
    "tests/compat/test_header_transforms.py": 30,
    "tests/integration/test_java_mirror.py": 30,
    "tests/integration/test_jdbc_sink_limits.py": 30,
    "tests/integration/test_jdbc_sink_rows.py": 30,
}
"""About how many seconds all tests of a piece take on a busy machine, if that is long; only the order counts."""


SPARK: Final = frozenset(
    {
        "shared servers",
        "tests/compat/test_header_to_value.py",
        "tests/compat/test_header_transforms.py",
        "tests/compat/test_java_dates_parsing.py",
        "tests/compat/test_json_oracle.py",
        "tests/compat/test_json_oracle_structures.py",
        "tests/compat/test_mirror_maker_config.py",
        "tests/compat/test_mirror_offset_syncs.py",
        "tests/compat/test_confluent_transforms.py",
        "tests/compat/test_iceberg_transforms.py",
        "tests/compat/test_new_record_state.py",
        "tests/compat/test_outbox.py",
        "tests/compat/test_time_zone_conversion.py",
        "tests/compat/test_transforms_cast.py",
        "tests/compat/test_transforms_one.py",
        "tests/compat/test_transforms_properties.py",
        "tests/compat/test_transforms_two.py",
        "tests/faults/test_python_workers.py",
        "tests/integration/test_iceberg_catalogs.py",
        "tests/integration/test_jdbc_exactly_once.py",
        "tests/integration/test_jdbc_sink.py",
        "tests/integration/test_jdbc_sink_contract.py",
        "tests/integration/test_jdbc_sink_debezium.py",
        "tests/integration/test_jdbc_sink_limits.py",
        "tests/integration/test_jdbc_sink_postgresql.py",
        "tests/integration/test_jdbc_sink_preview.py",
        "tests/integration/test_jdbc_sink_there.py",
        "tests/integration/test_jdbc_source.py",
        "tests/integration/test_jdbc_source_reading.py",
        "tests/integration/test_jdbc_source_suffix.py",
        "tests/integration/test_jdbc_source_windows.py",
        "tests/integration/test_mirror_checkpoints.py",
    }
)
"""Pieces that need Spark in the test's own process, beside all of tests/spark."""

_ORDER: Final = {module: number for number, module in enumerate(TOGETHER)}


def module_of(nodeid: str) -> str:
    """The file that a test is in."""
    return nodeid.split("::", 1)[0]


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to."""
    module = module_of(nodeid)
    return TOGETHER.get(module, module)


def needs_spark(piece: str) -> bool:
    """True if a piece needs Spark in the test's own process."""
    return piece in SPARK or piece.startswith("tests/spark/")


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests, piece by piece, the longest first."""
    pieces: dict[str, list[pytest.Item]] = {}
    for item in items:
        pieces.setdefault(piece_of(item.nodeid), []).append(item)
    for piece in set(TOGETHER.values()) & pieces.keys():
        pieces[piece].sort(key=lambda item: _ORDER[module_of(item.nodeid)])
    return [item for piece in sorted(pieces, key=lambda piece: -SECONDS.get(piece, 0)) for item in pieces[piece]]


class ByPiece(LoadFileScheduling):
    """Gives each process one piece of work after another, in the order of the tests, but what suits it first."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        with_spark = self.nodes.index(node) < max(1, 2 * len(self.nodes) // 3)
        suits = (piece for piece in self.workqueue if needs_spark(piece) == with_spark)
        if (piece := next(suits, None)) is not None:
            self.workqueue.move_to_end(piece, last=False)
        super()._assign_work_unit(node)
