"""Apache's SimpleHeaderConverter, as far as headers are converted: their bytes are carried as they are.

Decided: a header crosses the pipe as raw bytes (`headers` of `headrace.plugins.records`), because no shipped
connector or transform looks into one yet and bytes that are not read cannot be misread; loses: nothing between Kafka
and Kafka, the typed values of headers for connectors and transforms until header conversion comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace import CONNECT_VERSION
from headrace.config.settings import Settings
from headrace.plugins.contracts import Plugin


class SimpleHeaderConverter(Plugin):
    """Connect's default header converter; it has no settings."""

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Ready."""
