"""Configs of Iceberg's sink as they were published in documentation, benchmarks and articles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Config = Mapping[str, str]

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_S3: Final = "org.apache.iceberg.aws.s3.S3FileIO"
_DOCUMENTED: Final = {
    "tasks.max": "2",
    "topics": "events",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://localhost",
    "iceberg.catalog.credential": "<credential>",
    "iceberg.catalog.warehouse": "<warehouse name>",
}
"""Settings that the examples of the sinks' own documentation have in common."""

ONE_TABLE: Final[Config] = {
    **_DOCUMENTED,
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables": "default.events",
}
"""Apache's documentation: one table, which is there."""

STATIC_ROUTES: Final[Config] = {
    **_DOCUMENTED,
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables": "default.events_list,default.events_create",
    "iceberg.tables.route-field": "type",
    "iceberg.table.default.events_list.route-regex": "list",
    "iceberg.table.default.events_create.route-regex": "create",
}
"""Apache's documentation: two tables by a field."""

DYNAMIC_ROUTES: Final[Config] = {
    **_DOCUMENTED,
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables.dynamic-enabled": "true",
    "iceberg.tables.route-field": "db_table",
}
"""Apache's documentation: tables that records name."""

CHANGES: Final[Config] = {
    **_DOCUMENTED,
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables": "default.events",
    "iceberg.tables.cdc-field": "_cdc_op",
}
"""Tabular's documentation: inserts, updates and deletes by a field."""

BENCH: Final[Config] = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "16",
    "topics": "bench-events",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://iceberg-rest:8181",
    "iceberg.catalog.warehouse": "s3://warehouse/",
    "iceberg.catalog.io-impl": _S3,
    "iceberg.catalog.s3.endpoint": "http://minio:9000",
    "iceberg.catalog.s3.path-style-access": "true",
    "iceberg.catalog.s3.access-key-id": "admin",
    "iceberg.catalog.s3.secret-access-key": "password",
    "iceberg.catalog.client.region": "us-east-1",
    "iceberg.tables": "benchmark.events",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.control.commit.interval-ms": "10000",
    "iceberg.control.commit.timeout-ms": "30000",
    "consumer.override.max.partition.fetch.bytes": "1048576",
    "consumer.override.session.timeout.ms": "300000",
    "consumer.override.max.poll.interval.ms": "300000",
    "iceberg.kafka.session.timeout.ms": "300000",
    "iceberg.kafka.max.poll.interval.ms": "300000",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
}
"""Redpanda's benchmark of Kafka Connect."""

VIEW: Final[Config] = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "6",
    "topics": "pizzas",
    "iceberg.tables": "rpc.pizzas",
    "iceberg.catalog": "demo",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://iceberg-rest:8181",
    "iceberg.catalog.client.region": "us-east-1",
    "iceberg.catalog.s3.endpoint": "http://minio:9000",
    "iceberg.catalog.s3.path-style-access": "true",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.tables.evolve-schema-enabled": "true",
    "iceberg.control.commit.interval-ms": "30000",
    "iceberg.tables.cdc-field": "op",
    "iceberg.tables.default-id-columns": "order_number",
    "iceberg.tables.upsert-mode-enabled": "true",
    "key.converter.schema.registry.url": "http://registry:8081",
    "key.converter": _AVRO,
    "key.converter.schemas.enable": "true",
    "value.converter.schema.registry.url": "http://registry:8081",
    "value.converter": _AVRO,
    "value.converter.schemas.enable": "true",
}
"""Feldera's documentation: a view's changes as Avro."""

JDBC: Final[Config] = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "3",
    "topics": "my-topic",
    "iceberg.control.topic": "iceberg-control-topic",
    "iceberg.control.group-id": "my-iceberg-job",
    "iceberg.catalog.name": "iceberg_catalog",
    "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
    "iceberg.catalog.uri": "jdbc:postgresql://postgres:5432/iceberg",
    "iceberg.catalog.jdbc.user": "iceberg",
    "iceberg.catalog.jdbc.password": "password",
    "iceberg.catalog.warehouse": "s3://iceberg-warehouse/",
    "iceberg.tables": "db.table",
}
"""A deployment on Kubernetes with a JDBC catalog; its table is there, and what reaches the store is not in it."""

PARTITIONED: Final[Config] = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "orders",
    "key.converter": _AVRO,
    "key.converter.schema.registry.url": "https://registry.internal",
    "value.converter": _AVRO,
    "value.converter.schema.registry.url": "https://registry.internal",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://polaris.internal/api/catalog",
    "iceberg.catalog.warehouse": "analytics",
    "iceberg.catalog.header.X-Iceberg-Access-Delegation": "vended-credentials",
    "iceberg.tables": "raw.orders",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.tables.evolve-schema-enabled": "true",
    "iceberg.tables.default-partition-by": "hours(event_time)",
    "iceberg.control.commit.interval-ms": "60000",
}
"""An article on schemas that change, with Polaris."""

DEBEZIUM: Final[Config] = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "tasks.max": "1",
    "errors.log.enable": "true",
    "topics.regex": "cdc.*",
    "transforms": "debezium",
    "transforms.debezium.type": "io.tabular.iceberg.connect.transforms.DebeziumTransform",
    "transforms.debezium.cdc.target.pattern": "cdc.{db}_{table}",
    "iceberg.catalog.type": "hadoop",
    "iceberg.catalog.warehouse": "/out-kafka/iceberg/warehouse",
    "iceberg.tables.cdc-field": "_cdc.op",
    "iceberg.tables.route-field": "_cdc.target",
    "iceberg.tables.dynamic-enabled": "true",
    "iceberg.tables.upsert-mode-enabled": "true",
    "iceberg.tables.evolve-schema-enabled": "true",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.tables.schema-case-insensitive": "true",
    "iceberg.control.commit.interval-ms": "5000",
    "iceberg.control.commit.timeout-ms": "600000",
    "consumer.override.auto.offset.reset": "earliest",
    "iceberg.kafka.auto.offset.reset": "earliest",
    "iceberg.kafka.heartbeat.interval.ms": "30000",
    "iceberg.kafka.session.timeout.ms": "90000",
    "iceberg.table.cdc.public_user.id-columns": "id",
    "iceberg.table.cdc.public_employee.id-columns": "id",
}
"""A project on Debezium and a Hadoop catalog: each table of a database by Tabular's transform."""

MISSPELT: Final[Config] = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "events",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://iceberg-rest:8181",
    "iceberg.catalog.warehouse": "s3://warehouse",
    "iceberg.catalog.s3.endpoint": "http://minio:9000",
    "iceberg.catalog.s3.path-style-access": "true",
    "iceberg.catalog.client.region": "us-east-1",
    "iceberg.catalog.client.credentials": "admin:password123",
    "iceberg.tables": "db.events_table",
    "iceberg.tables.auto-create": "true",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
"""A quick start whose `iceberg.tables.auto-create` is no setting, so that nothing makes its table."""
