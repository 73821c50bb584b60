"""The schemas of Apicurio's converters: artifacts by their strategies, and the version that is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headrace.config.problems import ConfigError, Problem
from headrace.converters.apicurio.client import Artifact, CoreClient, CoreClientV2, CoreClientV3, Version
from headrace.converters.apicurio.connection import OWN, by_own_names, client_config, core_url
from headrace.converters.apicurio.framing import ApicurioFraming, forms
from headrace.converters.apicurio.settings import RECORDS, TOPICS, ApicurioOptions, apicurio_options
from headrace.converters.registry.cache import Cache
from headrace.converters.registry.client import Inline
from headrace.converters.registry.converter import RegistryConverter
from headrace.converters.registry.http import RegistryError
from headrace.converters.registry.schemas import Chosen, Form, Incompatible, RegistrySchema, Schemas
from headrace.plugins.contracts import DataError

_DEFAULT_GROUP: Final = "default"
_LAST_ID: Final = 2**31 - 1


class ApicurioSchemas(Schemas):
    """Schemas by Apicurio's settings; `client` closes with them."""

    def __init__(
        self,
        client: CoreClient,
        options: ApicurioOptions,
        kind: str,
        media_type: str,
        framing: ApicurioFraming,
        side: str,
        most: int,
        inline: Inline,
        only_asks: bool,
    ) -> None:
        """`kind`: the registry's name of the kind of schemas; `side`: key or value."""
        self._client = client
        self._options = options
        self._kind = kind
        self._media_type = media_type
        self._side = side
        self._inline = inline
        self._only_asks = only_asks
        self._stand_ins: dict[str, int] = {}
        self._texts: Cache[str] = Cache(most)
        self.framing: ApicurioFraming = framing
        self.most = most

    def check(self) -> None:
        """Checks that a registry is at the URL. Errors: ConfigError."""
        self._client.check()

    def close(self) -> None:
        """Closes the registry's client."""
        self._client.close()

    def text(self, prefix: bytes, topic: str | None) -> str:
        """The registry's text by the id of its content, or by its global id."""
        kind, number = self.framing.named(prefix)
        if number == 0 and self._options.sizes == (4,):
            raise DataError(
                f"The id is 0: ids of eight bytes are read with {OWN}id-handler=Legacy8ByteIdHandler, "
                "or OptimisticFallbackIdHandler for ids of both sizes"
            )
        return self._text(kind, number)

    def _text(self, kind: str, number: int) -> str:
        def ask() -> str:
            text, referenced = self._client.content(kind, number)
            return self._inline(text, referenced) if referenced else text

        return self._texts.get((kind, number), ask)

    def described(self, prefix: bytes) -> str:
        """The id, with its kind."""
        kind, number = self.framing.named(prefix)
        return f"{'content' if kind == 'contentIds' else 'global'} id {number}"

    def place(self, topic: str, own: RegistrySchema[Any]) -> str:
        """The artifact with its group."""
        artifact = self._artifact(topic, own)
        return f"{artifact.group}/{artifact.id}"

    def _artifact(self, topic: str, own: RegistrySchema[Any]) -> Artifact:
        options = self._options
        group, name = None, topic if options.strategy == "SimpleTopicIdStrategy" else f"{topic}-{self._side}"
        if options.strategy in RECORDS:
            if own.record is None:
                raise DataError(f"{OWN}artifact-resolver-strategy={options.strategy} needs the name of a record")
            group, _, name = own.record.rpartition(".")
            if options.strategy == "QualifiedRecordIdStrategy":
                group, name = None, own.record
            elif options.strategy == "TopicRecordIdStrategy":
                name = f"{topic}-{name}"
        return Artifact(
            options.group or group or _DEFAULT_GROUP, options.artifact or name, self._kind, self._media_type
        )

    def choose(self, topic: str, own: RegistrySchema[Any], incompatible: Incompatible) -> Chosen:
        """The first that the settings name: registered, of a version, the latest; else it must be there."""
        self._refuse_headers()
        options, artifact = self._options, self._artifact(topic, own)
        if options.register and self._only_asks:
            return Chosen(self._would_be(artifact, own.text))
        if options.register:
            found = self._client.register(artifact, own.text, options.version, options.if_exists, options.canonical)
            return Chosen(self._id(found))
        if options.latest or options.version is not None:
            number = self._id(self._client.version(artifact, options.version))
            text = self._text(options.use, number)
            if options.strict and (why := incompatible(text)) is not None:
                raise DataError(
                    f"Incompatible schema {text} for schema {own.text} ({why}). "
                    f"Set {OWN}serde.validation-enabled=false to disable this check"
                )
            return Chosen(number, text)
        return Chosen(self._id(self._client.find(artifact, own.text, options.canonical)))

    def _refuse_headers(self) -> None:
        if self._options.headers is not None:
            name = f"{OWN}headers.enabled"
            what = "Records with ids in headers are read, but not written: a converter makes bytes and no headers."
            raise ConfigError(Problem(name, "true", what, f"Set {name}=false to write: ids then stand before values."))

    def _would_be(self, artifact: Artifact, text: str) -> int:
        """The schema's id, or a number in its place if the registry does not have it and would take it."""
        try:
            return self._id(self._client.find(artifact, text, self._options.canonical))
        except RegistryError as error:
            if error.status != 404:
                raise
        self._client.would_take(artifact, text, self._options.if_exists)
        number = self._stand_ins.setdefault(text, _LAST_ID - len(self._stand_ins))
        self._texts.put((self._options.use, number), text)
        return number

    def _id(self, version: Version) -> int:
        number = version.ids[self._options.use]
        if number > _LAST_ID and self._options.sizes[0] == 4:
            raise DataError(f"The id {number} needs eight bytes: set {OWN}id-handler=Legacy8ByteIdHandler")
        return number

    def is_registered(self, schema_id: int) -> bool:
        """False for the stand-in of a schema that the registry would take."""
        return schema_id not in self._stand_ins.values()

    def prefix(self, schema_id: int) -> bytes:
        """Zero and the id."""
        return b"\x00" + schema_id.to_bytes(self._options.sizes[0], "big")

    @property
    def asked_again_s(self) -> float:
        """`check-period-ms`, if the latest version is written."""
        options = self._options
        follows = options.latest and not options.register and options.version is None
        return options.period_s if follows else math.inf


