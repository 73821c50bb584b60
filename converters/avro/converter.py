"""Confluent's AvroConverter: Avro in Kafka, with its schemas in a schema registry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.settings import Settings
from headrace.converters.avro.compatibility import breaks
from headrace.converters.avro.display import value_of
from headrace.converters.avro.reading import AvroReader
from headrace.converters.avro.references import standing_alone
from headrace.converters.avro.settings import AVRO_SETTINGS, avro_options
from headrace.converters.long_decimals import or_too_long
from headrace.converters.registry.converter import RegistryConverter, RegistrySchema, Writing
from headrace.converters.registry.refusals import CHANGE_NAMES
from headrace.plugins.contracts import DataError, Decoded
from headrace.plugins.interop.avro.carrier import AvroEncoding, Carriers
from headrace.plugins.interop.avro.from_connect import avro_tree
from headrace.plugins.interop.avro.parsing import branches, kind_of, parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import NameNotAllowed, Tree, schema_text
from headrace.plugins.interop.avro.writing import datum, encoded, encoding
from headrace.plugins.quick_decoding import Parts, Step
from headrace.plugins.schema import Schema, uncarried

_NULL_REFUSED = "Found null value for non-optional schema"


class AvroConverter(RegistryConverter[Tree]):
    """Avro after the bytes that name its schema."""

    settings: ClassVar[Settings] = AVRO_SETTINGS
    kind = "AVRO"
    title = "AvroConverter"
    cannot_read = "Failed to deserialize data for topic {topic} to Avro: "
    cannot_write = "Failed to serialize Avro data from topic {topic} : "
    bytes_have_length: ClassVar[bool] = False
    """True if bytes that are a value by themselves have their length before them, as bytes in a record have."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        super().configure(config, is_key)
        self._options = avro_options(self._values)
        self._readers: dict[bytes, tuple[AvroReader, str]] = {}

    def merged(self, text: str, referenced: Sequence[tuple[str, str]]) -> str:
        """The schema with the types of other schemas written out."""
        return standing_alone(text, referenced)

    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Tree]:
        """The schema, and the name of its record."""
        tree = parsed(text)
        return RegistrySchema(text, tree, _record_name(tree))

    def reading(self, found: RegistrySchema[Tree], version: int | None, identity: bytes, topic: str) -> Schema | None:
        """The Connect schema, if Spark can hold its values."""
        schema = connect_schema(found.form, self._options, version)
        if (why := uncarried(schema)) is not None:
            raise DataError(why)
        Carriers().of(found.form, schema)
        self._readers[identity] = (
            AvroReader(found.form, schema, self._options, len(identity), self.bytes_have_length),
            topic,
        )
        return schema

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """The step that runs Spark's decoder."""
        reader = self._readers[identity][0]
        if reader.is_raw:
            return []
        parse = reader.parse_as_it_is if reader.is_as_it_is else reader.parse
        return [lambda data, _: {"parsed": parse(data)}]

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """The values from Spark's decoder; null for a null, for bytes without a value and for invalid UTF-8."""
        if not parts:
            return None
        reader, parsed = self._readers[identity][0], parts["parsed"]
        return reader.read_as_it_is(parsed) if reader.is_as_it_is else reader.read(parsed)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """The values."""
        reader, topic = self._readers[identity]
        beyond = f"a value beyond Spark's{or_too_long(schema)}"
        failed = self.cannot_read.format(topic=topic)
        why = f"{failed}the bytes do not follow the schema of {self.schemas.described(identity)}, or hold {beyond}"
        return Decoded(reader.value(data), reader.error(data, why))

    def shown(self, data: bytes) -> str:
        """The value in JSON, with Python's text for what JSON lacks."""
        prefix, text = self.named_text(data)
        return json.dumps(value_of(data[len(prefix) :], text, self.bytes_have_length), ensure_ascii=False, default=str)

    def own_schema(self, schema: Schema | None) -> RegistrySchema[Tree]:
        """The schema, and the name of its record. Errors: DataError for a name that Avro does not allow."""
        try:
            tree = avro_tree(schema, self._options)
        except NameNotAllowed as error:
            raise DataError(f"{error} ({CHANGE_NAMES})") from error
        return RegistrySchema(schema_text(tree), tree, _record_name(tree))

    def incompatible(self, found: str, own: RegistrySchema[Tree]) -> str | None:
        """The first break of Avro's rules for schema resolution."""
        return next(breaks(parsed(found), own.form), None)

    def writing(self, schema: Schema | None, own: RegistrySchema[Tree], found: str | None) -> Writing:
        """Writes by Spark's encoder."""
        way = encoding(schema, own.form if found is None else parsed(found), self._options)

        def encode(value: Column) -> Column:
            made = (datum if self.bytes_have_length else encoded)(value, way)
            for refused in (way.misfits, way.nulls):
                made = made if refused is None else F.when(refused(value), F.lit(None)).otherwise(made)
            return made

        return Writing(encode, lambda topic, value: self._refusal(topic, value, way))

    def _refusal(self, topic: Column, value: Column, way: AvroEncoding) -> Column:
        failed = F.lit(None).cast("string")
        if way.misfits is not None:
            before, after = self.cannot_write.split("{topic}")
            misfit = F.concat(F.lit(before), topic, F.lit(f"{after}a value does not fit its Avro type"))
            failed = F.when(way.misfits(value), misfit)
        return failed if way.nulls is None else F.when(way.nulls(value), F.lit(_NULL_REFUSED)).otherwise(failed)


def _record_name(tree: Tree) -> str | None:
    """The full name of the record that all values are; None if they are none."""
    others = branches(tree) if isinstance(tree, list) else [tree]
    if len(others) != 1 or not isinstance(others[0], dict) or kind_of(others[0]) != "record":
        return None
    name: str = others[0]["name"]
    return name
