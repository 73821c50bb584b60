"""Apicurio's AvroConverter: what Confluent's is, with Apicurio's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Settings
from headrace.converters.apicurio.settings import APICURIO_SETTINGS, as_confluent, by_own_names
from headrace.converters.avro.converter import AvroConverter
from headrace.converters.avro.settings import AVRO_SETTINGS
from headrace.converters.registry.schema_settings import SCHEMA_SETTINGS

_OF_AVRO: Final = AVRO_SETTINGS.without(*(setting.name for setting in SCHEMA_SETTINGS))


class ApicurioAvroConverter(AvroConverter):
    """Avro after zero and the four bytes of a content id."""

    settings: ClassVar[Settings] = _OF_AVRO + APICURIO_SETTINGS

    def parsed(self, config: Mapping[str, str], side: str) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """The config and its values by Confluent's names. Errors: ConfigError."""
        try:
            named = as_confluent(config, side)
            return named, AVRO_SETTINGS.parse(named)
        except ConfigError as error:
            raise by_own_names(error) from error

    def check(self) -> None:
        """Checks that a registry is at the URL. Errors: ConfigError."""
        try:
            super().check()
        except ConfigError as error:
            raise by_own_names(error) from error
