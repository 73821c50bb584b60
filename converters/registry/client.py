"""Client of a schema registry that speaks Confluent's protocol: blocking, with caches, usable from any thread.

    registry = SchemaRegistry({"schema.registry.url": "http://localhost:8081"}, standing_alone)
    schema_id = registry.register("orders-value", text)
    registry.schema(schema_id)

Every look-up ends within `http.LONGEST_S`, retries (`max.retries`) and pauses included. Within that time each attempt
has `http.connect.timeout.ms` for a connection and `http.read.timeout.ms` for its answer.

Decided: our own client, not `confluent_kafka.schema_registry` 2.16 (tried in a wrapper of 231 lines: 62 of this room's
85 tests passed, 10 failed for that client's behaviour, 13 for the form of a request or message), because
- its caches cannot be turned off and give wrong answers: a schema read by its id counts as registered under the
  subject, and a deleted version that was once looked up counts as not deleted;
- it retries on the first node before it asks the second, in each request again (3 to 6 s while that node is away);
  close() does not end its pauses, and nothing limits the time of a look-up or the size of an answer;
- it has no setting for a TLS context, for headers or for ignoring the environment's proxies, so its session would have
  to be replaced in a private attribute; its OAuth needs a scope and a logical cluster, retries a refused login and
  quotes the issuer's answer in the error;
- it cannot read a schema with a rule of an unknown kind, and it encodes metadata twice.
loses: about 200 lines that the wrapper, with all of this mended, would save (350 without); but it needs seven packages
more (authlib, httpx2, cachetools, attrs and their dependencies).
Decided: the check asks for a schema by an id that no registry has, because every registry answers this shortly and to
every login that may read, while a list of subjects can be long or refused; loses: nothing.
Decided: `mock://` is refused, because it is the memory of a Java program; loses: nothing, `headrace registry start`
gives a real registry. Associations are not looked up: a registry without them answers 404, which means topic names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.converters.registry.cache import Cache
from headrace.converters.registry.http import (
    LONGEST_S,
    Protocol,
    RegistryError,
    RegistryForbids,
    RegistryHttp,
    RegistryLacks,
)
from headrace.converters.registry.refusals import explained
from headrace.converters.registry.settings import CLIENT_SETTINGS, PREFIX
from headrace.plugins.contracts import DataError, RetriableError

__all__ = ["CLIENT_SETTINGS", "RegistryError", "SchemaRegistry"]

log = logging.getLogger(__name__)

AVRO: Final = "AVRO"
"""The kind of schemas whose `schemaType` is left out in requests and answers."""
_CHECK_S: Final = 2.0
_NO_ID: Final = 0
_LAST_ID: Final = 2**32 - 1
_DEEPEST_REFERENCE: Final = 64
_LONGEST_REFERENCED: Final = 16 << 20
"""Characters of all schemas that a schema refers to."""

_NOT_PERMITTED: Final = 42205
_REFUSALS: Final[Mapping[int, Container[object]]] = {
    404: range(40401, 40404),  # no such subject, version, schema
    409: {409, *range(40901, 41000)},  # Apicurio and old registries repeat the status
    422: {*range(42201, 42300)} - {_NOT_PERMITTED},
}
"""The registry's error codes, by status, that blame this schema or the record's schema id."""
_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Value = TypeVar("Value")

Inline = Callable[[str, Sequence[tuple[str, str]]], str]
"""Merges a schema's text with those of the schemas it refers to, directly or not: pairs of a reference's name and text.

