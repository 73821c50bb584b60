"""Java's logger names, and the loggers of the modules that do their work: levels for the former reach the latter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONNECT: Final = "org.apache.kafka.connect"
_CONSUMER: Final = (
    "worker.tasks.sink_consumer",
    "worker.tasks.consumer_membership",
    "worker.tasks.consumer_partitions",
    "worker.tasks.committed_offsets",
)
_SINK: Final = (
    "worker.tasks.sink",
    *_CONSUMER,
    "worker.tasks.subscription",
    "worker.tasks.backlog",
    "worker.pipeline.sink",
)
_SOURCE: Final = ("worker.tasks.source", "worker.pipeline.source", "worker.pipeline.source_producer")

LOGGERS: Final[Mapping[str, tuple[str, ...]]] = {
    _CONNECT: ("",),
    f"{_CONNECT}.runtime": ("worker",),
    f"{_CONNECT}.runtime.Worker": ("worker.hosting",),
    f"{_CONNECT}.runtime.WorkerConnector": ("worker.hosting.connector", "worker.hosting.connectors"),
    f"{_CONNECT}.runtime.WorkerTask": ("worker.tasks.task",),
    f"{_CONNECT}.runtime.WorkerSinkTask": _SINK,
    f"{_CONNECT}.runtime.WorkerSourceTask": _SOURCE,
    f"{_CONNECT}.runtime.AbstractWorkerSourceTask": _SOURCE,
    f"{_CONNECT}.runtime.ExactlyOnceWorkerSourceTask": _SOURCE,
    f"{_CONNECT}.runtime.SourceTaskOffsetCommitter": ("worker.storage.offset_topic", "worker.storage.offset_file"),
    f"{_CONNECT}.runtime.TransformationChain": ("worker.pipeline.transforms", "plugins.transforms"),
    f"{_CONNECT}.runtime.AbstractHerder": ("worker.herder", "worker.hosting.definition"),
    f"{_CONNECT}.runtime.errors": ("worker.deadletters",),
    f"{_CONNECT}.runtime.distributed": ("worker.herder", "worker.group"),
    f"{_CONNECT}.runtime.distributed.DistributedHerder": ("worker.herder", "worker.hosting"),
    f"{_CONNECT}.runtime.distributed.WorkerCoordinator": ("worker.group",),
    f"{_CONNECT}.runtime.distributed.WorkerGroupMember": ("worker.group",),
    f"{_CONNECT}.runtime.distributed.IncrementalCooperativeAssignor": ("worker.group.assignor", "worker.group.leading"),
    f"{_CONNECT}.runtime.standalone": ("worker.herder", "worker.hosting"),
    f"{_CONNECT}.runtime.rest": ("rest",),
    f"{_CONNECT}.runtime.isolation": ("plugins.interop.discovery",),
    f"{_CONNECT}.storage": ("worker.storage",),
    f"{_CONNECT}.storage.KafkaConfigBackingStore": ("worker.storage.config_topic", "worker.storage.cluster_config"),
    f"{_CONNECT}.storage.KafkaOffsetBackingStore": ("worker.storage.offset_topic",),
    f"{_CONNECT}.storage.KafkaStatusBackingStore": ("worker.storage.status_topic",),
    f"{_CONNECT}.util.KafkaBasedLog": ("worker.storage.compacted_topic",),
    f"{_CONNECT}.util.TopicAdmin": ("worker.kafka.topic_creation", "plugins.interop.kafka.admin_clients"),
    f"{_CONNECT}.transforms": ("plugins.transforms",),
    f"{_CONNECT}.json": ("converters.json",),
    f"{_CONNECT}.file": ("connectors.file",),
    f"{_CONNECT}.mirror": ("connectors.mirror",),
    "org.apache.kafka.clients": ("worker.kafka",),
    "org.apache.kafka.clients.consumer": _CONSUMER,
    "org.apache.kafka.clients.producer": ("worker.kafka.writer", "worker.kafka.librdkafka"),
    "org.apache.kafka.clients.admin": ("plugins.interop.kafka.admin_clients",),
    "io.confluent.connect.jdbc": ("connectors.jdbc",),
    "io.aiven.connect.jdbc": ("connectors.jdbc",),
    "io.debezium.connector.jdbc": ("connectors.jdbc",),
    "io.confluent.connect.hdfs": ("connectors.hdfs",),
    "io.confluent.connect.hdfs3": ("connectors.hdfs",),
    "io.confluent.connect.s3": ("connectors.hdfs",),
    "io.confluent.connect.storage": ("connectors.hdfs",),
    "io.confluent.connect.avro": ("converters.avro",),
    "io.confluent.connect.protobuf": ("converters.protobuf",),
    "io.confluent.connect.json": ("converters.json_schema",),
    "io.apicurio.registry": ("converters.apicurio", "converters.registry"),
    "io.confluent.kafka.schemaregistry": ("converters.registry",),
    "io.confluent.kafka.serializers": ("converters.avro", "converters.protobuf", "converters.registry"),
}
"""By Java class or package the modules, without this package's name; the empty one means all."""

_BROAD: Final = (_CONNECT, f"{_CONNECT}.runtime")
"""Packages that say too little about a class in them."""


def loggers_for(java: str) -> list[str]:
    """The loggers for a level of this Java class or package; empty if no module does its work.

    For a class that is not listed: those of its package, unless that stands for all.
    """
    below = [modules for name, modules in LOGGERS.items() if name == java or name.startswith(f"{java}.")]
    if not below:
        above = (name for name in LOGGERS if name not in _BROAD and java.startswith(f"{name}."))
        below = [LOGGERS[name] for name in sorted(above, key=len)[-1:]]
    names = dict.fromkeys(module for modules in below for module in modules)
    return [f"headrace.{module}" if module else "headrace" for module in names]
