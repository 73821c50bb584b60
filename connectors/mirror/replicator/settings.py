"""The settings of ReplicatorSourceConnector, by their published names.

Settings of clients stand behind `src.kafka.`, `src.consumer.` and `dest.kafka.`.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import OneOf, Range, Validator

BYTES: Final = "io.confluent.connect.replicator.util.ByteArrayConverter"
_NO_EFFECT: Final = "Kept for configs written for Replicator: it has no effect here. "


def _set(
    name: str,
    type_: Type,
    default: Any,
    text: str,
    importance: Importance = Importance.LOW,
    validator: Validator | None = None,
) -> Setting:
    return Setting(name, type_, default, validator, importance, text, is_plugin=False)


_HIGH: Final = Importance.HIGH

SETTINGS: Final = Settings(
    _set("src.kafka.bootstrap.servers", Type.STRING, REQUIRED, "host:port of brokers of the source cluster.", _HIGH),
    _set(
        "dest.kafka.bootstrap.servers",
        Type.STRING,
        REQUIRED,
        "host:port of brokers of the destination, which has to be the workers' own Kafka: topics are created by this "
        "setting, and records are written by the worker's producer.",
        _HIGH,
    ),
    _set(
        "src.consumer.group.id",
        Type.STRING,
        None,
        "The group of the source cluster that shows the progress. By default the connector's name.",
    ),
    _set("topic.whitelist", Type.LIST, [], "Names of topics to replicate.", _HIGH),
    _set(
        "topic.regex",
        Type.STRING,
        None,
        "A regular expression; topics whose whole name matches are replicated, too.",
        _HIGH,
    ),
    _set("topic.blacklist", Type.LIST, [], "Names of topics to leave out; they win.", _HIGH),
    _set(
        "topic.poll.interval.ms",
        Type.LONG,
        120_000,
        "How often new topics and partitions are looked for.",
        validator=Range(1),
    ),
    _set(
        "topic.rename.format",
        Type.STRING,
        "${topic}",
        "The name of a copy; ${topic} stands for the topic's name.",
        _HIGH,
    ),
    _set(
        "topic.auto.create",
        Type.BOOLEAN,
        True,
        "True if copies are created, and get partitions when the topics do.",
        _HIGH,
    ),
    _set("topic.preserve.partitions", Type.BOOLEAN, True, "Only true is served: a record keeps its partition.", _HIGH),
    _set(
        "topic.create.backoff.ms",
        Type.INT,
        120_000,
        f"{_NO_EFFECT}What could not be created is tried again at each topic.poll.interval.ms.",
    ),
    _set("topic.config.sync", Type.BOOLEAN, True, "True if the configs of topics are copied again and again.", _HIGH),
    _set("topic.config.sync.interval.ms", Type.LONG, 120_000, "How often they are.", validator=Range(1)),
    _set(
        "topic.timestamp.type",
        Type.STRING,
        "CreateTime",
        "Only CreateTime is served: copies keep their timestamps.",
        validator=OneOf("CreateTime"),
    ),
    _set(
        "dest.topic.replication.factor",
        Type.INT,
        0,
        "The replication factor of new copies; with 0 the default of the destination's brokers.",
        validator=Range(0),
    ),
    _set("src.key.converter", Type.STRING, BYTES, "Only bytes are read from the source."),
    _set("src.value.converter", Type.STRING, BYTES, "Only bytes are read from the source."),
    _set("src.header.converter", Type.STRING, BYTES, "Only bytes are read from the source."),
    _set(
        "offset.start",
        Type.STRING,
        "connect",
        "Where a partition begins when its task starts: connect, at the "
        "stored offset, else at the group's; consumer, at the group's, else at the stored one. With neither it "
        "begins at src.consumer.auto.offset.reset, by default the beginning.",
        validator=OneOf("connect", "consumer"),
    ),
    _set("offset.topic.commit", Type.BOOLEAN, True, "True if the progress is committed to src.consumer.group.id."),
    _set("offset.topic.commit.batch.period.ms", Type.LONG, 60_000, "How often it is.", validator=Range(1)),
    _set(
        "provenance.header.enable",
        Type.BOOLEAN,
        False,
        "True if each copy gets a header with cluster and topic that "
        "it comes from, and records that come from the copy's own cluster and topic are left out. For flows in both "
        "directions that keep names.",
        _HIGH,
    ),
    _set("provenance.header.filter.overrides", Type.STRING, "", "Not served; only empty is."),
    _set("offset.timestamps.commit", Type.BOOLEAN, True, _NO_EFFECT + "Consumers' offsets are not translated."),
    _set("offset.translator.tasks.max", Type.INT, -1, _NO_EFFECT + "Consumers' offsets are not translated."),
    _set(
        "offset.translator.tasks.separate", Type.BOOLEAN, False, _NO_EFFECT + "Consumers' offsets are not translated."
    ),
    _set("offset.translator.batch.period.ms", Type.LONG, 60_000, _NO_EFFECT + "Consumers' offsets are not translated."),
    _set(
        "offset.translator.batch.size", Type.INT, 2_147_483_647, _NO_EFFECT + "Consumers' offsets are not translated."
    ),
    _set("schema.registry.topic", Type.STRING, None, "Not served: schemas are not migrated."),
    _set("schema.registry.url", Type.STRING, None, "Not served: schemas are not migrated."),
    _set("schema.subject.translator.class", Type.STRING, None, "Not served: schemas are not migrated."),
    _set("confluent.license", Type.PASSWORD, "", _NO_EFFECT.strip()),
)
