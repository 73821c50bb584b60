"""A registry by Confluent's protocol: subjects by their strategies, and the schema that is written.

Decided: if the registry does not know the schema under the topic's subject (a mirrored topic), or refuses this client
the look-up, the Connect schema has no version, because Confluent's converter fails there although the data can be read;
loses: nothing.
Decided: headers are read, not written, because a converter makes bytes and no headers; loses: a setting that names the
serializer for headers is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headrace.config.problems import ConfigError
from headrace.converters.registry.client import SchemaRegistry
from headrace.converters.registry.framing import CONFLUENT, ConfluentFraming, id_prefix, named_schema
from headrace.converters.registry.schema_settings import looks_into_headers, metadata, refuse_unserved, strategy
from headrace.converters.registry.schemas import Chosen, Incompatible, RegistrySchema, Schemas
from headrace.plugins.contracts import DataError


class ConfluentSchemas(Schemas):
    """Schemas by Confluent's settings, `values` parsed from `config`; `registry` closes with them."""

    def __init__(
        self, config: Mapping[str, str], values: Mapping[str, Any], side: str, title: str, registry: SchemaRegistry
    ) -> None:
        """`title`: the converter's name in errors. Errors: ConfigError."""
        self._values = values
        self._side = side
        self._strategy = strategy(values, side)
        self._metadata = metadata(values)
        refuse_unserved(config, title)
        self.registry = registry
        self.framing = ConfluentFraming(CONFLUENT, f"__{side}_schema_id" if looks_into_headers(config, side) else None)
        self.most = values["schemas.cache.config"]

    def check(self) -> None:
        """Checks that a registry is at the URL. Errors: ConfigError."""
        self.registry.check()

    def close(self) -> None:
        """Closes the registry's client."""
        self.registry.close()

    def text(self, prefix: bytes, topic: str | None) -> str:
        """The registry's text by id or GUID."""
        named = named_schema(prefix)
        if isinstance(named, str):
            return self.registry.by_guid(named)
        return self.registry.schema(named, None if topic is None else self._subject_of_topic(topic))

    def described(self, prefix: bytes) -> str:
        """The id or the GUID."""
        return f"id {named_schema(prefix)}"

    def version(self, topic: str, found: RegistrySchema[Any]) -> int | None:
        """The version under the topic's subject."""
        try:
            return self.registry.version_of(self.place(topic, found), found.text, self._values["normalize.schemas"])
        except (DataError, ConfigError):
            return None

    def place(self, topic: str, own: RegistrySchema[Any]) -> str:
        """The subject, by the configured strategy."""
        named = self._subject_of_topic(topic)
        if named is not None:
            return named
        if own.record is None:
            raise DataError(
                f"In configuration {self._side}.subject.name.strategy = {self._strategy}, the message {self._side} "
                "must only be a record schema"
            )
        return own.record if self._strategy == "RecordNameStrategy" else f"{topic}-{own.record}"

    def _subject_of_topic(self, topic: str) -> str | None:
        """The subject, if the strategy names it by the topic alone."""
        named = self._strategy in ("TopicNameStrategy", "AssociatedNameStrategy")
        return f"{topic}-{self._side}" if named else None

    def choose(self, topic: str, own: RegistrySchema[Any], incompatible: Incompatible) -> Chosen:
        """The first that the settings name: registered, by id, by GUID, the latest; else it must be there."""
        subject, values, normalize = self.place(topic, own), self._values, self._values["normalize.schemas"]

        def checked(found: str, setting: str) -> str:
            why = incompatible(found) if values[setting] else None
            if why is not None:
                raise DataError(
                    f"Incompatible schema {found} for schema {own.text} ({why}). "
                    f"Set {setting}=false to disable this check"
                )
            return found

        if values["auto.register.schemas"]:
            return Chosen(self.registry.register(subject, own.text, normalize))
        if values["use.schema.id"] >= 0:
            found = self.registry.schema(values["use.schema.id"], subject)
            return Chosen(values["use.schema.id"], checked(found, "id.compatibility.strict"))
        if values["use.schema.guid"]:
            found = checked(self.registry.by_guid(values["use.schema.guid"]), "id.compatibility.strict")
            return Chosen(self.registry.lookup(subject, found, normalize)[0], found)
        if self._metadata or values["use.latest.version"]:
            latest = self.registry.latest_with(subject, self._metadata) if self._metadata else None
            number, _, found = latest or self.registry.latest(subject)
            return Chosen(number, checked(found, "latest.compatibility.strict"))
        return Chosen(self.registry.lookup(subject, own.text, normalize)[0])

    def is_registered(self, schema_id: int) -> bool:
        """False for the stand-in of a schema that the registry would take."""
        return self.registry.is_registered(schema_id)

    def prefix(self, schema_id: int) -> bytes:
        """Zero and the id."""
        return id_prefix(schema_id)

    @property
    def asked_again_s(self) -> float:
        """`latest.cache.ttl.sec`, if the latest schema is written."""
        values = self._values
        named = values["auto.register.schemas"] or values["use.schema.id"] >= 0 or values["use.schema.guid"]
        follows = not named and bool(self._metadata or values["use.latest.version"])
        ttl_s = values["latest.cache.ttl.sec"] if follows else -1
        return math.inf if ttl_s < 0 else ttl_s
