"""Requests to a schema registry's nodes, in turn, retried after retriable errors; and the errors of its answers.

    DataError ── RegistryError    the registry refuses this schema, or does not know it: `_REFUSALS`
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
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import httpx

from headrace.config.settings import ConfigError, Problem
from headrace.config.tls import TlsSettings
from headrace.config.worker.allowed_hosts import AllowedHosts, HostUnknown
from headrace.converters.registry.auth import HttpAnswer, ServerUnavailable, authorization, user_info
from headrace.converters.registry.gated_http import GatedTransport
from headrace.converters.registry.settings import HEADER_PREFIX, PREFIX, masked
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.errors import causes

log = logging.getLogger(__name__)

_NOT_PERMITTED: Final = 42205
_REFUSALS: Final[Mapping[int, Container[object]]] = {
    404: range(40401, 40404),  # no such subject, version, schema
    409: {409, *range(40901, 41000)},  # Apicurio and old registries repeat the status
    422: {*range(42201, 42300)} - {_NOT_PERMITTED},
}
"""The registry's error codes, by status, that blame this schema or the record's schema id."""
_LARGEST_BYTES: Final = 8 << 20
"""The largest answer; parsed JSON takes up to some 20 times as much. Registries accept schemas of 1 MB."""
_OTHER_URL: Final = "Check host, port and path; Apicurio's is /apis/ccompat/v7."
LONGEST_S: Final = 60.0
"""The longest look-up with all retries: a task that waits longer loses its partitions (max.poll.interval.ms)."""
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_HEADERS: Final = {
    "Content-Type": _TYPE,
    "Accept": f"{_TYPE}, application/vnd.schemaregistry+json, application/json",
    "Confluent-Accept-Unknown-Properties": "true",
    # The size of a decompressed answer cannot be limited before it is in memory.
    "Accept-Encoding": "identity",
}


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


class _RegistryNode(NamedTuple):
    url: str
    user_info: str


class RegistryHttp:
    """Requests to one registry's nodes, from any thread; `values` are the parsed `CLIENT_SETTINGS` of `config`.

    Errors: ConfigError.
    """

    def __init__(self, config: Mapping[str, str], values: Mapping[str, Any], allowed: AllowedHosts) -> None:
        urls = list(values["schema.registry.url"])
        self._nodes = [_node(url) for url in urls]
        self._current = random.randrange(len(urls)) if values["schema.registry.url.randomize"] else 0
        self._retries: int = values["max.retries"]
        # Fully random pauses: workers that lost the registry at the same time do not retry at the same time.
        self._backoff = Backoff(values["retries.wait.ms"] / 1000, values["retries.max.wait.ms"] / 1000, spread=1.0)
        self._connect_s: float = values["http.connect.timeout.ms"] / 1000
        self._read_s: float = values["http.read.timeout.ms"] / 1000
        self._closed = threading.Event()
        self._headers = _HEADERS | _further_headers(config)
        self._client = httpx.Client(
            transport=GatedTransport(allowed, tls_context(values), _proxy(values)),
            # As in Java's client, proxy and password come from the settings only.
            trust_env=False,
            follow_redirects=False,
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
        return self._call("GET", path, None, until_s, self._retries if retries is None else retries)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer's JSON. Errors: as for the module."""
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return self._call("POST", path, text.encode(), None, self._retries)

    def no_registry(self, what: str) -> ConfigError:
        """The error for an answer that no registry gives; `what`: a sentence on the difference."""
        return ConfigError(Problem("schema.registry.url", self._nodes[self._current].url, what, _OTHER_URL))

    def _call(self, method: str, path: str, body: bytes | None, until_s: float | None, retries: int) -> Any:
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
                    answer = self._send(self._nodes[place], method, path, body, until_s)
                    return self._understood(answer, method, path, place)
                except ServerUnavailable as error:
                    failure = error
                    log.debug("%s %s: %s", method, path, error)
                    self._current = (place + 1) % len(self._nodes)
        where = ", ".join(node.url for node in self._nodes)
        why = "it was closed" if self._closed.is_set() else failure or "no time was left for a request"
        raise RetriableError(
            f"The schema registry does not answer {method} {path} at {where}: {why} ({attempt} attempts); "
            "check schema.registry.url and whether the registry runs"
        ) from failure

    def _send(self, node: _RegistryNode, method: str, path: str, body: bytes | None, until_s: float) -> HttpAnswer:
        headers = {**self._headers, **self._authorization(node.user_info, until_s)}
        request = {"url": node.url + path, "content": body, "headers": headers}
        return self._exchange(method, "schema.registry.url", node.url, until_s, request)

    def _fetch(self, url: str, form: Mapping[str, str], login: tuple[str, str], until_s: float) -> HttpAnswer:
        """Posts a form to a server other than the registry, without the registry's headers."""
        where = masked(url)
        try:
            request = {"url": url, "data": form, "auth": login}
            answer = self._exchange("POST", "bearer.auth.issuer.endpoint.url", where, until_s, request)
        except ServerUnavailable as error:
            raise ServerUnavailable(f"the token endpoint {where}: {error}") from error
        if _is_passing(answer.status):
            raise ServerUnavailable(f"the token endpoint {where} answered {answer.status}")
        return answer

    def _exchange(self, method: str, key: str, shown: str, until_s: float, request: Mapping[str, Any]) -> HttpAnswer:
        """Sends one request, limited in time and size; errors name the setting `key` and the URL `shown`."""
        now_s = time.monotonic()
        left_s = until_s - now_s
        if left_s <= 0:
            raise ServerUnavailable("no time was left for a request")
        timeout = httpx.Timeout(min(self._read_s, left_s), connect=min(self._connect_s, left_s))
        try:
            with self._client.stream(method, **request, timeout=timeout) as answer:
                return HttpAnswer(answer.status_code, _body(answer, min(now_s + self._read_s, until_s)))
        except ConfigError as error:
            raise ConfigError([replace(problem, key=key) for problem in error.problems]) from error
        except HostUnknown as error:
            raise ServerUnavailable(str(error)) from error
        except RuntimeError as error:
            if not self._closed.is_set():
                raise
            raise ServerUnavailable("it was closed") from error  # closed by another thread meanwhile
        except httpx.HTTPError as error:
            if (untrusted := _untrusted(error)) is not None:
                remedy = "Set schema.registry.ssl.truststore.location to a store with the certificate of its authority."
                what = f"Its certificate is not trusted: {untrusted.verify_message}."
                raise ConfigError(Problem(key, shown, what, remedy)) from error
            raise ServerUnavailable(
                f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            ) from error

    def _understood(self, answer: HttpAnswer, method: str, path: str, place: int) -> Any:
        if answer.status == 204:
            return None
        found = _json(answer.body)
        if answer.status in (200, 207):
            if found is None:
                raise ServerUnavailable(f"its answer is not JSON: {_excerpt(answer.body)}")
            return found
        own = found if isinstance(found, dict) else {}
        message = str(own.get("message") or f"HTTP status {answer.status}, {_excerpt(answer.body)}")
        if _is_passing(answer.status):
            raise ServerUnavailable(f"it answered {answer.status}: {message}")
        code = own.get("error_code")
        if isinstance(code, int) and code in _REFUSALS.get(answer.status, ()):
            raise RegistryError(message, answer.status, code)
        kind = {403: RegistryForbids, 404: RegistryLacks}.get(answer.status, ConfigError)
        what, remedy = _fault_of_config(answer.status, code, f"{method} {path}", message)
        raise kind(Problem("schema.registry.url", self._nodes[place].url, what, remedy))


