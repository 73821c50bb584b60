"""Every setting of the framework for connectors, in Connect's groups and order (4.3.1)."""

from __future__ import annotations

from typing import Any, Final

from headrace.config.settings import REQUIRED, Importance, Offer, Recommender, Setting, Settings, Type, Width
from headrace.config.validators import (
    ListOf,
    NonEmpty,
    NonEmptyWithoutControlChars,
    OneOf,
    OneOfIgnoringCase,
    OrNull,
    Range,
    Regex,
    UniqueAliases,
    Validator,
)

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

CONVERTER_KINDS: Final = ("key", "value", "header")
"""The uses of a converter; its settings have the prefix `<kind>.converter.`."""


class _Group:
    """Declares the settings of one group, with Connect's numbers."""

    def __init__(self, group: str) -> None:
        self.group = group

    def __call__(
        self,
        order: int,
        name: str,
        type_: Type,
        default: Any,
        importance: Importance,
        width: Width,
        display_name: str,
        text: str,
        validator: Validator | None = None,
        recommender: Recommender | None = None,
        deprecated: str = "",
    ) -> Setting:
        group = (self.group, order, width, display_name, (), recommender)
        return Setting(name, type_, default, validator, importance, text, *group, deprecated=deprecated)


_common, _errors = _Group("Common"), _Group("Error Handling")
_VERSIONS: Final = "A version or a range of versions, such as [4.0,5.0); any if not set."

_CONVERTERS: Final = tuple(
    setting
    for order, kind in zip((6, 8, 10), CONVERTER_KINDS, strict=True)
    for setting in (
        _common(
            order,
            f"{kind}.converter",
            Type.CLASS,
            None,
            _LOW,
            Width.SHORT,
            f"{kind.capitalize()} converter class",
            f"Converts record {kind}s between Connect and the bytes in Kafka; the worker's if not set.",
        ),
        _common(
            order + 1,
            f"{kind}.converter.plugin.version",
            Type.STRING,
            None,
            _LOW,
            Width.SHORT,
            f"{kind.capitalize()} converter version",
            _VERSIONS,
            recommender=Offer(beside=f"{kind}.converter"),
        ),
    )
)

CONNECTOR: Final = Settings(
    _common(
        1,
        "name",
        Type.STRING,
        REQUIRED,
        _HIGH,
        Width.MEDIUM,
        "Connector name",
        "The connector's name, unique in its cluster.",
        NonEmptyWithoutControlChars(),
    ),
    _common(
        2,
        "connector.class",
        Type.STRING,
        REQUIRED,
        _HIGH,
        Width.LONG,
        "Connector class",
        "The connector to run, by its Java class name, its simple name, or that without Connector.",
    ),
    _common(3, "connector.plugin.version", Type.STRING, None, _MEDIUM, Width.MEDIUM, "Connector version", _VERSIONS),
    _common(
        4,
        "tasks.max",
        Type.INT,
        1,
        _HIGH,
        Width.SHORT,
        "Tasks max",
        "How many tasks it may have at most.",
        Range(1),
    ),
    _common(
        5,
        "tasks.max.enforce",
        Type.BOOLEAN,
        True,
        _LOW,
        Width.SHORT,
        "Enforce tasks max",
        "Whether a connector that makes more tasks than tasks.max fails. Deprecated.",
        deprecated="Remove it, and let the connector make no more tasks than tasks.max.",
    ),
    *_CONVERTERS,
    _Group("Transforms")(
        12,
        "transforms",
        Type.LIST,
        [],
        _LOW,
        Width.LONG,
        "Transforms",
        "Names for the transforms, in the order in which they apply.",
        UniqueAliases(),
    ),
    _Group("Predicates")(
        13,
        "predicates",
        Type.LIST,
        [],
        _LOW,
        Width.LONG,
        "Predicates",
        "Names for the predicates that transforms use.",
        UniqueAliases(),
    ),
    _common(
        14,
        "config.action.reload",
        Type.STRING,
        "restart",
        _LOW,
        Width.MEDIUM,
        "Reload Action",
        "What to do when a config provider has new values: restart or none.",
        OneOf("none", "restart"),
    ),
    _errors(
        1,
        "errors.retry.timeout",
        Type.LONG,
        0,
        _MEDIUM,
        Width.MEDIUM,
        "Retry Timeout for Errors",
        "How long a failed operation is tried again, in milliseconds; -1 for ever.",
    ),
    _errors(
        2,
        "errors.retry.delay.max.ms",
        Type.LONG,
        60_000,
        _MEDIUM,
        Width.MEDIUM,
        "Maximum Delay Between Retries for Errors",
        "The longest pause between two tries.",
    ),
    _errors(
        3,
        "errors.tolerance",
        Type.STRING,
        "none",
        _MEDIUM,
        Width.SHORT,
        "Error Tolerance",
        "none: a bad record fails its task; all: bad records are skipped.",
        OneOf("none", "all"),
    ),
    _errors(
        4,
        "errors.log.enable",
        Type.BOOLEAN,
        False,
        _MEDIUM,
        Width.SHORT,
        "Log Errors",
        "Whether tolerated errors are logged too.",
    ),
    _errors(
        5,
        "errors.log.include.messages",
        Type.BOOLEAN,
        False,
        _MEDIUM,
        Width.SHORT,
        "Log Error Details",
        "Whether the log shows where the bad record came from.",
    ),
)
"""Settings of every connector."""

