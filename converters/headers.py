"""Apache's SimpleHeaderConverter: writes a value's text; readers guess its type.

Headrace only writes with it: sinks and transforms get headers as bytes (`headrace.plugins.records`).
"""

from __future__ import annotations

from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.settings import Settings
from headrace.plugins.contracts import Decoded, HeaderConverter
from headrace.plugins.interop.java.values import values_text
from headrace.plugins.schema import Schema


class SimpleHeaderConverter(HeaderConverter):
    """Connect's default header converter; it has no settings."""

    settings: ClassVar[Settings] = Settings()
    version: ClassVar[str] = CONNECT_VERSION

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The value's text."""
        return Decoded(values_text(value, schema).cast("binary"), F.lit(None).cast("string"))
