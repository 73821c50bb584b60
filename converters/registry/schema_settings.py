"""The settings that the converters with schemas in a registry share, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type
from headrace.converters.registry.settings import CLIENT_SETTINGS

STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy", "AssociatedNameStrategy")
_STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
DUAL: Final = "DualSchemaIdDeserializer"
_PREFIXES: Final = "PrefixSchemaIdDeserializer"

_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "context.name.strategy": ("NullContextNameStrategy",),
    "key.schema.id.serializer": ("PrefixSchemaIdSerializer",),
    "key.schema.id.deserializer": (_PREFIXES, DUAL),
    "value.schema.id.serializer": ("PrefixSchemaIdSerializer",),
    "value.schema.id.deserializer": (_PREFIXES, DUAL),
    "subject.name.strategy.fallback.type": ("TOPIC",),
    "propagate.schema.tags": (),
    "rule.service.loader.enable": ("true",),
    "schema.format": (),
}
"""Settings of Confluent's converters with their only supported values; classes by their simple names."""
_RULES: Final = ("rule.", "validation.rules.")


def key(name: str, type_: Type, default: Any, text: str, importance: Importance = Importance.LOW) -> Setting:
    """A setting that any value of its type fits."""
    return Setting(name, type_, default, None, importance, text)


def flag(name: str, default: bool, text: str, importance: Importance = Importance.LOW) -> Setting:
    """A setting that is true or false."""
    return key(name, Type.BOOLEAN, default, text, importance)


SCHEMA_SETTINGS: Final = (
    Settings(
        flag("auto.register.schemas", True, "Register schemas that the registry does not have.", Importance.MEDIUM),
        flag("normalize.schemas", False, "Let the registry normalize schemas before it compares them."),
        flag("use.latest.version", False, "Write with the latest schema; needs auto.register.schemas=false."),
        flag("latest.compatibility.strict", True, "Refuse a latest schema that cannot read the record's own."),
        key("use.latest.with.metadata", Type.LIST, None, "Write with the latest schema that has these: k1=v1,k2=v2."),
        key("use.schema.id", Type.INT, -1, "Write with the schema of this id; needs auto.register.schemas=false."),
        flag("id.compatibility.strict", True, "Refuse a schema of that id which cannot read the record's own."),
        key("use.schema.guid", Type.STRING, None, "Write with the schema of this GUID."),
        *(
            key(
                f"{side}.subject.name.strategy",
                Type.STRING,
                _STRATEGY_PACKAGE + "AssociatedNameStrategy",
                f"How subjects of {side}s are named: " + ", ".join(STRATEGIES) + ".",
                Importance.MEDIUM,
            )
            for side in ("key", "value")
        ),
        key("schemas.cache.config", Type.INT, 1000, "How many converted schemas are cached."),
    )
    + CLIENT_SETTINGS
)
"""The settings of `RegistryConverter`; a converter declares them beside its own."""


def metadata(values: Mapping[str, Any]) -> dict[str, str]:
    """The metadata that a latest schema must have to be used for writing. Errors: ConfigError."""
    name = "use.latest.with.metadata"
    pairs = [pair.partition("=") for pair in values[name] or ()]
    if not all(key and equals for key, equals, _ in pairs):
        raise ConfigError(Problem(name, ",".join(values[name]), "It is not a list of k=v", "Write k1=v1,k2=v2."))
    return {key: value for key, _, value in pairs}


def refuse_unserved(config: Mapping[str, str], converter: str) -> None:
    """Refuses unsupported values of settings of Confluent's converters. Errors: ConfigError."""
    problems = [
        Problem(key, value, f"Headrace's {converter} does not support it", f"Leave {key} out.")
        for key, value in config.items()
        if (key in _ONLY or key.startswith(_RULES))
        and value.strip().rpartition(".")[2] not in ("", "false", *_ONLY.get(key, ()))
    ]
    if problems:
        raise ConfigError(problems)


def looks_into_headers(config: Mapping[str, str], side: str) -> bool:
    """True if a header of a record may name its schema."""
    return not config.get(f"{side}.schema.id.deserializer", DUAL).strip().endswith(_PREFIXES)


def strategy(values: Mapping[str, Any], side: str) -> str:
    """The simple name of the subject name strategy. Errors: ConfigError for a class that is not Confluent's."""
    key = f"{side}.subject.name.strategy"
    simple: str = values[key].removeprefix(_STRATEGY_PACKAGE)
    if simple not in STRATEGIES:
        message = "Invalid subject name strategy: a Java class cannot be loaded here"
        raise ConfigError(Problem(key, values[key], message, f"Use one of {', '.join(STRATEGIES)}."))
    return simple
