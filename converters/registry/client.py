"""The client of a schema registry that speaks Confluent's protocol: blocking, cached, for any thread.

    registry = SchemaRegistry({"schema.registry.url": "http://localhost:8081"}, standing_alone)
    schema_id = registry.register("orders-value", text)
    registry.schema(schema_id)

Every look-up ends within `http.LONGEST_S`, retries (`max.retries`) and pauses included; in that time each try
has `http.connect.timeout.ms` for a connection and `http.read.timeout.ms` for its answer.
Decided: `mock://` is refused, for it is the memory of a Java program; loses: nothing, a real one is a command away.
Associations are not asked for: where a registry has none it answers 404, and topic names are taken.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from headrace.converters.registry.http import LONGEST_S, RegistryError, RegistryHttp
from headrace.converters.registry.settings import CLIENT_SETTINGS
from headrace.plugins.contracts import DataError

__all__ = ["CLIENT_SETTINGS", "RegistryError", "SchemaRegistry"]

_DEEPEST_REFERENCE: Final = 64
_PATH: Final = re.compile(r"/fields/\d+(?:/[a-z]+(?:/\d+)?)*")

Known = TypeVar("Known")

Inline = Callable[[str, Iterable[str]], str]
"""Makes one text of a schema and of those that it refers to, directly or not. Errors: DataError."""


class SchemaRegistry:
    """Schemas by subject and id. Schema texts go in and come out as the registry has them, references written out.

    Errors: of the constructor ConfigError; of every call RetriableError (no answer after all retries), RegistryError,
    which is a DataError (the registry refuses this schema or knows no such), ConfigError (it does not let this client
    in, or none answers at this URL).
    """

    def __init__(self, config: Mapping[str, str], inline: Inline) -> None:
        values = CLIENT_SETTINGS.parse(config)
        self._inline = inline
        self._http = RegistryHttp(config, values)
        most, ttl = values["max.schemas.per.subject"], values["latest.cache.ttl.sec"]
        self._of_subject: dict[str, _Remembered[Any]] = {}
        self._most_of_subject: int = most
        self._by_id: _Remembered[str] = _Remembered(10 * most)
        self._latest: _Remembered[tuple[int, int, str]] = _Remembered(
            values["latest.cache.size"], None if ttl < 0 else ttl
        )
        # What is written out here is known to the registry as another text with references.
        self._as_registered: _Remembered[Mapping[str, Any]] = _Remembered(10 * most)
        self._no_ids: _Remembered[RegistryError] = _Remembered(
            values["missing.cache.size"], values["missing.id.cache.ttl.sec"]
        )
        self._no_schemas: _Remembered[RegistryError] = _Remembered(
            values["missing.cache.size"], values["missing.schema.cache.ttl.sec"]
        )

    def close(self) -> None:
        """No connection is open; who waits for another try gets RetriableError at once."""
        self._http.close()

    def register(self, subject: str, text: str, normalize: bool = False) -> int:
        """The id of the schema, which is a version of the subject from now on; the same text gives the same id.

        Errors: RegistryError 409 where it is not compatible, naming the field; 422 where it is no valid schema.
        """

        def ask() -> int:
            path = f"/subjects/{_segment(subject)}/versions?normalize={_java(normalize)}"
            try:
                return _number(self._http.post(path, self._body(text)), "id")
            except RegistryError as error:
                raise _naming_fields(error, text) from error

        return self._remembered(subject, ("register", text, normalize), ask)

    def lookup(self, subject: str, text: str, normalize: bool = False) -> tuple[int, int]:
        """The id and version under which the subject has exactly this schema.

        Errors: RegistryError 40401 for an unknown subject, 40403 for an unknown schema.
        """
        return self._find(subject, text, normalize, deleted=False)

    def version_of(self, subject: str, text: str, normalize: bool = False) -> int:
        """The subject's version with exactly this schema, be it deleted."""
        return self._find(subject, text, normalize, deleted=True)[1]

    def _find(self, subject: str, text: str, normalize: bool, deleted: bool) -> tuple[int, int]:
        def ask() -> tuple[int, int]:
            path = f"/subjects/{_segment(subject)}?normalize={_java(normalize)}&deleted={_java(deleted)}"
            answer = self._http.post(path, self._body(text))
            return _number(answer, "id"), _number(answer, "version")

        key = ("find", text, normalize, deleted)
        return self._remembered(subject, key, lambda: self._unless_missed(self._no_schemas, (subject, key), ask))

    def latest(self, subject: str) -> tuple[int, int, str]:
        """The id, version and text of the subject's newest schema, remembered for `latest.cache.ttl.sec`."""
        return self._newest(subject, f"/subjects/{_segment(subject)}/versions/latest")

    def latest_with(self, subject: str, metadata: Mapping[str, str]) -> tuple[int, int, str]:
        """The same of the newest schema that has these metadata."""
        pairs = [(name, text) for key, value in metadata.items() for name, text in (("key", key), ("value", value))]
        return self._newest(subject, f"/subjects/{_segment(subject)}/metadata?{urlencode(pairs, quote_via=quote)}")

    def _newest(self, subject: str, path: str) -> tuple[int, int, str]:
        def ask() -> tuple[int, int, str]:
            answer = self._http.get(path)
            if answer is None:
                raise RegistryError(f"Subject '{subject}' has no such schema", 404, 40402)
            return _number(answer, "id"), _number(answer, "version"), self._text(answer, path)

        return self._latest.get(path, ask)

    def schema(self, schema_id: int, subject: str | None = None) -> str:
        """The text of the schema with this id; the subject says in which context, and helps newer registries.

        Errors: RegistryError 40403 for an unknown id.
        """
        context = subject.split(":")[1] if subject and subject.startswith(":.") else ""
        key = (context, schema_id)

        def ask() -> str:
            named = f"&subject={_segment(subject)}" if subject else ""
            path = f"/schemas/ids/{schema_id}?fetchMaxId=false{named}"
            return self._text(self._http.get(path), path)

        return self._by_id.get(key, lambda: self._unless_missed(self._no_ids, key, ask))

    def by_guid(self, guid: str) -> str:
        """The text of the schema with this GUID, which registries have since version 8."""
        path = f"/schemas/guids/{_segment(guid)}"
        return self._by_id.get(guid, lambda: self._text(self._http.get(path), path))

    def _remembered(self, subject: str, key: Hashable, ask: Callable[[], Known]) -> Known:
        known = self._of_subject.setdefault(subject, _Remembered(self._most_of_subject))
        found: Known = known.get(key, ask)
        return found

    def _unless_missed(self, missed: _Remembered[RegistryError], key: Hashable, ask: Callable[[], Known]) -> Known:
        """What is asked for, unless it was missing shortly before, where that is remembered."""
        if (before := missed.peek(key)) is not None:
            raise RegistryError(before.message, before.status, before.code)
        try:
            return ask()
        except RegistryError as error:
            if error.status == 404:
                missed.put(key, error)
            raise

    def _body(self, text: str) -> Mapping[str, Any]:
        return self._as_registered.peek(text) or {"schema": text}

    def _text(self, answer: Any, path: str) -> str:
        """The schema of an answer, with what it refers to written into it."""
        text: str = _member(answer, "schema", str)
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise DataError(f"The schema that the registry gives for {path} is {kind}, not AVRO")
        if not answer.get("references"):
            return text
        texts: dict[tuple[str, int], str] = {}
        self._follow(answer, texts, 0, time.monotonic() + LONGEST_S)
        alone = self._inline(text, texts.values())
        self._as_registered.put(alone, {"schema": text, "references": answer["references"]})
        return alone

    def _follow(self, answer: Any, texts: dict[tuple[str, int], str], depth: int, until_s: float) -> None:
        if depth > _DEEPEST_REFERENCE:
            raise DataError("The schema's references go deeper than 64 subjects")
        for reference in answer.get("references") or ():
            subject, version = _member(reference, "subject", str), _number(reference, "version")
            if (subject, version) in texts:
                continue
            found = self._http.get(f"/subjects/{_segment(subject)}/versions/{version}?deleted=true", until_s)
            texts[subject, version] = _member(found, "schema", str)
            self._follow(found, texts, depth + 1, until_s)


