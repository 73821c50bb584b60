"""Client of an Apicurio Registry by its own API, v2 or v3: schemas by id, artifacts by group and name.

Decided: the registry's own API, not Confluent's that it speaks as well, because only this one knows global ids, schemas
of Kafka Connect, and what `auto-register.if-exists` says; loses: a second client.
Decided: v2 and v3, because registries of 2.x have no v3, and v2 is deprecated in 3.x; loses: thirty lines.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.converters.apicurio.connection import OWN, URL
from headrace.converters.registry.http import LONGEST_S, Protocol, RegistryError, RegistryForbids, RegistryHttp
from headrace.converters.registry.settings import CLIENT_SETTINGS
from headrace.plugins.contracts import DataError, RetriableError

log = logging.getLogger(__name__)

_CHECK_S: Final = 2.0
_NO_ID: Final = 0
_MOST_FOUND: Final = 100
_DEEPEST_REFERENCE: Final = 64
_LONGEST_REFERENCED: Final = 16 << 20
"""Characters of all schemas that a schema refers to."""
_REFUSALS: Final = {
    "ArtifactAlreadyExistsException",
    "ArtifactNotFoundException",
    "ContentAlreadyExistsException",
    "ContentNotFoundException",
    "GroupNotFoundException",
    "InvalidArtifactIdException",
    "InvalidArtifactStateException",
    "InvalidArtifactTypeException",
    "InvalidContentException",
    "InvalidGroupIdException",
    "InvalidVersionStateException",
    "RuleViolationException",
    "VersionAlreadyExistsException",
    "VersionNotFoundException",
}
"""The registry's names for errors that blame this schema or the record's schema id."""
_READ_ONLY: Final = "ReadOnlyStorageException"


def _refusal(status: int, answer: Mapping[str, Any]) -> RegistryError | None:
    if answer.get("name") not in _REFUSALS:
        return None
    said = answer.get("message") or answer.get("title") or answer["name"]
    return RegistryError(str(said), status, status)


PROTOCOL: Final = Protocol(
    setting=URL,
    read_setting="a minute",
    trust_setting=f"{OWN}tls.truststore.location",
    headers={"Content-Type": "application/json", "Accept": "*/*"},
    refusal=_refusal,
    read_only=lambda _, answer: answer.get("name") == _READ_ONLY,
    other_url="Check host, port and path; a registry of 3.x is at /apis/registry/v3, one of 2.x at /apis/registry/v2.",
    login="Set apicurio.registry.auth.* to a login that may do this.",
    writable="Make the registry's storage writable; or set apicurio.registry.auto-register=false.",
)


@dataclass(frozen=True)
class Artifact:
    """A place for versions of one schema."""

    group: str
    id: str
    type: str
    """The registry's name of the kind of schema."""
    media_type: str


@dataclass(frozen=True)
class Version:
    """A version of an artifact."""

    ids: Mapping[str, int]
    """Its ids by `contentIds` and `globalIds`."""
    number: str