_eos = _Group("Exactly Once Support")

SOURCE: Final = CONNECTOR + Settings(
    _Group("Topic Creation")(
        1,
        "topic.creation.groups",
        Type.LIST,
        [],
        _LOW,
        Width.LONG,
        "Topic Creation Groups",
        "Names for groups of topics that are created alike.",
        UniqueAliases(),
    ),
    _eos(
        2,
        "exactly.once.support",
        Type.STRING,
        "requested",
        _MEDIUM,
        Width.SHORT,
        "Exactly once support",
        "required: refuse the connector unless it can deliver exactly once.",
        OneOfIgnoringCase("required", "requested"),
    ),
    _eos(
        3,
        "transaction.boundary",
        Type.STRING,
        "poll",
        _MEDIUM,
        Width.SHORT,
        "Transaction Boundary",
        "What makes a transaction: a batch, an interval, or the connector's choice.",
        OneOfIgnoringCase("interval", "poll", "connector"),
    ),
    _eos(
        4,
        "transaction.boundary.interval.ms",
        Type.LONG,
        None,
        _LOW,
        Width.SHORT,
        "Transaction boundary interval",
        "The interval between transactions, if that bounds them; offset.flush.interval.ms if not set.",
        OrNull(Range(0)),
    ),
    _Group("offsets.topic")(
        1,
        "offsets.storage.topic",
        Type.STRING,
        None,
        _LOW,
        Width.LONG,
        "Offsets topic",
        "A topic of its own for this connector's offsets.",
        NonEmpty(),
    ),
)
"""Settings of every source connector."""

SINK: Final = CONNECTOR + Settings(
    _common(
        4,
        "topics",
        Type.LIST,
        [],
        _HIGH,
        Width.LONG,
        "Topics",
        "The topics to consume.",
        ListOf(),
    ),
    _common(
        4,
        "topics.regex",
        Type.STRING,
        "",
        _HIGH,
        Width.LONG,
        "Topics regex",
        "A regular expression for the topics to consume.",
        Regex(),
    ),
    _errors(
        6,
        "errors.deadletterqueue.topic.name",
        Type.STRING,
        "",
        _MEDIUM,
        Width.MEDIUM,
        "Dead Letter Queue Topic Name",
        "The topic that bad records go to; none if empty.",
    ),
    _errors(
        7,
        "errors.deadletterqueue.topic.replication.factor",
        Type.SHORT,
        3,
        _MEDIUM,
        Width.MEDIUM,
        "Dead Letter Queue Topic Replication Factor",
        "Its replicas, when it is created.",
    ),
    _errors(
        8,
        "errors.deadletterqueue.context.headers.enable",
        Type.BOOLEAN,
        False,
        _MEDIUM,
        Width.MEDIUM,
        "Enable Error Context Headers",
        "Whether dead letters carry headers that say what went wrong.",
    ),
)
"""Settings of every sink connector."""
