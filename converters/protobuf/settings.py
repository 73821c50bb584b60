"""The settings of ProtobufConverter, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Settings
from headrace.converters.registry.schema_settings import SCHEMA_SETTINGS, flag
from headrace.converters.settings import CONVERTER_TYPE

_MEDIUM: Final = Importance.MEDIUM

PROTOBUF_SETTINGS: Final = (
    Settings(
        CONVERTER_TYPE,
        flag("enhanced.protobuf.schema.support", False, "Name structs and enums with their packages.", _MEDIUM),
        flag("scrub.invalid.names", False, "Change names that Protobuf does not allow.", _MEDIUM),
        flag("int.for.enums", False, "Read enums as their numbers, not as texts."),
        flag("optional.for.nullables", False, "Write optional values as optional fields.", _MEDIUM),
        flag("optional.for.proto2", True, "Read an optional field of proto2 that is not set as null.", _MEDIUM),
        flag(
            "wrapper.for.nullables",
            False,
            "Write optional values as wrappers of Google, and read these.",
            _MEDIUM,
        ),
        flag("wrapper.for.raw.primitives", True, "Read a message that is a wrapper as the value in it.", _MEDIUM),
        flag("generate.struct.for.nulls", False, "Read a message that is not set as a struct of defaults.", _MEDIUM),
        flag("generate.index.for.unions", True, "Add a number to the names of oneofs.", _MEDIUM),
        flag("flatten.unions", False, "Read the members of a oneof as fields of their message.", _MEDIUM),
        flag("generalized.sum.type.support", False, "Not supported.", _MEDIUM),
        flag("ignore.default.for.nullables", False, "Leave a null where the schema has a default.", _MEDIUM),
        flag("skip.known.types", True, "Register no schemas of well-known types; false is not supported."),
        flag("reference.lookup.only", False, "Without effect: a written schema refers to well-known types only."),
    )
    + SCHEMA_SETTINGS
)


@dataclass(frozen=True)
class ProtobufOptions:
    """Settings for schemas, in both directions."""

    full_names: bool = False
    """enhanced.protobuf.schema.support"""
    scrub: bool = False
    """scrub.invalid.names"""
    int_enums: bool = False
    """int.for.enums"""
    optional: bool = False
    """optional.for.nullables"""
    optional_proto2: bool = True
    """optional.for.proto2"""
    wrappers: bool = False
    """wrapper.for.nullables"""
    raw_wrappers: bool = True
    """wrapper.for.raw.primitives"""
    structs_for_nulls: bool = False
    """generate.struct.for.nulls"""
    number_unions: bool = True
    """generate.index.for.unions"""
    flatten_unions: bool = False
    """flatten.unions"""
    keep_nulls: bool = False
    """ignore.default.for.nullables"""


def protobuf_options(values: Mapping[str, Any]) -> ProtobufOptions:
    """The options for schemas in these parsed settings. Errors: ConfigError."""
    refused = {
        "generalized.sum.type.support": (True, "Unions and enums are read and written in Protobuf's own way only"),
        "skip.known.types": (False, "Well-known types are never registered; every reader has them"),
    }
    problems = [
        Problem(name, str(value).lower(), message, f"Leave {name} out.")
        for name, (value, message) in refused.items()
        if values[name] is value
    ]
    if problems:
        raise ConfigError(problems)
    return ProtobufOptions(
        full_names=values["enhanced.protobuf.schema.support"],
        scrub=values["scrub.invalid.names"],
        int_enums=values["int.for.enums"],
        optional=values["optional.for.nullables"],
        optional_proto2=values["optional.for.proto2"],
        wrappers=values["wrapper.for.nullables"],
        raw_wrappers=values["wrapper.for.raw.primitives"],
        structs_for_nulls=values["generate.struct.for.nulls"],
        number_unions=values["generate.index.for.unions"],
        flatten_unions=values["flatten.unions"],
        keep_nulls=values["ignore.default.for.nullables"],
    )
