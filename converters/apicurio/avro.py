"""Apicurio's AvroConverter: Avro as Confluent's, in Apicurio's framing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Problem, Settings, Type
from headrace.converters.apicurio.schemas import ApicurioConverter
from headrace.converters.apicurio.settings import APICURIO_SETTINGS, RECORDS, TOPICS
from headrace.converters.avro.converter import AvroConverter
from headrace.converters.avro.settings import AVRO_SETTINGS
from headrace.converters.registry.schema_settings import SCHEMA_SETTINGS, key
from headrace.converters.registry.schemas import Schemas
from headrace.plugins.interop.avro.tree import Tree

_MOST: Final = "schemas.cache.config"
_ENCODING: Final = "apicurio.avro.encoding"
_CONFLUENTS: Final = [setting.name for setting in SCHEMA_SETTINGS if setting.name != _MOST]


class ApicurioAvroConverter(ApicurioConverter[Tree], AvroConverter):
    """Avro after zero and the bytes of an id."""

    settings: ClassVar[Settings] = (
        AVRO_SETTINGS.without(*_CONFLUENTS)
        + Settings(key(_ENCODING, Type.STRING, "BINARY", "The only one that is served."))
        + APICURIO_SETTINGS
    )
    strategies = (*TOPICS, *RECORDS)
    most = _MOST
    bytes_have_length = True

    def make_schemas(self, config: Mapping[str, str], side: str) -> Schemas:
        """The schemas in the configured registry. Errors: ConfigError."""
        values: Mapping[str, Any] = self._values
        if values[_ENCODING].strip().upper() != "BINARY":
            what, remedy = "Avro is read and written in its binary encoding only.", "Set it to BINARY."
            raise ConfigError(Problem(_ENCODING, values[_ENCODING], what, remedy))
        return super().make_schemas(config, side)
