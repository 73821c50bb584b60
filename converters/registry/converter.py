"""The shared part of converters with schemas in a registry: the schema to write, the schema to read, and the framing.

`RegistryConverter` asks the registry; what it needs of a format is its abstract methods. A format's own object of a
schema stands in `RegistrySchema.form`.

Decided: the error of unreadable bytes names the topic in which their schema's id was first met, because an expression
does not know its record's topic; loses: the right name if a task reads several topics of one schema.
Decided: if the registry does not know the schema under the topic's subject (a mirrored topic), or refuses this client
the look-up, the Connect schema has no version, because Confluent's converter fails there although the data can be read;
loses: nothing.
Decided: the version is that under the subject of the topic in which the id was first met, because an id has one schema
for all topics of a task; loses: the right version if topics share an id and count their versions differently.
Decided: headers are read, not written, because a converter makes bytes and no headers; loses: a setting that names the
serializer for headers is refused.
"""

from __future__ import annotations

import logging
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.converters.registry.client import SchemaRegistry
from headrace.converters.registry.framing import id_prefix, named_schema, prefix_column, prefix_length, with_header
from headrace.converters.registry.schema_settings import looks_into_headers, metadata, refuse_unserved, strategy
from headrace.plugins.contracts import Converter, DataError, Decoded, Encoded, RetriableError
from headrace.plugins.extensions import HeaderFraming, RegisteredSchema, TopicEncoding
from headrace.plugins.interop.conversion.decode import reason_of
from headrace.plugins.quick_decoding import QuickDecoding
from headrace.plugins.schema import Schema, uncarried

log = logging.getLogger(__name__)

UNREADABLE: Final = b""
"""The identity of bytes that name no schema."""
_REFUSED_S: Final = 30.0
"""Seconds until the registry is asked again after a refusal."""
_NULL_REFUSED: Final = "Found null value for non-optional schema"

Form = TypeVar("Form")


@dataclass(frozen=True)
class RegistrySchema(Generic[Form]):
    """A schema as the registry knows it."""

    text: str
    form: Form
    record: str | None = None
    """The full name of the record, which some strategies name subjects by; None if values are no records."""


@dataclass(frozen=True)
class Writing:
    """Writes values of one Connect schema in one registered schema."""

    encode: Callable[[Column], Column]
    """Makes the bytes after the prefix from values that are not null; null for a refused value."""
    error: Callable[[Column, Column], Column]
    """Makes the reason from the topic and a refused value."""


@dataclass(frozen=True)
class _Target:
    """The writing of values of one Connect schema for one topic, or the reason to refuse them."""

    prefix: bytes = b""
    writing: Writing | None = None
    refusal: str | None = None
    until_s: float = field(default=math.inf, compare=False)
    """The time to ask the registry again, on the monotonic clock."""