Errors: DataError.
"""


def _refusal(status: int, answer: Mapping[str, Any]) -> RegistryError | None:
    code = answer.get("error_code")
    if not isinstance(code, int) or code not in _REFUSALS.get(status, ()):
        return None
    return RegistryError(str(answer.get("message") or f"HTTP status {status}"), status, code)


_PROTOCOL: Final = Protocol(
    setting="schema.registry.url",
    read_setting="http.read.timeout.ms",
    trust_setting=f"{PREFIX}ssl.truststore.location",
    headers={
        "Content-Type": _TYPE,
        "Accept": f"{_TYPE}, application/vnd.schemaregistry+json, application/json",
        "Confluent-Accept-Unknown-Properties": "true",
    },
    refusal=_refusal,
    read_only=lambda _, answer: answer.get("error_code") == _NOT_PERMITTED,
    other_url="Check host, port and path; Apicurio's is /apis/ccompat/v7.",
    login="Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info=user:password (or bearer.auth.*) to a "
    "login that may do this.",
    writable="Set the mode of the registry, or of the subject, to READWRITE; or auto.register.schemas=false.",
)


class SchemaRegistry:
    """Schemas of one kind by subject and id. Texts are the registry's own, merged with those that they refer to.

    Errors: the constructor raises ConfigError. Every call raises RetriableError (no answer after all retries),
    RegistryError, a DataError (the registry refuses this schema or does not know it), or ConfigError (it refuses this
    client, or no registry answers at this URL).
    """

    def __init__(
        self,
        config: Mapping[str, str],
        inline: Inline,
        worker: Mapping[str, Any] = MappingProxyType({}),
        only_asks: bool = False,
        kind: str = AVRO,
    ) -> None:
        """`worker`: the worker's settings; their `connector.allowed.hosts` limits the hosts of requests.

        `only_asks`: `register` asks if the registry would take the schema, and registers nothing.
        `kind`: the registry's `schemaType` of all schemas; one of another kind is a DataError.
        """
        values = CLIENT_SETTINGS.parse(config)
        self._inline = inline
        self._kind = kind
        self._http = RegistryHttp(config, values, AllowedHosts.of(worker), _PROTOCOL)
        most, ttl = values["max.schemas.per.subject"], values["latest.cache.ttl.sec"]
        self._only_asks = only_asks
        self._stand_ins: dict[str, int] = {}
        self._of_subject: dict[str, Cache[Any]] = {}
        self._most_of_subject: int = most
        self._by_id: Cache[str] = Cache(10 * most)
        self._latest: Cache[tuple[int, int, str]] = Cache(values["latest.cache.size"], None if ttl < 0 else ttl)
        # By text with references written out: the registry knows such a schema by its own text and references.
        self._as_registered: Cache[Mapping[str, Any]] = Cache(10 * most)
        most_missing = values["missing.cache.size"]
        self._no_ids: Cache[RegistryError] = Cache(most_missing, values["missing.id.cache.ttl.sec"])
        self._no_schemas: Cache[RegistryError] = Cache(most_missing, values["missing.schema.cache.ttl.sec"])

    def close(self) -> None:
        """Closes the connections; a call that waits for its next attempt raises RetriableError at once."""
        self._http.close()

    def check(self) -> None:
        """Checks that a registry is at the URL: asks once, for two seconds at most.

        A registry that is away, or forbids the request, is no error. Errors: ConfigError if something else answers.
        """
        try:
            answer = self._http.get(f"/schemas/ids/{_NO_ID}?fetchMaxId=false", time.monotonic() + _CHECK_S, retries=0)
            self._member(answer, "schema", str)
        except (RegistryError, RegistryForbids):
            pass  # it is a registry
        except RetriableError as error:
            log.info("The schema registry could not be asked whether it is one: %s", error)

    def register(self, subject: str, text: str, normalize: bool = False) -> int:
        """Registers the schema as a version of the subject and returns its id; the same text has the same id.

        Errors: RegistryError 409 for an incompatible schema, naming the field; 422 for an invalid one.
        """
        if self._only_asks:
            return self._cached(subject, ("ask", text, normalize), lambda: self._would_be(subject, text, normalize))

        def send() -> int:
            path = f"/subjects/{segment(subject)}/versions?normalize={_java(normalize)}"
            try:
                return self._number(self._http.send(path, self._body(text)), "id")
            except RegistryError as error:
                raise explained(error, text) from error

        return self._cached(subject, ("register", text, normalize), send)

    def _would_be(self, subject: str, text: str, normalize: bool) -> int:
        """The schema's id, or a number in its place if the registry does not have it and would take it.

        Errors: as `register`.
        """
        try:
            return self.lookup(subject, text, normalize)[0]
        except RegistryError as error:
            if error.status != 404:
                raise
        path = f"/compatibility/subjects/{segment(subject)}/versions?verbose=true&normalize={_java(normalize)}"
        try:
            answer = self._http.send(path, self._body(text))
        except RegistryError as error:
            if error.status != 404:
                raise explained(error, text) from error
        else:
            if not self._member(answer, "is_compatible", bool):
                why = "; ".join(map(str, answer.get("messages") or ())) or "the registry does not say why"
                raise explained(RegistryError(f"Schema being registered is incompatible: {why}", 409, 409), text)
        number = self._stand_ins.setdefault(text, _LAST_ID - len(self._stand_ins))
        self._by_id.put(("", number), text)
        return number

    def is_registered(self, schema_id: int) -> bool:
        """False for a number that `register` gave in place of the id of a schema that the registry does not have."""
        return schema_id not in self._stand_ins.values()

    def lookup(self, subject: str, text: str, normalize: bool = False) -> tuple[int, int]:
        """The id and version of exactly this schema under the subject.

        Errors: RegistryError 40401 for an unknown subject, 40403 for an unknown schema.
        """
        return self._find(subject, text, normalize, deleted=False)

    def version_of(self, subject: str, text: str, normalize: bool = False) -> int:
        """The subject's version with exactly this schema, deleted versions included."""
        return self._find(subject, text, normalize, deleted=True)[1]

    def _find(self, subject: str, text: str, normalize: bool, deleted: bool) -> tuple[int, int]:
        def send() -> tuple[int, int]:
            path = f"/subjects/{segment(subject)}?normalize={_java(normalize)}&deleted={_java(deleted)}"
            answer = self._http.send(path, self._body(text))
            return self._number(answer, "id"), self._number(answer, "version")

        key = ("find", text, normalize, deleted)
        return self._cached(subject, key, lambda: self._unless_missed(self._no_schemas, (subject, key), send))

    def latest(self, subject: str) -> tuple[int, int, str]:
        """The id, version and text of the subject's latest schema, cached for `latest.cache.ttl.sec`."""
        path = f"/subjects/{segment(subject)}/versions/latest"
        return self._latest.get(path, lambda: self._version(self._http.get(path), path))

    def latest_with(self, subject: str, metadata: Mapping[str, str]) -> tuple[int, int, str]:
        """The id, version and text of the subject's latest schema with this metadata, cached as `latest`."""
        pairs = [(name, text) for key, value in metadata.items() for name, text in (("key", key), ("value", value))]
        path = f"/subjects/{segment(subject)}/metadata?{urlencode(pairs, quote_via=quote)}"

        def send() -> tuple[int, int, str]:
            answer = self._http.get(path)
            if answer is None:  # Apicurio answers 204
                raise RegistryError(f"Subject '{subject}' has no such schema", 404, 40402)
            return self._version(answer, path)

        return self._latest.get(path, send)

    def _version(self, answer: Any, path: str) -> tuple[int, int, str]:
        return self._number(answer, "id"), self._number(answer, "version"), self._text(answer, path)

    def schema(self, schema_id: int, subject: str | None = None) -> str:
        """The text of the schema with this id; the subject selects the registry's context.

        Errors: RegistryError 40403 for an unknown id.
        """
        context = subject.split(":")[1] if subject and subject.startswith(":.") else ""
        key = (context, schema_id)

        def send() -> str:
            named = f"&subject={segment(subject)}" if subject else ""
            path = f"/schemas/ids/{schema_id}?fetchMaxId=false{named}"
            return self._text(self._http.get(path), path)

        return self._by_id.get(key, lambda: self._unless_missed(self._no_ids, key, send))

    def by_guid(self, guid: str) -> str:
        """The text of the schema with this GUID. Errors: DataError if the registry has none, as before version 8."""
        path = f"/schemas/guids/{segment(guid)}"
        try:
            return self._by_id.get(guid, lambda: self._text(self._http.get(path), path))
        except RegistryLacks as error:  # any bytes may name a GUID, so that this is no fault of the config
            raise DataError(f"The schema registry cannot look up the GUID {guid}: {error}") from error

    def _cached(self, subject: str, key: Hashable, send: Callable[[], Value]) -> Value:
        cache = self._of_subject.setdefault(subject, Cache(self._most_of_subject))
        found: Value = cache.get(key, send)
        return found

    def _unless_missed(self, missed: Cache[RegistryError], key: Hashable, send: Callable[[], Value]) -> Value:
        """Sends the request unless `missed` holds an answer that the schema is unknown."""
        if (before := missed.peek(key)) is not None:
            raise RegistryError(before.message, before.status, before.code)
        try:
            return send()
        except RegistryError as error:
            if error.status == 404:
                missed.put(key, error)
            raise

    def _body(self, text: str) -> Mapping[str, Any]:
        return self._as_registered.peek(text) or self._sent(text)

    def _sent(self, text: str) -> dict[str, Any]:
        """The request's body for a schema."""
        return {"schema": text} | ({} if self._kind == AVRO else {"schemaType": self._kind})

    def _text(self, answer: Any, path: str) -> str:
        """An answer's schema, merged with the schemas that it refers to."""
        text: str = self._member(answer, "schema", str)
        kind = answer.get("schemaType") or AVRO
        if kind != self._kind:
            raise DataError(f"The schema that the registry gives for {path} is {kind}, not {self._kind}")
        if not answer.get("references"):
            return text
        referenced: dict[tuple[str, str, int], str] = {}
        self._follow(answer, referenced, 0, time.monotonic() + LONGEST_S)
        alone = self._inline(text, [(name, found) for (name, _, _), found in referenced.items()])
        self._as_registered.put(alone, {**self._sent(text), "references": answer["references"]})
        return alone

    def _follow(self, answer: Any, texts: dict[tuple[str, str, int], str], depth: int, until_s: float) -> None:
        if depth > _DEEPEST_REFERENCE:
            raise DataError("The schema's references go deeper than 64 subjects")
        for reference in answer.get("references") or ():
            name, subject = self._member(reference, "name", str), self._member(reference, "subject", str)
            version = self._number(reference, "version")
            if (name, subject, version) in texts:
                continue
            found = self._http.get(f"/subjects/{segment(subject)}/versions/{version}?deleted=true", until_s)
            texts[name, subject, version] = self._member(found, "schema", str)
            if sum(map(len, texts.values())) > _LONGEST_REFERENCED:
                raise DataError(f"The schema's references are longer than {_LONGEST_REFERENCED >> 20} Mi characters")
            self._follow(found, texts, depth + 1, until_s)

    def _number(self, answer: Any, name: str) -> int:
        return int(self._member(answer, name, int))

    def _member(self, answer: Any, name: str, kind: type) -> Any:
        """This member of an answer. Errors: ConfigError if it is missing: every registry has it."""
        found = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(found, kind):
            raise self._http.no_registry(
                f"No schema registry answers there: an answer has no {name}: {str(answer)[:200]}."
            )
        return found


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


def _java(flag: bool) -> str:
    return "true" if flag else "false"
