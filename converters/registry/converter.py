"""The shared part of converters with schemas in a registry: the schema to write, the schema to read, and the framing.

`RegistryConverter` asks `Schemas` (`schemas.py`), which speak a registry's protocol; what it needs of a format is its
abstract methods. A format's own object of a schema stands in `RegistrySchema.form`.

Decided: the error of unreadable bytes names the topic in which their schema's id was first met, because an expression
does not know its record's topic; loses: the right name if a task reads several topics of one schema.
Decided: the version is that under the subject of the topic in which the id was first met, because an id has one schema
for all topics of a task; loses: the right version if topics share an id and count their versions differently.
"""

from __future__ import annotations

import logging
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, Generic

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace import CONNECT_VERSION
from headrace.config.problems import ConfigError
from headrace.converters.registry.client import SchemaRegistry
from headrace.converters.registry.confluent import ConfluentSchemas
from headrace.converters.registry.schemas import Form, RegistrySchema, Schemas
from headrace.plugins.contracts import Converter, DataError, Decoded, Encoded, RetriableError
from headrace.plugins.extensions import HeaderFraming, RegisteredSchema, TopicEncoding
from headrace.plugins.interop.conversion.decode import reason_of
from headrace.plugins.quick_decoding import QuickDecoding
from headrace.plugins.schema import Schema, uncarried

__all__ = ["UNREADABLE", "RegistryConverter", "RegistrySchema", "Writing"]

log = logging.getLogger(__name__)

UNREADABLE: Final = b""
"""The identity of bytes that name no schema."""
_REFUSED_S: Final = 30.0
"""Seconds until the registry is asked again after a refusal."""
_NULL_REFUSED: Final = "Found null value for non-optional schema"


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
        self._values = self.settings.parse(config)
        self.schemas = self.make_schemas(config, "key" if is_key else "value")
        self._asked: dict[tuple[Schema | None, str], RegisteredSchema] = {}
        self.most_schemas = self.schemas.most
        self._targets: dict[tuple[Schema | None, str], _Target] = {}
        self._writings: dict[tuple[Schema | None, str], Writing] = {}

    def make_schemas(self, config: Mapping[str, str], side: str) -> Schemas:
        """The schemas in the configured registry; `side`: key or value. Errors: ConfigError."""
        registry = SchemaRegistry(config, self.merged, self.worker, bool(self.only_asks), self.kind)
        return ConfluentSchemas(config, self._values, side, self.title, registry)

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

    def before(self, schema_id: int) -> bytes:
        """The bytes before what `writing` makes."""
        return self.schemas.prefix(schema_id)

    # -- reading -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Checks that a schema registry is at the URL. Errors: ConfigError."""
        self.schemas.check()

    def framed(self, data: Column, headers: Column) -> Column:
        """Puts what a header says of the schema before the bytes."""
        return self.schemas.framing.framed(data, headers)

    def identify(self, data: Column) -> Column:
        """The bytes that name the schema."""
        return F.coalesce(self.schemas.framing.column(data), F.lit(UNREADABLE))

    def matches(self, data: Column, identity: bytes) -> Column:
        """Compares the first bytes."""
        if identity == UNREADABLE:
            return self.schemas.framing.column(data).isNull()
        return F.startswith(data, F.lit(identity))

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The registry's schema with this id, and its version under the topic's subject."""
        failed = self.cannot_read.format(topic=topic)
        try:
            _, text = self.named_text(identity, topic)
            found = self.read_text(text, identity)
            schema = self.reading(found, self.schemas.version(topic, found), identity, topic)
            if (why := uncarried(schema)) is not None:
                raise DataError(why)
        except DataError as error:
            raise DataError(f"{failed}{error}") from error
        return schema

    def named_text(self, data: bytes, topic: str | None = None) -> tuple[bytes, str]:
        """The bytes that name the schema, and the registry's text of it.

        Errors: DataError if none is named; those of `Schemas`.
        """
        prefix = data[: self.schemas.framing.length(data)]
        if not prefix:
            raise DataError("Unknown magic byte!")
        return prefix, self.schemas.text(prefix, topic)

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
        self.schemas.close()

    def _target(self, topic: str, schema: Schema | None) -> _Target:
        failed = ""
        try:
            own = self.own_schema(schema)
            failed = self.cannot_write.format(topic=topic)
            place = self.schemas.place(topic, own)
            self._asked[schema, topic] = RegisteredSchema(place, own.text, None)
            chosen = self.schemas.choose(topic, own, partial(self.incompatible, own=own))
            text = own.text if chosen.text is None else chosen.text
            known = chosen.id if self.schemas.is_registered(chosen.id) else None
            self._asked[schema, topic] = RegisteredSchema(place, text, known)
            if (schema, text) not in self._writings:
                self._writings[schema, text] = self.writing(schema, own, chosen.text)
        except (RetriableError, ConfigError):
            raise
        except Exception as error:
            if (schema, topic) in self._asked:
                self._asked[schema, topic] = replace(self._asked[schema, topic], refusal=reason_of(error))
            return _Target(refusal=failed + reason_of(error), until_s=time.monotonic() + _REFUSED_S)
        until_s = time.monotonic() + self.schemas.asked_again_s
        return _Target(self.before(chosen.id), self._writings[schema, text], until_s=until_s)


def _by_topic(topic: Column, prefixes: Mapping[str, bytes]) -> Column:
    (first, prefix), *others = prefixes.items()
    chosen = F.when(topic == first, F.lit(prefix))
    for name, other in others:
        chosen = chosen.when(topic == name, F.lit(other))
    return chosen if others else F.lit(prefix)
