"""The settings of the three mirror connectors, by MirrorMaker's names, types and defaults (4.3.1).

As Apache's, each connector declares the framework's settings of connectors, too, so that `GET
/connector-plugins/<class>/config` names them first.

Source: the recorded answers of Apache's 4.3.1 in tests/compat/vectors/plugin_configs.json.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.config.connector.settings import CONNECTOR
from headrace.config.kafka.client_settings import ADMIN, SASL, SSL
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import Check, OneOf, Validator
from headrace.config.values import invalid

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_JAVA: Final = "org.apache.kafka.connect.mirror."
_FORWARDING_ADMIN: Final = "org.apache.kafka.clients.admin.ForwardingAdmin"

TASK_INDEX: Final = "task.index"
"""The number of a task, in its config; its clients' ids show it."""


def _set(
    name: str,
    type_: Type,
    default: Any,
    text: str,
    importance: Importance = _LOW,
    validator: Validator | None = None,
) -> Setting:
    return Setting(name, type_, default, validator, importance, text, is_plugin=False)


def _periodic(name: str, seconds: int, what: str, enabled: bool = True) -> tuple[Setting, Setting]:
    """The settings of a periodic duty: its switch and its interval."""
    return (
        _set(f"{name}.enabled", Type.BOOLEAN, enabled, f"Whether {what}."),
        _set(f"{name}.interval.seconds", Type.LONG, seconds, f"How often {what}, in seconds."),
    )


def _only_forwarding(name: str, value: Any) -> str | None:
    if value in (None, _FORWARDING_ADMIN):
        return None
    return invalid(name, value, "A Java class cannot be run here; topics, configs and ACLs are changed by Kafka's API")


_CLASS_FORMS: Final = "By its Java name where Apache has it, else by that of an entry point."

_EVERY_CONNECTOR: Final = (
    CONNECTOR
    + Settings(
        _set("enabled", Type.BOOLEAN, True, "Whether this flow from source to target is replicated."),
        _set(
            "source.cluster.alias",
            Type.STRING,
            REQUIRED,
            "The short name of the cluster to read from. It begins the names of remote topics.",
            _HIGH,
        ),
        _set(
            "target.cluster.alias",
            Type.STRING,
            "target",
            "The short name of the cluster to write to: the one whose workers run this connector.",
            _HIGH,
        ),
        _set(
            "admin.timeout.ms",
            Type.LONG,
            60_000,
            "How long a request to list or to change topics, groups or ACLs may take.",
        ),
        _set(
            "replication.policy.class",
            Type.CLASS,
            f"{_JAVA}DefaultReplicationPolicy",
            f"How remote topics are named: the class of a replication policy. {_CLASS_FORMS}",
        ),
        _set("replication.policy.separator", Type.STRING, ".", "What stands between a cluster's alias and a topic."),
        _set(
            "replication.policy.internal.topic.separator.enabled",
            Type.BOOLEAN,
            True,
            "Whether the separator also stands in the names of the checkpoints and offset-syncs topics.",
        ),
        _set(
            "forwarding.admin.class",
            Type.CLASS,
            _FORWARDING_ADMIN,
            "Kept for configurations written for MirrorMaker: only the default, which asks Kafka itself, is served.",
            validator=Check(_only_forwarding, f"the class {_FORWARDING_ADMIN}"),
        ),
    )
    + [ADMIN["metric.reporters"], ADMIN["security.protocol"], ADMIN["config.providers"]]
    + SSL
    + SASL
)

_TOPIC_FILTER: Final = _set(
    "topic.filter.class",
    Type.CLASS,
    f"{_JAVA}DefaultTopicFilter",
    f"Chooses the topics. {_CLASS_FORMS}",
)
_OFFSET_SYNCS_LOCATION: Final = _set(
    "offset-syncs.topic.location",
    Type.STRING,
    "source",
    "The cluster that has the offset-syncs topic.",
    validator=OneOf("source", "target"),
)
_POLL_TIMEOUT: Final = _set(
    "consumer.poll.timeout.ms", Type.LONG, 1000, "The longest that a task waits for records of the source cluster."
)
_METRIC_NAMES: Final = _set(
    "metric.names.formats", Type.LIST, ["legacy"], "Kept for configurations written for MirrorMaker 4.3."
)
_FACTOR: Final = "The replication factor of the {} topic, where it is created; -1 is the brokers' default."

