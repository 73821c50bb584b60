"""Apicurio's ExtJsonConverter: `{"schemaId":…,"payload":…}`, with the schema as Connect's JSON in the registry.

The payload is that of Apache's JsonConverter without schemas.

Decided: `use-id=globalId` has the global id in documents, as Apicurio's converter of 2.x writes them, although that of
3.x does not look at this setting here, because topics of 2.x could not be read otherwise; loses: nothing.
Decided: a version that `find-latest` or `artifact.version` names must have the record's own schema, because a document
holds nothing else that tells its types; loses: what Apicurio writes then, which is read as other values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import OneOfIgnoringCase
from headrace.converters.apicurio.schemas import ApicurioConverter
from headrace.converters.apicurio.settings import APICURIO_SETTINGS, ApicurioOptions
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
from headrace.converters.registry.converter import RegistrySchema, Writing
from headrace.converters.registry.schema_settings import flag, key
from headrace.converters.settings import CONVERTER_TYPE
from headrace.plugins.contracts import DataError, Decoded
from headrace.plugins.interop.json.writing import NULL_REFUSED, JsonWriter
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import Schema

_MOST: Final = "schemas.cache.size"
_BESIDE: Final = "schemaId"
_NO_ENVELOPE: Final = 'ExtJsonConverter requires the fields "schemaId" and "payload", and no others'


class ExtJsonConverter(ApicurioConverter[Schema]):
    """JSON beside the id of its schema."""

    reads_text = True
    settings: ClassVar[Settings] = (
        Settings(
            CONVERTER_TYPE,
            key(_MOST, Type.INT, 1000, "How many schemas are kept parsed."),
            Setting(
                "decimal.format",
                Type.STRING,
                "BASE64",
                OneOfIgnoringCase("BASE64", "NUMERIC"),
                Importance.LOW,
                "Write decimals as BASE64 or as NUMERIC.",
            ),
            flag("replace.null.with.default", True, "Write a null as the default of its schema, and read it so."),
        )
        + APICURIO_SETTINGS
    )
    kind = "KCONNECT"
    title = "ExtJsonConverter"
    cannot_read = "Failed to deserialize data for topic {topic} to JSON: "
    cannot_write = "Failed to serialize JSON data from topic {topic} : "
    most = _MOST

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        super().configure(config, is_key)
        replace_nulls: bool = self._values["replace.null.with.default"]
        numeric = self._values["decimal.format"].upper() == "NUMERIC"
        self._writer = JsonWriter(replace_nulls, numeric)
        self._envelope = Envelope(JsonRules(replace_nulls, beside=_BESIDE, no_envelope=_NO_ENVELOPE))

    def adapted(self, options: ApicurioOptions) -> ApicurioOptions:
        """Ids of eight bytes, as which the numbers in documents are looked up; no header has one."""
        return replace(options, sizes=(8,), headers=None)

    def merged(self, text: str, referenced: Sequence[tuple[str, str]]) -> str:
        """Refuses references. Errors: DataError."""
        raise DataError("The schema refers to others, which a schema of Kafka Connect does not")

    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Schema]:
        """The Connect schema."""
        try:
            schema = parse_schema(read_json(text))
        except ValueError as error:
            raise DataError(f"The registry's schema is not JSON: {error}") from error
        except RecursionError:
            raise DataError(TOO_LARGE.format(MOST_PARTS)) from None
        if schema is None:
            raise DataError("The registry's schema is null")
        return RegistrySchema(text, schema, schema.name)

    def reading(self, found: RegistrySchema[Schema], version: int | None, identity: bytes, topic: str) -> Schema | None:
        """The Connect schema, if it is not too large."""
        if (why := refusal(found.form)) is not None:
            raise DataError(why)
        return found.form

    def identify(self, data: Column) -> Column:
        """The text before the payload, or what stands for it in an odd document."""
        return self._envelope.identify(data)

    def quick_identity(self, data: Column) -> Column | None:
        """The same, for documents of the usual spelling."""
        return self._envelope.quick_identity(data)

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes; only documents of an unusual spelling are parsed."""
        return self._envelope.matches(data, identity)

    def named_text(self, data: bytes, topic: str | None = None) -> tuple[bytes, str]:
        """The identity's own bytes, and the registry's schema of the id in them."""
        return data, self.schemas.text(self.schemas.prefix(_number(self._envelope.named(data))), topic)

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to the texts of the fields, or to the parsed payload."""
        return self._envelope.quick_steps(identity, schema)

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value, read from the bytes without a parser; an array, map or struct is read from its parts."""
        return self._envelope.quick_decode(data, parts, identity, schema)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The payload's values, in the thorough way."""
        return self._envelope.decode(data, identity, schema)

    def shown(self, data: bytes) -> str:
        """The payload. Errors: DataError for bytes that hold none."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The bytes are not JSON: {error}") from error
        if not isinstance(document, dict) or "payload" not in document:
            raise DataError(_NO_ENVELOPE)
        return json.dumps(document["payload"], ensure_ascii=False)

    def own_schema(self, schema: Schema | None) -> RegistrySchema[Schema]:
        """The schema as JsonConverter's envelopes have it."""
        if schema is None:
            raise DataError("A value without a schema has none to register; use JsonConverter for such values")
        if (why := refusal(schema, MOST_WRITTEN)) is not None:
            raise DataError(why)
        return RegistrySchema(
            schema_text(schema, self._writer.numeric, self._writer.replace_nulls), schema, schema.name
        )

    def incompatible(self, found: str, own: RegistrySchema[Schema]) -> str | None:
        """The difference between the schemas, if there is any."""
        try:
            same = read_json(found) == read_json(own.text)
        except (ValueError, RecursionError):
            same = False
        return None if same else "a schema of Kafka Connect reads its own documents only"

    def keeps_null(self, schema: Schema | None) -> bool:
        """True if the schema allows a null, which is written as JSON's, or as its default."""
        return schema is not None and self._writer.null_text(schema) is not None

    def before(self, schema_id: int) -> bytes:
        """The document's text up to the payload."""
        return f'{{"{_BESIDE}":{schema_id},"payload":'.encode()

    def writing(self, schema: Schema | None, own: RegistrySchema[Schema], found: str | None) -> Writing:
        """Writes payloads and the end of the document."""
        return Writing(
            lambda value: self._writer.payload(value, schema, "", AFTER).cast("binary"),
            lambda topic, value: self._failed(topic),
        )

    def _failed(self, topic: Column) -> Column:
        before, after = self.cannot_write.split("{topic}")
        return F.concat(F.lit(before), topic, F.lit(after + NULL_REFUSED))


def _number(found: object) -> int:
    """The id that a document names. Errors: DataError if it is none."""
    if isinstance(found, int) and not isinstance(found, bool) and -(2**63) <= found < 2**63:
        return found
    raise DataError(f"The document's schemaId is no id: {str(found)[:100]}")