class _Remembered(Generic[Known]):
    """The values used last, at most `size`, each for at most `ttl_s` seconds."""

    def __init__(self, size: int, ttl_s: float | None = None) -> None:
        self._size = size
        self._ttl_s = ttl_s
        self._entries: OrderedDict[Hashable, tuple[Known, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, ask: Callable[[], Known]) -> Known:
        """The value, asked for where it is not known; two threads may ask at once, which costs a request."""
        found = self.peek(key)
        if found is None:
            found = ask()
            self.put(key, found)
        return found

    def peek(self, key: Hashable) -> Known | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[1] <= time.monotonic():
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Known) -> None:
        until = float("inf") if self._ttl_s is None else time.monotonic() + self._ttl_s
        with self._lock:
            self._entries[key] = (value, until)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


def _naming_fields(error: RegistryError, text: str) -> RegistryError:
    """A refusal of this schema, with the names of the fields that it has only as paths."""
    if error.status != 409:
        return error
    named = {path: name for path in _PATH.findall(error.message) if (name := _field_at(text, path)) is not None}
    if not named:
        return error
    told = ", ".join(f"{path} is field '{name}'" for path, name in named.items())
    return RegistryError(f"{error.message} (in the schema that was sent {told})", error.status, error.code)


def _field_at(text: str, path: str) -> str | None:
    """The dotted name of the field that a path such as `/fields/0/type/fields/2` leads to."""
    names: list[str] = []
    before = ""
    try:
        place: Any = json.loads(text)
        for step in path.strip("/").split("/"):
            place = place[int(step)] if isinstance(place, list) else place[step]
            if before == "fields":
                names.append(str(place["name"]))
            before = step
    except (LookupError, TypeError, ValueError):
        pass  # as far as the path leads
    return ".".join(names) or None


def _segment(text: str) -> str:
    return quote(text, safe="")


def _java(flag: bool) -> str:
    return "true" if flag else "false"


def _number(answer: Any, name: str) -> int:
    return int(_member(answer, name, int))


def _member(answer: Any, name: str, kind: type) -> Any:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, kind):
        raise DataError(f"The schema registry's answer has no {name}: {str(answer)[:200]}")
    return found
