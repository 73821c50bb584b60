"""Requests to a schema registry's nodes, in turn, retried after retriable errors; and the errors of its answers.

    DataError ── RegistryError    the registry refuses this schema, or does not know it: `Protocol.refusal`
    RetriableError                no node answered, or 408, 429, 5xx, after all retries
    ConfigError                   every other answer: 401, 403, a certificate that is not trusted, no registry there

Decided: only a registry's own error codes count against a record, while Confluent's client throws a DataException for
every answer, because with a wrong path in `schema.registry.url` every record would become a dead letter; loses:
nothing, the records are read again.
"""

from __future__ import annotations

import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from headrace.config.settings import ConfigError, Problem
from headrace.config.tls import TlsSettings
from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.converters.registry.auth import authorization, user_info
from headrace.converters.registry.settings import HEADER_PREFIX, PREFIX
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.interop.http.client import HttpAnswer, HttpClient, Proxy, ServerUnavailable, basic_header, masked

log = logging.getLogger(__name__)

LONGEST_S: Final = 60.0
"""The longest look-up with all retries: a task that waits longer loses its partitions (max.poll.interval.ms)."""


class RegistryError(DataError):
    """A refusal by the registry; `status` is HTTP's, `code` the registry's own (40403: schema not found)."""

    def __init__(self, message: str, status: int, code: int) -> None:
        super().__init__(f"{message}; error code: {code}")
        self.message = message
        self.status = status
        self.code = code


class RegistryForbids(ConfigError):
    """The registry forbids this request to this login; it may allow others."""


class RegistryLacks(ConfigError):
    """The server has no such path."""


@dataclass(frozen=True)
class Protocol:
    """The requests of one protocol of registries, and the meaning of their answers."""

    setting: str
    """The setting with the registry's URL."""
    read_setting: str
    """The setting with the time for an answer, as errors name it."""
    trust_setting: str
    """The setting with the registry's trust store."""
    headers: Mapping[str, str]
    refusal: Callable[[int, Mapping[str, Any]], RegistryError | None]
    """The refusal of a schema in an answer of this status with this JSON; None if it says something else."""
    read_only: Callable[[int, Mapping[str, Any]], bool]
    """True for the answer of a registry that takes no changes now."""
    other_url: str
    """The remedy if no registry answers."""
    login: str
    """The remedy if it does not accept the login."""
    writable: str
    """The remedy if it takes no changes."""


class _RegistryNode(NamedTuple):
    url: str
    user_info: str