SOURCE: Final = _EVERY_CONNECTOR + Settings(
    _set("topics", Type.LIST, [".*"], "The topics to replicate: names and regular expressions.", _HIGH),
    _set(
        "topics.exclude",
        Type.LIST,
        [r"mm2.*\.internal", r".*\.replica", "__.*"],
        "The topics to leave out, by names and regular expressions; they win over topics.",
        _HIGH,
    ),
    _set(
        "config.properties.exclude",
        Type.LIST,
        [
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ],
        "The topic configs that are not replicated: names and regular expressions.",
        _HIGH,
    ),
    _TOPIC_FILTER,
    _set(
        "config.property.filter.class",
        Type.CLASS,
        f"{_JAVA}DefaultConfigPropertyFilter",
        f"Chooses the topic configs to replicate. {_CLASS_FORMS}",
    ),
    _POLL_TIMEOUT,
    *_periodic("refresh.topics", 600, "new topics and partitions of the source cluster are looked for"),
    *_periodic("sync.topic.configs", 600, "configs of topics are copied to the target cluster"),
    *_periodic("sync.topic.acls", 600, "ACLs of topics are copied to the target cluster"),
    _set("replication.factor", Type.INT, 2, "The replication factor of new remote topics; -1 is the brokers' default."),
    _set("offset-syncs.topic.replication.factor", Type.SHORT, 3, _FACTOR.format("offset-syncs")),
    _set(
        "offset.lag.max",
        Type.LONG,
        100,
        "How many records may follow a partition's last offset sync before the next: the finer, the more exactly the "
        "offsets of consumer groups are translated.",
    ),
    _OFFSET_SYNCS_LOCATION,
    _set(
        "emit.offset-syncs.enabled",
        Type.BOOLEAN,
        True,
        "Whether offset syncs are written; without them no offsets of consumer groups are translated.",
    ),
    _set(
        "heartbeats.replication.enabled",
        Type.BOOLEAN,
        True,
        "Whether heartbeats topics are replicated, whatever the topic filter says.",
    ),
    _METRIC_NAMES,
)
"""MirrorSourceConnector's."""

CHECKPOINT: Final = _EVERY_CONNECTOR + Settings(
    _POLL_TIMEOUT,
    _set("groups", Type.LIST, [".*"], "The consumer groups to follow: names and regular expressions.", _HIGH),
    _set(
        "groups.exclude",
        Type.LIST,
        ["console-consumer-.*", "connect-.*", "__.*"],
        "The consumer groups to leave out, by names and regular expressions; they win over groups.",
        _HIGH,
    ),
    _set(
        "group.filter.class",
        Type.CLASS,
        f"{_JAVA}DefaultGroupFilter",
        f"Chooses the consumer groups. {_CLASS_FORMS}",
    ),
    *_periodic("refresh.groups", 600, "new consumer groups of the source cluster are looked for"),
    *_periodic("emit.checkpoints", 60, "translated offsets of consumer groups are written to the checkpoints topic"),
    *_periodic(
        "sync.group.offsets",
        60,
        "translated offsets become those of the same groups of the target cluster, while these have no member there",
        enabled=False,
    ),
    _set("checkpoints.topic.replication.factor", Type.SHORT, 3, _FACTOR.format("checkpoints")),
    _OFFSET_SYNCS_LOCATION,
    _TOPIC_FILTER,
    _METRIC_NAMES,
)
"""MirrorCheckpointConnector's."""

HEARTBEAT: Final = _EVERY_CONNECTOR + Settings(
    *_periodic("emit.heartbeats", 1, "heartbeats are written to the target cluster"),
    _set("heartbeats.topic.replication.factor", Type.SHORT, 3, _FACTOR.format("heartbeats")),
)
"""MirrorHeartbeatConnector's."""
