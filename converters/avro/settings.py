"""The settings of AvroConverter, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Settings
from headrace.converters.registry.schema_settings import SCHEMA_SETTINGS, flag
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.interop.avro.tree import AvroOptions

AVRO_SETTINGS: Final = (
    Settings(
        CONVERTER_TYPE,
        flag("enhanced.avro.schema.support", False, "Keep enums, and namespaces in unions.", Importance.MEDIUM),
        flag("connect.meta.data", True, "Keep what Connect knows of schemas in properties connect.*."),
        flag("scrub.invalid.names", False, "Change names that Avro does not allow.", Importance.MEDIUM),
        flag("discard.type.doc.default", False, "Keep docs and defaults of fields, not those of their types."),
        flag("allow.optional.map.keys", False, "Write maps with optional texts for keys as Avro maps."),
        flag("flatten.singleton.unions", True, "Read a union of one branch as that branch."),
        flag(
            "generalized.sum.type.support",
            False,
            "Not supported.",
            Importance.MEDIUM,
        ),
        flag("ignore.default.for.nullables", False, "Leave a null where the schema has a default.", Importance.MEDIUM),
    )
    + SCHEMA_SETTINGS
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
