"""Confluent's JsonSchemaConverter: JSON documents in Kafka, with their JSON Schemas in a schema registry.

Decided: a document without a property that its schema requires is read with a null, as by Confluent's converter; inside
another object that is an error, because Connect's Struct refuses it there; loses: nothing, with
`use.optional.for.nonrequired=true`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.converters.json import reading
from headrace.converters.json.rules import JsonRules
from headrace.converters.json.schema import refusal
from headrace.converters.json_schema.compatibility import breaks
from headrace.converters.json_schema.documents import Documents, merged
from headrace.converters.json_schema.from_connect import json_schema, schema_text
from headrace.converters.json_schema.options import UNION
from headrace.converters.json_schema.settings import JSON_SCHEMA_SETTINGS, json_schema_options
from headrace.converters.json_schema.to_connect import connect_schema
from headrace.converters.json_schema.writing import JsonSchemaWriter
from headrace.converters.registry.converter import UNREADABLE, RegistryConverter, RegistrySchema, Writing
from headrace.plugins.contracts import DataError, Decoded
from headrace.plugins.interop.json.writing import NULL_REFUSED
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import Schema

_MOST: Final = 2**31 - 1


class JsonSchemaConverter(RegistryConverter[Documents]):
    """JSON after the bytes that name its schema."""

    reads_text = True
    settings: ClassVar[Settings] = JSON_SCHEMA_SETTINGS
    kind = "JSON"
    title = "JsonSchemaConverter"
    cannot_read = "Converting byte[] to Kafka Connect data failed due to serialization error of topic {topic}: "
    cannot_write = "Converting Kafka Connect data to byte[] failed due to serialization error of topic {topic}: "

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        super().configure(config, is_key)
        self._options = json_schema_options(self._values)
        keeps = self._options.replace_nulls
        self._rules = JsonRules(keeps, leaves_unset=True, names_pairs=True, union=UNION)
        self._writer = JsonSchemaWriter(keeps, self._options.numeric)

    def merged(self, text: str, referenced: Sequence[tuple[str, str]]) -> str:
        """The schema with the documents that it refers to."""
        return merged(text, referenced)

    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Documents]:
        """The schema, and its title as the record's name."""
        documents = Documents(text)
        title = documents.root.get("title") if isinstance(documents.root, dict) else None
        return RegistrySchema(text, documents, title if isinstance(title, str) else None)

    def reading(
        self, found: RegistrySchema[Documents], version: int | None, identity: bytes, topic: str
    ) -> Schema | None:
        """The Connect schema, if it is not too large."""
        schema = connect_schema(found.form, self._options, version)
        if (why := refusal(schema)) is not None:
            raise DataError(why)
        return schema

    def identify(self, data: Column) -> Column:
        """The bytes that name the schema."""
        return super().identify(data.cast("binary"))

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes."""
        if identity == UNREADABLE:
            return super().matches(data.cast("binary"), identity)
        return F.startswith(data.cast("string"), F.lit(identity).cast("string"))

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Steps to the texts of the fields, or to the parsed document."""
        return reading.quick_steps(identity, "", schema, self._rules)

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The value, read from the bytes without a parser; an array, map or struct is read from its parts."""
        quick = reading.Quick(data.cast("string"), identity, "")
        if not parts:
            return reading.read_quickly(quick, schema)
        assert schema is not None
        return reading.read_parts(quick, parts, schema, self._rules)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The document's values, in the thorough way."""
        document = F.substring(data.cast("binary"), len(identity) + 1, _MOST).cast("string")
        quick = reading.Quick(data.cast("string"), identity, "")
        return reading.read(quick, reading.plain(document), schema, self._rules)

    def shown(self, data: bytes) -> str:
        """The document. Errors: DataError for bytes that hold none."""
        length = self.schemas.framing.length(data)
        if not length:
            raise DataError("Unknown magic byte!")
        text = data[length:].decode("utf-8", "replace")
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The bytes after the schema's id are not JSON: {error}") from error
        return text

    def own_schema(self, schema: Schema | None) -> RegistrySchema[Documents]:
        """The schema, and its title as the record's name."""
        text = schema_text(json_schema(schema, self._options))
        return self.read_text(text, b"")

    def incompatible(self, found: str, own: RegistrySchema[Documents]) -> str | None:
        """The first document that `own` allows and the registered schema does not."""
        return next(breaks(Documents(found), own.form), None)

    def keeps_null(self, schema: Schema | None) -> bool:
        """True if the schema allows a null, which is written as JSON's, or as its default."""
        return schema is not None and self._writer.null_text(schema) is not None

    def writing(self, schema: Schema | None, own: RegistrySchema[Documents], found: str | None) -> Writing:
        """Writes documents, which depend on their own schema alone."""
        return Writing(
            lambda value: self._writer.payload(value, schema, "", "").cast("binary"),
            lambda topic, value: self._failed(topic),
        )

    def _failed(self, topic: Column) -> Column:
        before, after = self.cannot_write.split("{topic}")
        return F.concat(F.lit(before), topic, F.lit(after + NULL_REFUSED))