class RegistryConverter(Converter, QuickDecoding, TopicEncoding, HeaderFraming, Generic[Form]):
    """Bytes that name their schema in a registry, before a value of that schema."""

    version: ClassVar[str] = CONNECT_VERSION
    only_asks: bool | None = False
    kind: ClassVar[str]
    """The registry's `schemaType`."""
    title: ClassVar[str]
    """The converter's name in errors."""
    cannot_read: ClassVar[str]
    """The beginning of errors of decoding, with `{topic}`."""
    cannot_write: ClassVar[str]
    """The beginning of errors of encoding, with `{topic}`."""

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Reads the settings; sends no request to the registry. Errors: ConfigError."""
        self._side = "key" if is_key else "value"
        config, self._values = self.parsed(config, self._side)
        self._strategy = strategy(self._values, self._side)
        self._metadata = metadata(self._values)
        self._in_headers = looks_into_headers(config, self._side)
        refuse_unserved(config, self.title)
        self._registry = SchemaRegistry(config, self.merged, self.worker, bool(self.only_asks), self.kind)
        self._asked: dict[tuple[Schema | None, str], RegisteredSchema] = {}
        self.most_schemas = self._values["schemas.cache.config"]
        self._targets: dict[tuple[Schema | None, str], _Target] = {}
        self._writings: dict[tuple[Schema | None, str], Writing] = {}

    def parsed(self, config: Mapping[str, str], side: str) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """The config and its values by Confluent's names; `side`: key or value. Errors: ConfigError."""
        return config, self.settings.parse(config)

    # -- the format ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def merged(self, text: str, referenced: Sequence[tuple[str, str]]) -> str:
        """The schema with those that it refers to, pairs of name and text, as one text. Errors: DataError."""

    @abstractmethod
    def read_text(self, text: str, identity: bytes) -> RegistrySchema[Form]:
        """The registry's schema of these bytes. Errors: DataError."""

    @abstractmethod
    def reading(self, found: RegistrySchema[Form], version: int | None, identity: bytes, topic: str) -> Schema | None:
        """The Connect schema, kept with what reads the bytes of this identity. Errors: DataError."""

    @abstractmethod
    def own_schema(self, schema: Schema | None) -> RegistrySchema[Form]:
        """The schema that values of a Connect schema are registered with. Errors: DataError."""

    @abstractmethod
    def incompatible(self, found: str, own: RegistrySchema[Form]) -> str | None:
        """The reason that a registered schema cannot read data of `own`; None if it can."""

    @abstractmethod
    def writing(self, schema: Schema | None, own: RegistrySchema[Form], found: str | None) -> Writing:
        """Writes values in the registered schema `found`, or in their own. Errors: DataError if it cannot hold them."""

    def keeps_null(self, schema: Schema | None) -> bool:
        """True if a null of this schema has bytes; else it is null, or an error if the schema is not optional."""
        return False

    # -- reading -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Checks that a schema registry is at the URL. Errors: ConfigError."""
        self._registry.check()

    def framed(self, data: Column, headers: Column) -> Column:
        """Puts what a header says of the schema before the bytes."""
        return with_header(data, headers, self._side) if self._in_headers else data

    def identify(self, data: Column) -> Column:
        """The bytes that name the schema."""
        return F.coalesce(prefix_column(data), F.lit(UNREADABLE))

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes."""
        return F.startswith(data, F.lit(identity)) if identity != UNREADABLE else prefix_column(data).isNull()

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The registry's schema with this id, and its version under the topic's subject."""
        failed = self.cannot_read.format(topic=topic)
        try:
            _, text = self.named_text(identity, self._subject_of_topic(topic))
            found = self.read_text(text, identity)
            schema = self.reading(found, self._version(topic, found), identity, topic)
            if (why := uncarried(schema)) is not None:
                raise DataError(why)
        except DataError as error:
            raise DataError(f"{failed}{error}") from error
        return schema

    def named_text(self, data: bytes, subject: str | None = None) -> tuple[bytes, str]:
        """The bytes that name the schema, and the registry's text of it.

        Errors: DataError if none is named; those of `SchemaRegistry`.
        """
        prefix = data[: prefix_length(data)]
        if not prefix:
            raise DataError("Unknown magic byte!")
        named = named_schema(prefix)
        if isinstance(named, str):
            return prefix, self._registry.by_guid(named)
        return prefix, self._registry.schema(named, subject)

    def _version(self, topic: str, found: RegistrySchema[Form]) -> int | None:
        try:
            normalize = self._values["normalize.schemas"]
            return self._registry.version_of(self._subject(topic, found.record), found.text, normalize)
        except (DataError, ConfigError):
            return None

    # -- writing -------------------------------------------------------------------------------------------------------

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Always an error: the bytes depend on the topic, see `encode_for`."""
        return Decoded(F.lit(None).cast("binary"), F.lit(f"{self.title} needs the topic of a record"))

    def encode_for(self, topic: Column, value: Column, schema: Schema | None) -> Encoded:
        """The bytes for the topics that `learn` was called with; null for null, unless the format keeps it."""
        known = {name: target for (of, name), target in self._targets.items() if of == schema}
        ways = {id(target.writing): target.writing for target in known.values() if target.writing is not None}
        nothing = F.lit(None if schema is None or schema.optional else _NULL_REFUSED).cast("string")
        is_null = F.lit(False) if self.keeps_null(schema) else value.isNull()
        made, error = F.when(is_null, F.lit(None).cast("binary")), F.when(is_null, nothing)
        for way in ways.values():
            prefixes = {name: target.prefix for name, target in known.items() if target.writing is way}
            here = topic.isin(*prefixes)
            made = made.when(here, F.concat(_by_topic(topic, prefixes), way.encode(value)))
            error = error.when(here, way.error(topic, value))
        for name, target in known.items():
            if target.refusal is not None:
                error = error.when(topic == name, F.lit(target.refusal))
        unknown = ~is_null & ~topic.isin(*known) if known else ~is_null
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
            own = self.own_schema(schema)
            failed = self.cannot_write.format(topic=topic)
            subject = self._subject(topic, own.record)
            self._asked[schema, topic] = RegisteredSchema(subject, own.text, None)
            number, found = self._registered(subject, own)
            known = number if self._registry.is_registered(number) else None
            self._asked[schema, topic] = RegisteredSchema(subject, found or own.text, known)
            if (schema, found or own.text) not in self._writings:
                self._writings[schema, found or own.text] = self.writing(schema, own, found)
        except (RetriableError, ConfigError):
            raise
        except Exception as error:
            if (schema, topic) in self._asked:
                self._asked[schema, topic] = replace(self._asked[schema, topic], refusal=reason_of(error))
            return _Target(refusal=failed + reason_of(error), until_s=time.monotonic() + _REFUSED_S)
        ttl_s = self._values["latest.cache.ttl.sec"] if self._follows_latest else -1
        until_s = math.inf if ttl_s < 0 else time.monotonic() + ttl_s
        return _Target(id_prefix(number), self._writings[schema, found or own.text], until_s=until_s)

    @property
    def _follows_latest(self) -> bool:
        values = self._values
        named = values["auto.register.schemas"] or values["use.schema.id"] >= 0 or values["use.schema.guid"]
        return not named and bool(self._metadata or values["use.latest.version"])

    def _registered(self, subject: str, own: RegistrySchema[Form]) -> tuple[int, str | None]:
        """The id of the schema to write with, and its text if it is not the record's own schema."""
        values, normalize = self._values, self._values["normalize.schemas"]
        if values["auto.register.schemas"]:
            return self._registry.register(subject, own.text, normalize), None
        if values["use.schema.id"] >= 0:
            number, found = values["use.schema.id"], self._registry.schema(values["use.schema.id"], subject)
            return number, self._checked(found, own, "id.compatibility.strict")
        if values["use.schema.guid"]:
            found = self._registry.by_guid(values["use.schema.guid"])
            checked = self._checked(found, own, "id.compatibility.strict")
            return self._registry.lookup(subject, found, normalize)[0], checked
        if self._metadata:
            number, _, found = self._registry.latest_with(subject, self._metadata)
            return number, self._checked(found, own, "latest.compatibility.strict")
        if values["use.latest.version"]:
            number, _, found = self._registry.latest(subject)
            return number, self._checked(found, own, "latest.compatibility.strict")
        return self._registry.lookup(subject, own.text, normalize)[0], None

    def _checked(self, found: str, own: RegistrySchema[Form], setting: str) -> str:
        """The registered schema. Errors: DataError if `setting` is true and it cannot read the record's own schema."""
        why = self.incompatible(found, own) if self._values[setting] else None
        if why is not None:
            raise DataError(
                f"Incompatible schema {found} for schema {own.text} ({why}). Set {setting}=false to disable this check"
            )
        return found

    # -- subjects ------------------------------------------------------------------------------------------------------

    def _subject_of_topic(self, topic: str) -> str | None:
        """The subject, if the strategy names it by the topic alone."""
        named = self._strategy in ("TopicNameStrategy", "AssociatedNameStrategy")
        return f"{topic}-{self._side}" if named else None

    def _subject(self, topic: str, record: str | None) -> str:
        """The registry's subject for this side of a topic's records, by the configured strategy.

        Errors: DataError if the strategy needs a record's name and the schema is not a record.
        """
        named = self._subject_of_topic(topic)
        if named is not None:
            return named
        if record is None:
            raise DataError(
                f"In configuration {self._side}.subject.name.strategy = {self._strategy}, the message {self._side} "
                "must only be a record schema"
            )
        return record if self._strategy == "RecordNameStrategy" else f"{topic}-{record}"


def _by_topic(topic: Column, prefixes: Mapping[str, bytes]) -> Column:
    (first, prefix), *others = prefixes.items()
    chosen = F.when(topic == first, F.lit(prefix))
    for name, other in others:
        chosen = chosen.when(topic == name, F.lit(other))
    return chosen if others else F.lit(prefix)
