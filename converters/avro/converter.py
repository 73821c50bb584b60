"""Confluent's AvroConverter: Avro in Kafka, with its schemas in a schema registry.

Decided: the error of unreadable bytes names the topic in which their schema's id was first met, because an expression
does not know its record's topic; loses: the right name if a task reads several topics of one schema.
Decided: if the registry does not know the schema under the topic's subject (a mirrored topic), or refuses this client
the look-up, the Connect schema has no version, because Confluent's converter fails there although the data can be read;
loses: nothing.
Decided: the version is that under the subject of the topic in which the id was first met, because an id has one schema
for all topics of a task; loses: the right version if topics share an id and count their versions differently.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.config.settings import Settings
from headrace.converters.avro.compatibility import breaks
from headrace.converters.avro.display import value_of
from headrace.converters.avro.reading import PREFIX, AvroReader
from headrace.converters.avro.references import standing_alone
from headrace.converters.avro.settings import AVRO_SETTINGS, avro_options, metadata, refuse_unserved, strategy
from headrace.converters.long_decimals import or_too_long
from headrace.converters.registry.client import CHANGE_NAMES, SchemaRegistry
from headrace.plugins.contracts import Converter, DataError, Decoded, Encoded, RetriableError
from headrace.plugins.extensions import RegisteredSchema, TopicEncoding
from headrace.plugins.interop.avro.carrier import AvroEncoding, Carriers
from headrace.plugins.interop.avro.from_connect import avro_tree
from headrace.plugins.interop.avro.parsing import branches, kind_of, parsed
from headrace.plugins.interop.avro.to_connect import connect_schema
from headrace.plugins.interop.avro.tree import NameNotAllowed, Tree, schema_text
from headrace.plugins.interop.avro.writing import encoded, encoding
from headrace.plugins.interop.conversion.decode import reason_of
from headrace.plugins.quick_decoding import Parts, QuickDecoding, Step
from headrace.plugins.schema import Schema, uncarried

log = logging.getLogger(__name__)

_MAGIC: Final = b"\x00"
_UNREADABLE: Final = b""
"""The identity of bytes that do not start with zero and a schema's id."""
_REFUSED_S: Final = 30.0
"""Seconds until the registry is asked again after a refusal."""
_NULL_REFUSED: Final = "Found null value for non-optional schema"


@dataclass(frozen=True)
class _Target:
    """The encoding of values of one Connect schema for one topic, or the reason to refuse them."""

    prefix: bytes = b""
    encoding: AvroEncoding | None = None
    refusal: str | None = None
    until_s: float = field(default=math.inf, compare=False)
    """The time to ask the registry again, on the monotonic clock."""


