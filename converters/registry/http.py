"""Requests to a schema registry's nodes, each in turn, retried after retriable errors; and the errors of its answers.

    DataError ── RegistryError    the registry refuses this schema or record (404, 409, 422, …)
    RetriableError                no node answered, or 408, 429, 5xx, after all retries
    ConfigError                   401, 403, a certificate that is not trusted, a URL where no registry answers

Decided: a 404 that is not the registry's own (no JSON) is an error of the configuration, not of the record, where
Confluent's client throws a DataException, because a wrong path in `schema.registry.url` would make every record a dead
letter; loses: nothing, the records are read again.
"""

from __future__ import annotations

import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import httpx

from headrace.config.settings import ConfigError, Problem
from headrace.config.worker.allowed_hosts import AllowedHosts, HostUnknown
from headrace.converters.registry.auth import HttpAnswer, ServerUnavailable, authorization, user_info
from headrace.converters.registry.settings import HEADER_PREFIX, masked
from headrace.converters.registry.tls import tls_context
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.gated_http import GatedTransport

log = logging.getLogger(__name__)

_RETRIABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_LARGEST_BYTES: Final = 64 << 20
LONGEST_S: Final = 60.0
"""Of one look-up with all its retries: a task whose thread waits longer loses its partitions (max.poll.interval.ms)."""
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_HEADERS: Final = {
    "Content-Type": _TYPE,
    "Accept": f"{_TYPE}, application/vnd.schemaregistry+json, application/json",
    "Confluent-Accept-Unknown-Properties": "true",
}


class RegistryError(DataError):
    """A refusal by the registry; `status` is HTTP's, `code` the registry's own (40403: schema not found)."""

    def __init__(self, message: str, status: int, code: int) -> None:
        super().__init__(f"{message}; error code: {code}")
        self.message = message
        self.status = status
        self.code = code


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
        # All of a pause is random: workers that lost the registry at the same time do not retry at the same time.
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

    def get(self, path: str, until_s: float | None = None) -> Any:
        """The JSON of the answer, None for an empty one; until `until_s` (monotonic clock), or within `LONGEST_S`.

        Errors: as the module says.
        """
        return self._call("GET", path, None, until_s)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON of the answer.

        Errors: as the module says.
        """
        return self._call("POST", path, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())

    def _call(self, method: str, path: str, body: bytes | None, until_s: float | None = None) -> Any:
        until_s = time.monotonic() + LONGEST_S if until_s is None else until_s
        failure: Exception | None = None
        attempt = 0
        while attempt <= self._retries:
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
        """Posts a form to a server other than the registry, which gets none of the registry's headers."""
        where = masked(url)
        try:
            request = {"url": url, "data": form, "auth": login}
            answer = self._exchange("POST", "bearer.auth.issuer.endpoint.url", where, until_s, request)
        except ServerUnavailable as error:
            raise ServerUnavailable(f"the token endpoint {where}: {error}") from error
        if answer.status in _RETRIABLE:
            raise ServerUnavailable(f"the token endpoint {where} answered {answer.status}")
        return answer

    def _exchange(self, method: str, key: str, shown: str, until_s: float, request: Mapping[str, Any]) -> HttpAnswer:
        """Sends one request, with bounds of time and size; errors name the setting `key` and the URL `shown`."""
        now_s = time.monotonic()
        left_s = until_s - now_s
        if left_s <= 0:
            raise ServerUnavailable("no time was left for a request")
        timeout = httpx.Timeout(min(self._read_s, left_s), connect=min(self._connect_s, left_s))
        try:
            with self._client.stream(method, **request, timeout=timeout) as answer:
                return HttpAnswer(answer.status_code, _body(answer.iter_bytes(), min(now_s + self._read_s, until_s)))
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
        if answer.status in _RETRIABLE:
            raise ServerUnavailable(f"it answered {answer.status}: {message}")
        problem = _fault_of_config(answer, own, f"{method} {path}", message)
        if problem:
            raise ConfigError(Problem("schema.registry.url", self._nodes[place].url, *problem))
        code = own.get("error_code")
        raise RegistryError(message, answer.status, code if isinstance(code, int) else answer.status)


def _fault_of_config(answer: HttpAnswer, own: Mapping[str, Any], what: str, message: str) -> tuple[str, str] | None:
    if answer.status in (401, 403):
        known = "does not accept the login" if answer.status == 401 else "does not allow it"
        remedy = (
            "Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info=user:password (or bearer.auth.*) to "
            "a login that may do this."
        )
        return f"It answered {answer.status} to {what}: the registry {known}: {message}.", remedy
    if answer.status in (404, 405) and not own and not what.startswith("GET /schemas/guids/"):
        remedy = "Check host, port and path; Apicurio's is /apis/ccompat/v7."
        return f"No schema registry answers there: {answer.status} to {what}: {message}.", remedy
    if 300 <= answer.status < 400 or answer.status == 407:
        hint = "The proxy asks for a login" if answer.status == 407 else "It redirects to another URL"
        return f"{hint}: {answer.status} to {what}.", "Name the registry's own URL."
    return None


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


def _body(chunks: Iterable[bytes], deadline: float) -> bytes:
    """The whole body, within bounds of time and size; httpx limits the time of each read only."""
    body = bytearray()
    for chunk in chunks:
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
    """The certificate error that caused httpx's error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause
