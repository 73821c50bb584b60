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
from headrace.converters.json.marking import OPTIONS
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

_BLANK: Final = r"[ \t\r\n]*"
_BEFORE_PAYLOAD: Final = rf'(?s)^{_BLANK}\{{{_BLANK}"schema"{_BLANK}:.*?,{_BLANK}"payload"{_BLANK}:{_BLANK}'
_FAULT: Final = b"\x00"
"""First byte of the identity of documents without a readable schema; Connect's error text follows."""
_ODD: Final = b"\x01"
"""First byte of the identity of documents that are not of the usual spelling; the schema's JSON follows."""
_ALL: Final = b""
"""The identity if all documents have the same schema, or none."""


def _setting(
    name: str, type_: Type, default: Any, importance: Importance, group: str, order: int, display_name: str, text: str
) -> Setting:
    validator = OneOfIgnoringCase("BASE64", "NUMERIC") if name == "decimal.format" else None
    return Setting(name, type_, default, validator, importance, text, group, order, Width.MEDIUM, display_name)


class JsonConverter(Converter, QuickDecoding):
    """JSON in Kafka, byte for byte as Apache's.

    An identity is the text before the payload (`{"schema":…,"payload":`), so the first bytes identify documents of the
    usual spelling; `_FAULT` and `_ODD` mark the identities of all others.
    """

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
        """The text before the payload, or an identity that begins with `_FAULT` or `_ODD`."""
        if self.constant_identity is not None:
            return F.lit(_ALL)
        before = F.regexp_extract(data.cast("string"), _BEFORE_PAYLOAD, 0)
        text = reading.document(data)
        names = F.json_object_keys(F.concat(before, F.lit("null}")))
        # The first `,"payload":` may be inside the schema; then the text before it is no complete member.
        usual = F.startswith(text, before) & (names == F.array(F.lit("schema"), F.lit("payload")))
        fault = reading.envelope_fault(text)
        return (
            F.when((before != "") & usual, before.cast("binary"))
            .when(fault.isNotNull(), F.concat(F.lit(_FAULT), fault.cast("binary")))
            .otherwise(F.concat(F.lit(_ODD), _schema_of(text).cast("binary")))
        )

    def quick_identity(self, data: Column) -> Column | None:
        """The text before the payload, if the schema in it is complete."""
        if self.constant_identity is not None:
            return None
        text = data.cast("string")
        before = F.regexp_extract(text, _BEFORE_PAYLOAD, 0)
        usual = F.json_object_keys(F.concat(before, F.lit("null}"))) == F.array(F.lit("schema"), F.lit("payload"))
        return F.when((before != "") & usual & F.startswith(text, before), before.cast("binary"))

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to the texts of the fields, or to the parsed payload."""
        return [] if identity.startswith(_ODD) else reading.quick_steps(*_around(identity), schema, self._rules)

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value, read from the bytes without a parser; an array, map or struct is read from its parts."""
        if identity.startswith(_ODD):
            return None
        quick = _quick(data, identity)
        if not parts:
            return reading.read_quickly(quick, schema)
        assert schema is not None
        return reading.read_parts(quick, parts, schema, self._rules)

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes; only documents of an unusual spelling are parsed."""
        if identity == _ALL:
            return F.lit(True)
        if identity.startswith(_FAULT):
            return F.coalesce(self.identify(data) == F.lit(identity), F.lit(False))
        if identity.startswith(_ODD):
            return _schema_of(reading.document(data)).cast("binary") == F.lit(identity.removeprefix(_ODD))
        return F.startswith(data.cast("string"), F.lit(identity).cast("string"))

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The schema in the identity. Errors: DataError."""
        try:
            schema = self._content if identity == _ALL else _resolve(identity)
            why = refusal(schema)
        except RecursionError:
            why = TOO_LARGE.format(MOST_PARTS)
        if why is not None:
            raise DataError(why)
        return schema

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The payload's values, in the thorough way."""
        text = reading.document(data)
        if identity.startswith(_ODD):
            return reading.read(None, reading.envelope(text), schema, self._rules)
        quick = _quick(text, identity)
        parsed = reading.plain(text) if identity == _ALL else reading.enveloped(quick)
        return reading.read(quick, parsed, schema, self._rules)

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
            before, after = f'{{"schema":{envelope},"payload":', "}"
        written = self._writer.payload(value, schema, before, after)
        refused = F.lit(None if schema is None else NULL_REFUSED).cast("string")
        return Decoded(written.cast("binary"), refused)

    def unreadable(self, data: Column) -> Column | None:
        """The fault of an invalid document; does not compare the payload with its schema."""
        text = reading.document(data)
        return reading.envelope_fault(text) if self.constant_identity is None else reading.plain(text).fault


def _quick(data: Column, identity: bytes) -> reading.Quick:
    return reading.Quick(data.cast("string"), *_around(identity))


def _around(identity: bytes) -> tuple[bytes, str]:
    """The bytes before and the text after the payload."""
    return (b"", "") if identity == _ALL else (identity, "}")


def _schema_of(text: Column) -> Column:
    return F.coalesce(F.from_json(text, "map<string,string>", OPTIONS)["schema"], F.lit("null"))


def _resolve(identity: bytes) -> Schema | None:
    if identity.startswith(_FAULT):
        raise DataError(identity.removeprefix(_FAULT).decode())
    if identity.startswith(_ODD):
        try:
            return parse_schema(read_json(identity.removeprefix(_ODD).decode()))
        except (ValueError, RecursionError):
            raise DataError("Schema must contain 'type' field") from None  # a JSON string, without its quotes
    try:
        document = read_json(identity.decode() + "null}")
    except (ValueError, RecursionError) as e:
        raise DataError(f"{reading.NOT_JSON}the schema before the payload cannot be read: {e}") from e
    if document.keys() != {"schema", "payload"}:
        raise DataError(reading.NO_ENVELOPE)
    return parse_schema(document["schema"])