class AvroConverter(Converter, QuickDecoding, TopicEncoding):
    """Avro after Confluent's five bytes: zero and the schema's id."""

    settings: ClassVar[Settings] = AVRO_SETTINGS
    version: ClassVar[str] = CONNECT_VERSION
    only_asks: bool | None = False

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        self._values: Mapping[str, Any] = self.settings.parse(config)
        self._options = avro_options(self._values)
        self._side = "key" if is_key else "value"
        self._strategy = strategy(self._values, self._side)
        self._metadata = metadata(self._values)
        refuse_unserved(config)
        self._registry = SchemaRegistry(config, standing_alone, self.worker, bool(self.only_asks))
        self._asked: dict[tuple[Schema | None, str], RegisteredSchema] = {}
        self.most_schemas = self._values["schemas.cache.config"]
        self._readers: dict[bytes, tuple[AvroReader, str]] = {}
        self._targets: dict[tuple[Schema | None, str], _Target] = {}
        self._encodings: dict[tuple[Schema | None, str], AvroEncoding] = {}

    def check(self) -> None:
        """Checks that a schema registry is at the URL. Errors: ConfigError."""
        self._registry.check()

    def identify(self, data: Column) -> Column:
        """The first five bytes."""
        return F.when(_is_framed(data), F.substring(data, 1, PREFIX)).otherwise(F.lit(_UNREADABLE))

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes."""
        return F.startswith(data, F.lit(identity)) if identity != _UNREADABLE else ~_is_framed(data)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The registry's schema with this id, and its version under the topic's subject."""
        failed = _unreadable(topic)
        if identity == _UNREADABLE:
            raise DataError(f"{failed}Unknown magic byte!")
        try:
            text = self._registry.schema(int.from_bytes(identity[1:], "big"), self._subject_of_topic(topic))
            tree = parsed(text)
            schema = connect_schema(tree, self._options, self._version(topic, tree, text))
            if (why := uncarried(schema)) is not None:
                raise DataError(why)
            Carriers().of(tree, schema)
        except DataError as error:
            raise DataError(f"{failed}{error}") from error
        self._readers[identity] = AvroReader(tree, schema, self._options), topic
        return schema

    def _version(self, topic: str, tree: Tree, text: str) -> int | None:
        try:
            return self._registry.version_of(self._subject(topic, tree), text, self._values["normalize.schemas"])
        except (DataError, ConfigError):
            return None

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
        number = int.from_bytes(identity[1:], "big")
        beyond = f"a value beyond Spark's{or_too_long(schema)}"
        why = f"{_unreadable(topic)}the bytes do not follow the schema of id {number}, or hold {beyond}"
        return Decoded(reader.value(data), reader.error(data, why))

    def shown(self, data: bytes) -> str:
        """The value in JSON, with Python's text for what JSON lacks."""
        return json.dumps(value_of(data, self._registry), ensure_ascii=False, default=str)

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Always an error: the bytes depend on the topic, see `encode_for`."""
        return Decoded(F.lit(None).cast("binary"), F.lit("AvroConverter needs the topic of a record"))

    def encode_for(self, topic: Column, value: Column, schema: Schema | None) -> Encoded:
        """The bytes for the topics that `learn` was called with; null for null."""
        known = {name: target for (of, name), target in self._targets.items() if of == schema}
        nothing = F.lit(None if schema is None or schema.optional else _NULL_REFUSED).cast("string")
        made, error = F.when(value.isNull(), F.lit(None).cast("binary")), F.when(value.isNull(), nothing)
        ways = {id(target.encoding): target.encoding for target in known.values() if target.encoding is not None}
        for way in ways.values():
            prefixes = {name: target.prefix for name, target in known.items() if target.encoding is way}
            here = topic.isin(*prefixes)
            if way.nulls is not None:
                refused = here & way.nulls(value)
                made, error = made.when(refused, F.lit(None)), error.when(refused, F.lit(_NULL_REFUSED))
            if way.misfits is not None:
                misfit = F.concat(F.lit("Failed to serialize Avro data from topic "), topic, F.lit(_MISFIT))
                refused = here & way.misfits(value)
                made, error = made.when(refused, F.lit(None)), error.when(refused, misfit)
            made = made.when(here, F.concat(_by_topic(topic, prefixes), encoded(value, way)))
        for name, target in known.items():
            if target.refusal is not None:
                error = error.when(topic == name, F.lit(target.refusal))
        unknown = value.isNotNull() & ~topic.isin(*known) if known else value.isNotNull()
        return Encoded(made, error, unknown)

    def learn(self, topic: str, schema: Schema | None) -> None:
        """Asks the registry for the schema to write the topic's records with."""
        if (schema, topic) not in self._targets:
            self._targets[schema, topic] = self._target(topic, schema)

    def registered(self, topic: str, schema: Schema | None) -> RegisteredSchema | None:
        """The schema that the topic's records are written with, and the registry's answer."""
        return self._asked.get((schema, topic))

    def refresh(self) -> bool:
        """Repeats refused look-ups after half a minute, those of a latest version after `latest.cache.ttl.sec`."""
        changed = False
        for (schema, topic), known in list(self._targets.items()):
            if known.until_s <= time.monotonic():
                try:
                    found = self._target(topic, schema)
                except RetriableError as error:
                    log.info("Cannot look up the schema for topic %s again now: %s", topic, error)
                    found = replace(known, until_s=time.monotonic() + _REFUSED_S)
                self._targets[schema, topic] = found
                changed |= found != known
        return changed

    def close(self) -> None:
        """Closes the registry's client."""
        self._registry.close()

    def _target(self, topic: str, schema: Schema | None) -> _Target:
        failed = ""
        try:
            tree = avro_tree(schema, self._options)
            text = schema_text(tree)
            failed = f"Failed to serialize Avro data from topic {topic} : "
            subject = self._subject(topic, tree)
            self._asked[schema, topic] = RegisteredSchema(subject, text, None)
            number, registered = self._registered(subject, tree, text)
            known = number if self._registry.is_registered(number) else None
            self._asked[schema, topic] = RegisteredSchema(subject, registered or text, known)
            if (schema, registered or text) not in self._encodings:
                target = tree if registered is None else parsed(registered)
                self._encodings[schema, registered or text] = encoding(schema, target, self._options)
        except (RetriableError, ConfigError):
            raise
        except NameNotAllowed as error:
            return _Target(refusal=f"{error} ({CHANGE_NAMES})", until_s=math.inf)
        except Exception as error:
            if (schema, topic) in self._asked:
                self._asked[schema, topic] = replace(self._asked[schema, topic], refusal=reason_of(error))
            return _Target(refusal=failed + reason_of(error), until_s=time.monotonic() + _REFUSED_S)
        ttl_s = self._values["latest.cache.ttl.sec"] if self._follows_latest else -1
        until_s = math.inf if ttl_s < 0 else time.monotonic() + ttl_s
        return _Target(_MAGIC + number.to_bytes(4, "big"), self._encodings[schema, registered or text], until_s=until_s)

    @property
    def _follows_latest(self) -> bool:
        values = self._values
        named = values["auto.register.schemas"] or values["use.schema.id"] >= 0 or values["use.schema.guid"]
        return not named and bool(self._metadata or values["use.latest.version"])

    def _registered(self, subject: str, tree: Tree, text: str) -> tuple[int, str | None]:
        """The id of the schema to write with, and its text if it is not the record's own schema."""
        values, normalize = self._values, self._values["normalize.schemas"]
        if values["auto.register.schemas"]:
            return self._registry.register(subject, text, normalize), None
        if values["use.schema.id"] >= 0:
            number, found = values["use.schema.id"], self._registry.schema(values["use.schema.id"], subject)
            return number, self._checked(found, tree, text, "id.compatibility.strict")
        if values["use.schema.guid"]:
            found = self._registry.by_guid(values["use.schema.guid"])
            checked = self._checked(found, tree, text, "id.compatibility.strict")
            return self._registry.lookup(subject, found, normalize)[0], checked
        if self._metadata:
            number, _, found = self._registry.latest_with(subject, self._metadata)
            return number, self._checked(found, tree, text, "latest.compatibility.strict")
        if values["use.latest.version"]:
            number, _, found = self._registry.latest(subject)
            return number, self._checked(found, tree, text, "latest.compatibility.strict")
        return self._registry.lookup(subject, text, normalize)[0], None

    def _checked(self, found: str, tree: Tree, text: str, setting: str) -> str:
        """The registered schema. Errors: DataError if `setting` is true and it cannot read the record's own schema."""
        why = next(breaks(parsed(found), tree), None) if self._values[setting] else None
        if why is not None:
            raise DataError(
                f"Incompatible schema {found} for schema {text} ({why}). Set {setting}=false to disable this check"
            )
        return found

    def _subject_of_topic(self, topic: str) -> str | None:
        """The subject, if the strategy names it by the topic alone."""
        named = self._strategy in ("TopicNameStrategy", "AssociatedNameStrategy")
        return f"{topic}-{self._side}" if named else None

    def _subject(self, topic: str, tree: Tree) -> str:
        """The registry's subject for this side of a topic's records, by the configured strategy.

        Errors: DataError if the strategy needs a record's name and the schema is not a record.
        """
        named = self._subject_of_topic(topic)
        if named is not None:
            return named
        others = branches(tree) if isinstance(tree, list) else [tree]
        if len(others) != 1 or not isinstance(others[0], dict) or kind_of(others[0]) != "record":
            raise DataError(
                f"In configuration {self._side}.subject.name.strategy = {self._strategy}, the message {self._side} "
                "must only be a record schema"
            )
        name: str = others[0]["name"]
        return name if self._strategy == "RecordNameStrategy" else f"{topic}-{name}"


_MISFIT: Final = " : a value does not fit its Avro type"


def _is_framed(data: Column) -> Column:
    return F.startswith(data, F.lit(_MAGIC)) & (F.octet_length(data) >= F.lit(PREFIX))


def _unreadable(topic: str) -> str:
    return f"Failed to deserialize data for topic {topic} to Avro: "


def _by_topic(topic: Column, prefixes: Mapping[str, bytes]) -> Column:
    (first, prefix), *others = prefixes.items()
    chosen = F.when(topic == first, F.lit(prefix))
    for name, other in others:
        chosen = chosen.when(topic == name, F.lit(other))
    return chosen if others else F.lit(prefix)