class CoreClient(ABC):
    """The registry's own API; texts are merged with those that they refer to by the caller.

    Errors: the constructor raises ConfigError. Every call raises RetriableError (no answer after all retries),
    RegistryError (the registry refuses this schema or does not know it), or ConfigError (it refuses this client, or no
    registry answers at this URL).
    """

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, Any]) -> None:
        """`config`: as of `connection.client_config`; `worker`: the worker's settings, which limit hosts."""
        self._http = RegistryHttp(config, CLIENT_SETTINGS.parse(config), AllowedHosts.of(worker), PROTOCOL)

    def close(self) -> None:
        """Closes the connections; a call that waits for its next attempt raises RetriableError at once."""
        self._http.close()

    def check(self) -> None:
        """Checks that a registry is at the URL: asks once, for two seconds at most.

        A registry that is away, or forbids the request, is no error. Errors: ConfigError if something else answers.
        """
        try:
            self._http.get(f"/ids/contentIds/{_NO_ID}", time.monotonic() + _CHECK_S, retries=0)
            raise self._http.no_registry("No schema registry answers there: it has a schema of the id 0.")
        except (RegistryError, RegistryForbids):
            pass  # it is a registry
        except RetriableError as error:
            log.info("The schema registry could not be asked whether it is one: %s", error)

    def content(self, ids: str, number: int) -> tuple[str, list[tuple[str, str]]]:
        """The text with this id, and those that it refers to, with their names; `ids`: contentIds or globalIds."""
        path = f"/ids/{ids}/{number}"
        return self._http.get_text(path), self._referenced(f"{path}/references")

    def _referenced(self, path: str) -> list[tuple[str, str]]:
        """The texts that a schema refers to, directly or not. Errors: also DataError if they are too many."""
        until_s, found = time.monotonic() + LONGEST_S, dict[tuple[str, str], str]()
        waiting = [(path, 0)]
        while waiting:
            path, depth = waiting.pop(0)
            if depth > _DEEPEST_REFERENCE:
                raise DataError("The schema's references go deeper than 64 artifacts")
            for one in self._list(self._http.get(path, until_s)):
                name = self._member(one, "name", str)
                artifact, version = self._member(one, "artifactId", str), self._member(one, "version", str)
                where = self._version_path(one.get("groupId") or "default", artifact, version)
                if (name, where) in found:
                    continue
                found[name, where] = self._http.get_text(self._content_path(where), until_s)
                if sum(map(len, found.values())) > _LONGEST_REFERENCED:
                    most = _LONGEST_REFERENCED >> 20
                    raise DataError(f"The schema's references are longer than {most} Mi characters")
                waiting.append((f"{where}/references", depth + 1))
        return [(name, text) for (name, _), text in found.items()]

    @abstractmethod
    def register(self, artifact: Artifact, text: str, version: str | None, if_exists: str, canonical: bool) -> Version:
        """The version with this text, made if need be; `if_exists`: as `auto-register.if-exists` of 3.x."""

    @abstractmethod
    def would_take(self, artifact: Artifact, text: str, if_exists: str) -> None:
        """Asks if the registry would take the text as a version. Errors: RegistryError if it would not."""

    @abstractmethod
    def find(self, artifact: Artifact, text: str, canonical: bool) -> Version:
        """The newest version with this text. Errors: RegistryError 404 if there is none."""

    @abstractmethod
    def version(self, artifact: Artifact, number: str | None) -> Version:
        """The version of this number, or the latest."""

    @staticmethod
    def _version_path(group: str, artifact: str, version: str) -> str:
        return f"{_artifact_path(group, artifact)}/versions/{segment(version)}"

    @staticmethod
    @abstractmethod
    def _content_path(version_path: str) -> str:
        """The path of a version's text."""

    def _version(self, answer: Any) -> Version:
        ids = {"contentIds": self._member(answer, "contentId", int), "globalIds": self._member(answer, "globalId", int)}
        return Version(ids, str(answer.get("version")))

    def _list(self, answer: Any) -> Sequence[Any]:
        if not isinstance(answer, list):
            raise self._http.no_registry(f"No schema registry answers there: no list, but {str(answer)[:200]}.")
        return answer

    def _member(self, answer: Any, name: str, kind: type) -> Any:
        """This member of an answer. Errors: ConfigError if it is missing: every registry has it."""
        found = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(found, kind):
            what = f"No schema registry answers there: an answer has no {name}: {str(answer)[:200]}."
            raise self._http.no_registry(what)
        return found