def _is_passing(status: int) -> bool:
    """True if another attempt may succeed after this status."""
    return status in (408, 429) or status >= 500


def _fault_of_config(status: int, code: object, request: str, message: str) -> tuple[str, str]:
    """The config's fault by an answer, and its remedy."""
    if status in (401, 403):
        known = "does not accept the login" if status == 401 else "does not allow it"
        remedy = (
            "Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info=user:password (or bearer.auth.*) to "
            "a login that may do this."
        )
        return f"It answered {status} to {request}: the registry {known}: {message}.", remedy
    if 300 <= status < 400 or status == 407:
        hint = "The proxy asks for a login" if status == 407 else "It redirects to another URL"
        return f"{hint}: {status} to {request}.", "Name the registry's own URL."
    if code == _NOT_PERMITTED:
        remedy = "Set the mode of the registry, or of the subject, to READWRITE; or auto.register.schemas=false."
        return f"It permits no such change now: {status} to {request}: {message}; error code: {code}.", remedy
    return f"No schema registry answers there: {status} to {request}: {message}.", _OTHER_URL


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


def _proxy(values: Mapping[str, Any]) -> str | None:
    host, port = values["proxy.host"], values["proxy.port"]
    if bool(host) != bool(port):
        missing = "proxy.port" if host else "proxy.host"
        raise ConfigError(Problem(missing, None, "The proxy needs host and port.", f"Give {missing}, or neither."))
    return f"http://{host}:{port}" if host else None


def _body(answer: httpx.Response, deadline: float) -> bytes:
    """The whole body, limited in time and size; httpx limits only the time of each read."""
    body = bytearray()
    encoding = answer.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ServerUnavailable(f"its answer is compressed ({encoding}), which it was not asked for")
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > _LARGEST_BYTES:
            raise ServerUnavailable(f"its answer is larger than {_LARGEST_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                "its answer took longer than http.read.timeout.ms, or than the rest of the look-up's time"
            )
    return bytes(body)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _excerpt(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace")) if body else "no text"


def _untrusted(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """The certificate error that caused httpx's error; None if there is none."""
    found = (one for one in causes(error, contexts=True) if isinstance(one, ssl.SSLCertVerificationError))
    return next(found, None)


def tls_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """The context for `schema.registry.ssl.*`; without a trust store it trusts the system's certificates.

    Errors: ConfigError.
    """
    own = {key.removeprefix(PREFIX): value for key, value in values.items() if key.startswith(f"{PREFIX}ssl.")}
    return TlsSettings(own, PREFIX).client_context()
