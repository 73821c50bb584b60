"""Apache's StringConverter: text in Kafka, a string in Connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type, Width
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import Converter, Decoded
from headrace.plugins.java_text import java_text
from headrace.plugins.schema import OPTIONAL_STRING, Schema

_ENCODINGS: Final = {
    "UTF8": "UTF-8",
    "USASCII": "US-ASCII",
    "ASCII": "US-ASCII",
    "ISO88591": "ISO-8859-1",
    "LATIN1": "ISO-8859-1",
    "UTF16": "UTF-16",
    "UTF16BE": "UTF-16BE",
    "UTF16LE": "UTF-16LE",
}
"""Spark's encodings by Java's names without dashes."""


class StringConverter(Converter):
    """Text in one encoding; values of other types are written as by Java's `toString`.

    Decided: invalid bytes become U+FFFD and characters missing in the encoding become `?`, as in Java, but invalid
    UTF-16 is an error, because Spark's decoder raises for it and no expression repairs it; loses: such records.
    """

    settings: ClassVar[Settings] = Settings(
        CONVERTER_TYPE,
        Setting(
            "converter.encoding",
            Type.STRING,
            "UTF-8",
            None,
            Importance.HIGH,
            "The encoding of the text, by Java's name: " + ", ".join(dict.fromkeys(_ENCODINGS.values())) + ".",
            width=Width.MEDIUM,
            display_name="Encoding",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION
    constant_identity = b""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings. Errors: ConfigError for an encoding that Spark does not have."""
        encoding: str = self.settings.parse(config)["converter.encoding"]
        known = _ENCODINGS.get(encoding.upper().replace("-", "").replace("_", ""))
        if known is None:
            offered = ", ".join(dict.fromkeys(_ENCODINGS.values()))
            message = "Spark does not have this encoding"
            raise ConfigError(Problem("converter.encoding", encoding, message, f"Use one of {offered}."))
        self._encoding = known

    def identify(self, data: Column) -> Column:
        """The same identity for all bytes."""
        return F.lit(self.constant_identity)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The schema of all data: an optional string."""
        return OPTIONAL_STRING

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The text."""
        return Decoded(_decode(data, self._encoding), F.lit(f"Value is not valid {self._encoding}"))

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The text of `toString`; null for null."""
        return Decoded(
            F.when(value.isNotNull(), _encode(java_text(value, schema), self._encoding)), F.lit(None).cast("string")
        )


def _decode(data: Column, encoding: str) -> Column:
    if encoding == "UTF-8":
        return F.make_valid_utf8(data.cast("string"))
    bytes_as_text = F.decode(data, "ISO-8859-1")
    if encoding == "ISO-8859-1":
        return bytes_as_text
    if encoding == "US-ASCII":
        return F.regexp_replace(bytes_as_text, "[^\\x00-\\x7F]", "\ufffd")
    big = _is_utf16(bytes_as_text, r"[\xD8-\xDB].[\xDC-\xDF].", r"[^\xD8-\xDF].")
    little = _is_utf16(bytes_as_text, r".[\xD8-\xDB].[\xDC-\xDF]", r".[^\xD8-\xDF]")
    valid = {"UTF-16BE": big, "UTF-16LE": little}.get(
        encoding, F.when(F.startswith(data, F.lit(b"\xff\xfe")), little).otherwise(big)
    )
    return F.when(valid, F.decode(data, encoding))


def _is_utf16(bytes_as_text: Column, pair: str, single: str) -> Column:
    # Possessive, because Java's regular expressions recurse for each repetition of a backtracking group.
    return bytes_as_text.rlike(rf"(?s)^(?:{single}|{pair})*+\z")


def _encode(text: Column, encoding: str) -> Column:
    if encoding == "UTF-8":
        return text.cast("binary")
    lacking = {"US-ASCII": "[^\\x00-\\x7F]", "ISO-8859-1": "[^\\x00-\\xFF]"}.get(encoding)
    return F.encode(F.regexp_replace(text, lacking, "?") if lacking else text, encoding)