class CoreClientV3(CoreClient):
    """The API of registries of 3.x."""

    def register(self, artifact: Artifact, text: str, version: str | None, if_exists: str, canonical: bool) -> Version:
        """The version with this text, made if need be."""
        return self._create(artifact, text, version, {"ifExists": if_exists, "canonical": _java(canonical)})

    def would_take(self, artifact: Artifact, text: str, if_exists: str) -> None:
        """Asks by a dry run."""
        self._create(artifact, text, None, {"ifExists": if_exists, "dryRun": "true"})

    def _create(self, artifact: Artifact, text: str, version: str | None, query: Mapping[str, str]) -> Version:
        first = {"content": {"content": text, "contentType": artifact.media_type, "references": []}}
        numbered = first if version is None else {**first, "version": version}
        body = {"artifactId": artifact.id, "artifactType": artifact.type, "firstVersion": numbered}
        answer = self._http.send(f"/groups/{segment(artifact.group)}/artifacts?{urlencode(query)}", body)
        return self._version(self._member(answer, "version", dict))

    def find(self, artifact: Artifact, text: str, canonical: bool) -> Version:
        """The newest version with this text that is not disabled."""
        query = {
            "groupId": artifact.group,
            "artifactId": artifact.id,
            "artifactType": artifact.type,
            "canonical": _java(canonical),
            "orderby": "globalId",
            "order": "desc",
            "limit": str(_MOST_FOUND),
        }
        path = f"/search/versions?{urlencode(query, quote_via=quote)}"
        answer = self._http.send(path, text, {"Content-Type": artifact.media_type})
        for one in self._member(answer, "versions", list):
            if one.get("state") != "DISABLED":
                return self._version(one)
        raise RegistryError(f"No version of the artifact {artifact.group}/{artifact.id} has this schema", 404, 404)

    def version(self, artifact: Artifact, number: str | None) -> Version:
        """The version of this number, or the latest."""
        where = self._version_path(artifact.group, artifact.id, "branch=latest" if number is None else number)
        return self._version(self._http.get(where))

    @staticmethod
    def _content_path(version_path: str) -> str:
        return f"{version_path}/content"


class CoreClientV2(CoreClient):
    """The API of registries of 2.x, which those of 3.x have as well."""

    _IF_EXISTS: Final = {"FIND_OR_CREATE_VERSION": "RETURN_OR_UPDATE", "CREATE_VERSION": "UPDATE", "FAIL": "FAIL"}

    def register(self, artifact: Artifact, text: str, version: str | None, if_exists: str, canonical: bool) -> Version:
        """The version with this text, made if need be."""
        query = urlencode({"ifExists": self._IF_EXISTS[if_exists], "canonical": _java(canonical)})
        headers = {
            "Content-Type": "application/create.extended+json",
            "X-Registry-ArtifactId": artifact.id,
            "X-Registry-ArtifactType": artifact.type,
            **({} if version is None else {"X-Registry-Version": version}),
        }
        body = {"content": text, "references": []}
        return self._version(self._http.send(f"/groups/{segment(artifact.group)}/artifacts?{query}", body, headers))

    def would_take(self, artifact: Artifact, text: str, if_exists: str) -> None:
        """Asks for a test of the artifact's rules; a new artifact has none."""
        path = f"{_artifact_path(artifact.group, artifact.id)}/test"
        try:
            self._http.send(path, text, {"Content-Type": artifact.media_type}, "PUT")
        except RegistryError as error:
            if error.status != 404:
                raise

    def find(self, artifact: Artifact, text: str, canonical: bool) -> Version:
        """The newest version with this text."""
        path = f"{_artifact_path(artifact.group, artifact.id)}/meta?canonical={_java(canonical)}"
        return self._version(self._http.send(path, text, {"Content-Type": artifact.media_type}))

    def version(self, artifact: Artifact, number: str | None) -> Version:
        """The version of this number, or the latest."""
        where = self._version_path(artifact.group, artifact.id, "latest" if number is None else number)
        return self._version(self._http.get(f"{where}/meta"))

    @staticmethod
    def _content_path(version_path: str) -> str:
        return version_path


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="=")


def _artifact_path(group: str, artifact: str) -> str:
    return f"/groups/{segment(group)}/artifacts/{segment(artifact)}"


def _java(flag: bool) -> str:
    return "true" if flag else "false"