class ApicurioConverter(RegistryConverter[Form]):
    """The part of Apicurio's converters that knows their registry; a format's converter is its other base."""

    media_type: ClassVar[str] = "application/json"
    """The type of the schemas' texts in requests."""
    strategies: ClassVar[tuple[str, ...]] = TOPICS
    """The strategies that name artifacts of this kind."""
    most: ClassVar[str | None] = None
    """The setting for how many schemas are kept; None: the default of all others."""

    def make_schemas(self, config: Mapping[str, str], side: str) -> Schemas:
        """The schemas in the configured registry; `side`: key or value. Errors: ConfigError."""
        values = self._values
        try:
            options = self.adapted(apicurio_options(config, values, side, self.strategies))
            client = (CoreClientV3 if core_url(values)[1] else CoreClientV2)(client_config(config, values), self.worker)
        except ConfigError as error:
            raise by_own_names(error) from error
        framing = self.framing_of(options, side)
        most = 1000 if self.most is None else values[self.most]
        only_asks = bool(self.only_asks)
        return ApicurioSchemas(client, options, self.kind, self.media_type, framing, side, most, self.merged, only_asks)

    def adapted(self, options: ApicurioOptions) -> ApicurioOptions:
        """The options as this format has them."""
        return options

    def framing_of(self, options: ApicurioOptions, side: str) -> ApicurioFraming:
        """The bytes that name a schema."""
        named = forms(options.sizes, options.headers is not None)
        return ApicurioFraming(named, options.use, options.headers)
