"""Apache's JsonConverter: `{"schema":…,"payload":…}`, or the payload alone with `schemas.enable=false`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Setting, Settings, Type, Width
from headrace.config.validators import OneOfIgnoringCase
from headrace.converters.json import reading
from headrace.converters.json.envelope import AFTER, Envelope
from headrace.converters.json.rules import JsonRules
from headrace.converters.json.schema import (
    MOST_PARTS,
    MOST_WRITTEN,
    TOO_LARGE,
    parse_schema,
    read_json,
    refusal,
    schema_text,
)
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import Converter, DataError, Decoded
from headrace.plugins.interop.json.writing import NULL_REFUSED, JsonWriter
from headrace.plugins.quick_decoding import Parts, QuickDecoding, Step
from headrace.plugins.schema import Schema

_ALL: Final = b""
"""The identity if all documents have the same schema, or none."""


def _setting(
    name: str, type_: Type, default: Any, importance: Importance, group: str, order: int, display_name: str, text: str
) -> Setting:
    validator = OneOfIgnoringCase("BASE64", "NUMERIC") if name == "decimal.format" else None
    return Setting(name, type_, default, validator, importance, text, group, order, Width.MEDIUM, display_name)


class JsonConverter(Converter, QuickDecoding):
    """JSON in Kafka, byte for byte as Apache's."""

    reads_text = True
    settings: ClassVar[Settings] = Settings(
        CONVERTER_TYPE,
        _setting(
            "schemas.enable",
            Type.BOOLEAN,
            True,
            Importance.HIGH,
            "Schemas",
            0,
            "Enable Schemas",
            "Whether each document carries its schema, as members schema and payload.",
        ),
        _setting(
            "schemas.cache.size",
            Type.INT,
            1000,
            Importance.HIGH,
            "Schemas",
            1,
            "Schema Cache Size",
            "How many schemas are kept parsed.",
        ),
        _setting(
            "schema.content",
            Type.STRING,
            None,
            Importance.HIGH,
            "Schemas",
            2,
            "Schema Content",
            "The schema, in JSON, of all documents read, which then carry none themselves; needs schemas.enable.",
        ),
        _setting(
            "decimal.format",
            Type.STRING,
            "BASE64",
            Importance.LOW,
            "Serialization",
            0,
            "Decimal Format",
            "Whether decimals are written as BASE64 or as NUMERIC.",
        ),
        _setting(
            "replace.null.with.default",
            Type.BOOLEAN,
            True,
            Importance.LOW,
            "Serialization",
            1,
            "Replace null with default",
            "Whether a null becomes the default of its schema, where that has one.",
        ),
    )
    version: ClassVar[str] = CONNECT_VERSION

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings. Errors: ConfigError."""
        parsed = self.settings.parse(config)
        self._schemas_enabled: bool = parsed["schemas.enable"]
        replace_nulls: bool = parsed["replace.null.with.default"]
        self._rules = JsonRules(replace_nulls)
        self._envelope = Envelope(self._rules)
        self._numeric = parsed["decimal.format"].upper() == "NUMERIC"
        self._writer = JsonWriter(replace_nulls, self._numeric)
        self._content = self._parse_content(parsed["schema.content"])
        self.most_schemas = parsed["schemas.cache.size"]

    def _parse_content(self, content: str | None) -> Schema | None:
        if not (content and self._schemas_enabled):
            return None
        try:
            return parse_schema(read_json(content))
        except (DataError, ValueError, RecursionError) as e:
            remedy = 'Give a schema as Connect writes it in JSON, such as {"type":"string","optional":false}.'
            raise ConfigError(Problem("schema.content", content, str(e), remedy)) from e

    @property
    def constant_identity(self) -> bytes | None:
        """The identity of all documents if they carry no schemas; else None."""
        return _ALL if self._content is not None or not self._schemas_enabled else None

    def identify(self, data: Column) -> Column:
        """The text before the payload, or what stands for it in an odd document."""
        return F.lit(_ALL) if self.constant_identity is not None else self._envelope.identify(data)

    def quick_identity(self, data: Column) -> Column | None:
        """The same, for documents of the usual spelling."""
        return None if self.constant_identity is not None else self._envelope.quick_identity(data)

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to the texts of the fields, or to the parsed payload."""
        if identity == _ALL:
            return reading.quick_steps(_ALL, "", schema, self._rules)
        return self._envelope.quick_steps(identity, schema)

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value, read from the bytes without a parser; an array, map or struct is read from its parts."""
        if identity != _ALL:
            return self._envelope.quick_decode(data, parts, identity, schema)
        quick = reading.Quick(data.cast("string"), _ALL, "")
        if not parts:
            return reading.read_quickly(quick, schema)
        assert schema is not None
        return reading.read_parts(quick, parts, schema, self._rules)

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes; only documents of an unusual spelling are parsed."""
        return F.lit(True) if identity == _ALL else self._envelope.matches(data, identity)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The schema in the identity. Errors: DataError."""
        try:
            schema = self._content if identity == _ALL else parse_schema(self._envelope.named(identity))
            why = refusal(schema)
        except RecursionError:
            why = TOO_LARGE.format(MOST_PARTS)
        if why is not None:
            raise DataError(why)
        return schema

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The payload's values, in the thorough way."""
        if identity != _ALL:
            return self._envelope.decode(data, identity, schema)
        text = reading.document(data)
        return reading.read(reading.Quick(text.cast("string"), _ALL, ""), reading.plain(text), schema, self._rules)

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """The JSON documents; a null without schema stays a null."""
        if (why := refusal(schema, MOST_WRITTEN)) is not None:
            return Decoded(F.lit(None).cast("binary"), F.lit(why))
        before, after = "", ""
        if self._schemas_enabled:
            try:
                envelope = schema_text(schema, self._numeric, self._rules.replace_nulls)
            except DataError as e:  # a default with a forbidden null
                return Decoded(F.lit(None).cast("binary"), F.lit(str(e)))
            before, after = f'{{"schema":{envelope},"payload":', AFTER
        written = self._writer.payload(value, schema, before, after)
        refused = F.lit(None if schema is None else NULL_REFUSED).cast("string")
        return Decoded(written.cast("binary"), refused)

    def unreadable(self, data: Column) -> Column | None:
        """The fault of an invalid document; does not compare the payload with its schema."""
        if self.constant_identity is None:
            return self._envelope.unreadable(data)
        return reading.plain(reading.document(data)).fault
