"""The settings of JsonSchemaConverter, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type
from headrace.config.validators import OneOfIgnoringCase
from headrace.converters.json_schema.options import JsonSchemaOptions
from headrace.converters.registry.schema_settings import SCHEMA_SETTINGS, flag
from headrace.converters.settings import CONVERTER_TYPE

_NOT_SERVED: Final[Mapping[str, tuple[str, str]]] = {
    "generalized.sum.type.support": ("Unions and enums are read and written in Confluent's own way only", "{}=false"),
    "json.fail.invalid.schema": (
        "Documents are not validated by their schema: a value of another type is read as Connect reads it",
        "{}=false, and the transform Filter or Sql for what must hold",
    ),
    "preserve.additional.properties": ("Members that a schema does not name are not kept", "{}=false"),
}
"""Flags that are refused if they are true: the reason, and what to set instead."""

JSON_SCHEMA_SETTINGS: Final = (
    Settings(
        CONVERTER_TYPE,
        flag("object.additional.properties", True, "Allow members that a schema does not name; false: write that."),
        flag("use.optional.for.nonrequired", False, "Read properties that are not required as optional fields."),
        Setting(
            "decimal.format",
            Type.STRING,
            "BASE64",
            OneOfIgnoringCase("BASE64", "NUMERIC"),
            Importance.LOW,
            "Write decimals as BASE64 or as NUMERIC.",
        ),
        flag("flatten.singleton.unions", True, "Read a union of one branch as that branch."),
        flag("ignore.modern.dialects", False, "Without effect: all drafts from 4 to 2020-12 are read alike."),
        flag("ignore.default.for.nullables", False, "Leave a null where the schema has a default.", Importance.MEDIUM),
        *(flag(name, False, "Not supported.") for name in _NOT_SERVED),
    )
    + SCHEMA_SETTINGS
)


def json_schema_options(values: Mapping[str, Any]) -> JsonSchemaOptions:
    """The options in these parsed settings. Errors: ConfigError."""
    problems = [
        Problem(name, "true", f"{why}.", f"Set {remedy.format(name)}.")
        for name, (why, remedy) in _NOT_SERVED.items()
        if values[name]
    ]
    if problems:
        raise ConfigError(problems)
    return JsonSchemaOptions(
        open_objects=values["object.additional.properties"],
        optional_unless_required=values["use.optional.for.nonrequired"],
        numeric=values["decimal.format"].upper() == "NUMERIC",
        flatten_singletons=values["flatten.singleton.unions"],
        replace_nulls=not values["ignore.default.for.nullables"],
    )
