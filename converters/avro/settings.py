"""The settings of AvroConverter, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type
from headrace.converters.registry.client import CLIENT_SETTINGS
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.interop.avro.tree import AvroOptions

_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy", "AssociatedNameStrategy")
_STRATEGY_PACKAGE: Final = "io.confluent.kafka.serializers.subject."

_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "context.name.strategy": ("NullContextNameStrategy",),
    "key.schema.id.serializer": ("PrefixSchemaIdSerializer",),
    "key.schema.id.deserializer": ("PrefixSchemaIdDeserializer", "DualSchemaIdDeserializer"),
    "value.schema.id.serializer": ("PrefixSchemaIdSerializer",),
    "value.schema.id.deserializer": ("PrefixSchemaIdDeserializer", "DualSchemaIdDeserializer"),
    "subject.name.strategy.fallback.type": ("TOPIC",),
    "propagate.schema.tags": (),
    "rule.service.loader.enable": ("true",),
    "schema.format": (),
}
"""Settings of Confluent's converter with their only supported values; classes by their simple names."""
_RULES: Final = ("rule.", "validation.rules.")


def _key(name: str, type_: Type, default: Any, text: str, importance: Importance = Importance.LOW) -> Setting:
    return Setting(name, type_, default, None, importance, text)


def _flag(name: str, default: bool, text: str, importance: Importance = Importance.LOW) -> Setting:
    return _key(name, Type.BOOLEAN, default, text, importance)


AVRO_SETTINGS: Final = (
    Settings(
        CONVERTER_TYPE,
        _flag("auto.register.schemas", True, "Register schemas that the registry does not have.", Importance.MEDIUM),
        _flag("normalize.schemas", False, "Let the registry normalize schemas before it compares them."),
        _flag("use.latest.version", False, "Write with the latest schema; needs auto.register.schemas=false."),
        _flag("latest.compatibility.strict", True, "Refuse a latest schema that cannot read the record's own."),
        _key("use.latest.with.metadata", Type.LIST, None, "Write with the latest schema that has these: k1=v1,k2=v2."),
        _key("use.schema.id", Type.INT, -1, "Write with the schema of this id; needs auto.register.schemas=false."),
        _flag("id.compatibility.strict", True, "Refuse a schema of that id which cannot read the record's own."),
        _key("use.schema.guid", Type.STRING, None, "Write with the schema of this GUID."),
        *(
            _key(
                f"{side}.subject.name.strategy",
                Type.STRING,
                _STRATEGY_PACKAGE + "AssociatedNameStrategy",
                f"How subjects of {side}s are named: " + ", ".join(_STRATEGIES) + ".",
                Importance.MEDIUM,
            )
            for side in ("key", "value")
        ),
        _flag("enhanced.avro.schema.support", False, "Keep enums, and namespaces in unions.", Importance.MEDIUM),
        _flag("connect.meta.data", True, "Keep what Connect knows of schemas in properties connect.*."),
        _flag("scrub.invalid.names", False, "Change names that Avro does not allow.", Importance.MEDIUM),
        _flag("discard.type.doc.default", False, "Keep docs and defaults of fields, not those of their types."),
        _flag("allow.optional.map.keys", False, "Write maps with optional texts for keys as Avro maps."),
        _flag("flatten.singleton.unions", True, "Read a union of one branch as that branch."),
        _flag(
            "generalized.sum.type.support",
            False,
            "Not supported.",
            Importance.MEDIUM,
        ),
        _flag("ignore.default.for.nullables", False, "Leave a null where the schema has a default.", Importance.MEDIUM),
        _key("schemas.cache.config", Type.INT, 1000, "How many converted schemas are cached."),
    )
    + CLIENT_SETTINGS
)


def avro_options(values: Mapping[str, Any]) -> AvroOptions:
    """The options for schemas in these parsed settings. Errors: ConfigError."""
    name = "generalized.sum.type.support"
    if values[name]:
        message = "Unions and enums are read and written in Avro's own way only"
        raise ConfigError(Problem(name, "true", message, f"Leave {name} out."))
    return AvroOptions(
        metadata=values["connect.meta.data"],
        enhanced=values["enhanced.avro.schema.support"],
        scrub=values["scrub.invalid.names"],
        discard_docs=values["discard.type.doc.default"],
        optional_map_keys=values["allow.optional.map.keys"],
        flatten_singletons=values["flatten.singleton.unions"],
        keep_nulls=values["ignore.default.for.nullables"],
    )


def metadata(values: Mapping[str, Any]) -> dict[str, str]:
    """The metadata that a latest schema must have to be used for writing. Errors: ConfigError."""
    name = "use.latest.with.metadata"
    pairs = [pair.partition("=") for pair in values[name] or ()]
    if not all(key and equals for key, equals, _ in pairs):
        raise ConfigError(Problem(name, ",".join(values[name]), "It is not a list of k=v", "Write k1=v1,k2=v2."))
    return {key: value for key, _, value in pairs}


def refuse_unserved(config: Mapping[str, str]) -> None:
    """Refuses unsupported values of settings of Confluent's converter. Errors: ConfigError."""
    problems = [
        Problem(key, value, "Headrace's AvroConverter does not support it", f"Leave {key} out.")
        for key, value in config.items()
        if (key in _ONLY or key.startswith(_RULES))
        and value.strip().rpartition(".")[2] not in ("", "false", *_ONLY.get(key, ()))
    ]
    if problems:
        raise ConfigError(problems)


def strategy(values: Mapping[str, Any], side: str) -> str:
    """The simple name of the subject name strategy. Errors: ConfigError for a class that is not Confluent's."""
    key = f"{side}.subject.name.strategy"
    simple: str = values[key].removeprefix(_STRATEGY_PACKAGE)
    if simple not in _STRATEGIES:
        message = "Invalid subject name strategy: a Java class cannot be loaded here"
        raise ConfigError(Problem(key, values[key], message, f"Use one of {', '.join(_STRATEGIES)}."))
    return simple