class RegistryHttp:
    """Requests to one registry's nodes, from any thread; `values` are the parsed `CLIENT_SETTINGS` of `config`.

    Errors: ConfigError.
    """

    def __init__(
        self, config: Mapping[str, str], values: Mapping[str, Any], allowed: AllowedHosts, protocol: Protocol
    ) -> None:
        self._protocol = protocol
        urls = list(values["schema.registry.url"])
        self._nodes = [_node(url) for url in urls]
        self._current = random.randrange(len(urls)) if values["schema.registry.url.randomize"] else 0
        self._retries: int = values["max.retries"]
        # Fully random pauses: workers that lost the registry at the same time do not retry at the same time.
        self._backoff = Backoff(values["retries.wait.ms"] / 1000, values["retries.max.wait.ms"] / 1000, spread=1.0)
        self._closed = threading.Event()
        self._headers = {**protocol.headers, **_further_headers(config)}
        self._client = HttpClient(
            allowed,
            connect_s=values["http.connect.timeout.ms"] / 1000,
            read_s=values["http.read.timeout.ms"] / 1000,
            context=tls_context(values),
            proxy=_proxy(values),
            read_setting=protocol.read_setting,
            trust_setting=protocol.trust_setting,
        )
        self._authorization = authorization(config, values, self._fetch)

    def close(self) -> None:
        """Closes the connections and ends every wait for the next attempt."""
        self._closed.set()
        self._client.close()

    def get(self, path: str, until_s: float | None = None, retries: int | None = None) -> Any:
        """The answer's JSON, None if empty; until `until_s` (monotonic clock), or within `LONGEST_S`.

        `retries`: used instead of `max.retries`. Errors: as for the module.
        """
        return self._call(_Request("GET", path), until_s, self._retries if retries is None else retries)

    def get_text(self, path: str, until_s: float | None = None) -> str:
        """The answer as it is. Errors: as for the module."""
        found = self._call(_Request("GET", path, is_text=True), until_s, self._retries)
        return str(found)

    def send(
        self, path: str, body: Mapping[str, Any] | str, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Any:
        """The answer's JSON to a body in JSON, or to a text. Errors: as for the module."""
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return self._call(_Request(method, path, text.encode(), headers or {}), None, self._retries)

    def no_registry(self, what: str) -> ConfigError:
        """The error for an answer that no registry gives; `what`: a sentence on the difference."""
        node = self._nodes[self._current].url
        return ConfigError(Problem(self._protocol.setting, node, what, self._protocol.other_url))

    def _call(self, asked: _Request, until_s: float | None, retries: int) -> Any:
        until_s = time.monotonic() + LONGEST_S if until_s is None else until_s
        failure: Exception | None = None
        attempt = 0
        while attempt <= retries:
            pause_s = min(self._backoff.pause(attempt), until_s - time.monotonic()) if attempt else 0
            if self._closed.wait(pause_s) or time.monotonic() >= until_s:
                break
            attempt += 1
            for _ in self._nodes:
                place = self._current
                try:
                    answer = self._send(self._nodes[place], asked, until_s)
                    return self._understood(answer, asked, place)
                except ServerUnavailable as error:
                    failure = error
                    log.debug("%s: %s", asked, error)
                    self._current = (place + 1) % len(self._nodes)
        where = ", ".join(node.url for node in self._nodes)
        why = "it was closed" if self._closed.is_set() else failure or "no time was left for a request"
        raise RetriableError(
            f"The schema registry does not answer {asked} at {where}: {why} ({attempt} attempts); "
            f"check {self._protocol.setting} and whether the registry runs"
        ) from failure

    def _send(self, node: _RegistryNode, asked: _Request, until_s: float) -> HttpAnswer:
        headers = {**self._headers, **asked.headers, **self._authorization(node.user_info, until_s)}
        url, key = node.url + asked.path, self._protocol.setting
        return self._client.exchange(asked.method, url, key=key, headers=headers, body=asked.body, until_s=until_s)

    def _fetch(self, url: str, form: Mapping[str, str], login: tuple[str, str], until_s: float) -> HttpAnswer:
        """Posts a form to a server other than the registry, without the registry's headers."""
        where, key = masked(url), "bearer.auth.issuer.endpoint.url"
        headers = {"Content-Type": "application/x-www-form-urlencoded", **basic_header(":".join(login))}
        body = urlencode(form).encode()
        try:
            answer = self._client.exchange("POST", url, key=key, headers=headers, body=body, until_s=until_s)
        except ServerUnavailable as error:
            raise ServerUnavailable(f"the token endpoint {where}: {error}") from error
        if _is_passing(answer.status):
            raise ServerUnavailable(f"the token endpoint {where} answered {answer.status}")
        return answer

    def _understood(self, answer: HttpAnswer, asked: _Request, place: int) -> Any:
        if answer.status == 204:
            return None
        if answer.status == 200 and asked.is_text:
            return _text(answer.body)
        found = _json(answer.body)
        if answer.status in (200, 207):
            if found is None:
                raise ServerUnavailable(f"its answer is not JSON: {_excerpt(answer.body)}")
            return found
        own = found if isinstance(found, dict) else {}
        said = own.get("message") or own.get("title")
        message = str(said or f"HTTP status {answer.status}, {_excerpt(answer.body)}")
        if _is_passing(answer.status):
            raise ServerUnavailable(f"it answered {answer.status}: {message}")
        if (refusal := self._protocol.refusal(answer.status, own)) is not None:
            raise refusal
        kind = {403: RegistryForbids, 404: RegistryLacks}.get(answer.status, ConfigError)
        what, remedy = self._fault(answer.status, own, str(asked), message)
        raise kind(Problem(self._protocol.setting, self._nodes[place].url, what, remedy))

    def _fault(self, status: int, own: Mapping[str, Any], request: str, message: str) -> tuple[str, str]:
        """The config's fault by an answer, and its remedy."""
        if status in (401, 403):
            known = "does not accept the login" if status == 401 else "does not allow it"
            return f"It answered {status} to {request}: the registry {known}: {message}.", self._protocol.login
        if 300 <= status < 400 or status == 407:
            hint = "The proxy asks for a login" if status == 407 else "It redirects to another URL"
            return f"{hint}: {status} to {request}.", "Name the registry's own URL."
        if self._protocol.read_only(status, own):
            code = f"; error code: {own['error_code']}" if "error_code" in own else ""
            what = f"It permits no such change now: {status} to {request}: {message}{code}."
            return what, self._protocol.writable
        return f"No schema registry answers there: {status} to {request}: {message}.", self._protocol.other_url


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False
    """True if a good answer is no JSON."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _is_passing(status: int) -> bool:
    """True if another attempt may succeed after this status."""
    return status in (408, 429) or status >= 500


def _node(url: str) -> _RegistryNode:
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return _RegistryNode(f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}".rstrip("/"), user_info(url))


def _further_headers(config: Mapping[str, str]) -> dict[str, str]:
    headers = {key.removeprefix(HEADER_PREFIX): value for key, value in config.items() if key.startswith(HEADER_PREFIX)}
    for name, value in headers.items():
        if not name or not (name + value).isprintable() or not (name + value).isascii() or " " in name:
            what = "It is not an HTTP header: it may have printable ASCII characters only."
            raise ConfigError(Problem(HEADER_PREFIX + name, None, what, "Write the value in one line of ASCII."))
    return headers


def _proxy(values: Mapping[str, Any]) -> Proxy | None:
    host, port = values["proxy.host"], values["proxy.port"]
    if bool(host) != bool(port):
        missing = "proxy.port" if host else "proxy.host"
        raise ConfigError(Problem(missing, None, "The proxy needs host and port.", f"Give {missing}, or neither."))
    return Proxy(host, port) if host else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise DataError("The registry's schema is not text in UTF-8") from None


def _excerpt(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace")) if body else "no text"


def tls_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """The context for `schema.registry.ssl.*`; without a trust store it trusts the system's certificates.

    Errors: ConfigError.
    """
    own = {key.removeprefix(PREFIX): value for key, value in values.items() if key.startswith(f"{PREFIX}ssl.")}
    return TlsSettings(own, PREFIX).client_context()
