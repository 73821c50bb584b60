"""Requests over HTTP within `connector.allowed.hosts`, bounded in time and size; retries are the caller's.

    with closing(HttpClient(AllowedHosts.of(worker), connect_s=5, read_s=30)) as client:
        answer = client.exchange("GET", "https://example.com/orders", key="url")

Any thread may send; connections are kept and shared. Every status is an answer.

    ServerUnavailable   no answer: no connection, a lost one, a time-out, an answer that is too large or compressed
    UnsendableRequest   the URL or a header cannot be sent, however often it is tried
    ConfigError         a host that is not allowed, a certificate that is not trusted

No error quotes what may be secret: the user, password and query of a URL, and headers.
"""

from __future__ import annotations

import base64
import email.utils
import math
import re
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, NamedTuple

import httpx

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import without_login
from headrace.config.worker.allowed_hosts import HostUnknown
from headrace.plugins.errors import causes
from headrace.plugins.interop.http.gated import GatedTransport, HostGate

LARGEST_BYTES: Final = 8 << 20
"""The largest answer by default; parsed JSON takes up to some 20 times as much."""
REDIRECTS: Final = (301, 302, 303, 307, 308)
_MOST_REDIRECTS: Final = 10
_HEADERS: Final = {
    # The size of a decompressed answer cannot be limited before it is in memory.
    "Accept-Encoding": "identity",
    "User-Agent": "headrace",
}


class ServerUnavailable(Exception):
    """A retriable failure of one server: another node, or a later attempt, may succeed."""


class UnsendableRequest(ValueError):
    """A URL or header that HTTP cannot carry."""


class HttpAnswer(NamedTuple):
    """A server's answer over HTTP, of any status."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    """By names in lower case; values of equal names are joined by commas."""


def retry_after_s(answer: HttpAnswer) -> float | None:
    """The pause that an answer's `Retry-After` asks for, in seconds or as a date; None without a readable one."""
    text = answer.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())


class Proxy(NamedTuple):
    """A proxy for HTTP, with its login if it asks for one."""

    host: str
    port: int
    login: tuple[str, str] | None = None


class HttpClient:
    """Connections to any number of servers. Proxy and logins come from settings only, never from the environment.

    Cookies are not kept: they would go to other ports of their host, and nothing bounds their number.
    """

    def __init__(
        self,
        allowed: HostGate,
        *,
        connect_s: float,
        read_s: float,
        context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        read_setting: str = "the time for reading",
        trust_setting: str = "ssl.truststore.location",
        largest_bytes: int = LARGEST_BYTES,
        limits: httpx.Limits | None = None,
    ) -> None:
        """`read_s` bounds a whole answer. The errors name `read_setting` and `trust_setting`."""
        self._connect_s, self._read_s = connect_s, read_s
        self._read_setting, self._trust_setting, self._largest_bytes = read_setting, trust_setting, largest_bytes
        self._closed = threading.Event()
        via = None if proxy is None else httpx.Proxy(f"http://{proxy.host}:{proxy.port}", auth=proxy.login)
        self._client = httpx.Client(
            transport=GatedTransport(allowed, context or ssl.create_default_context(), via, limits),
            trust_env=False,
            follow_redirects=False,
            headers=_HEADERS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )

    def close(self) -> None:
        """Close the connections; what another thread sends fails by ServerUnavailable."""
        self._closed.set()
        self._client.close()

    def exchange(
        self,
        method: str,
        url: str,
        *,
        key: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        until_s: float = math.inf,
        may_cut: bool = False,
    ) -> HttpAnswer:
        """Send one request and return its answer, until `until_s` (monotonic clock) at most.

        `key`: the setting that an error names. `may_cut`: once the status is known, a body that is too large, too slow,
        torn or compressed is cut there, because the server has done its work. Errors: as for the module.
        """
        now_s = time.monotonic()
        left_s = until_s - now_s
        if left_s <= 0:
            raise ServerUnavailable("no time was left for a request")
        timeout = httpx.Timeout(min(self._read_s, left_s), connect=min(self._connect_s, left_s))
        try:
            with self._client.stream(method, url, headers=headers, content=body, timeout=timeout) as answer:
                deadline_s = min(now_s + self._read_s, until_s)
                return self._cut(answer, deadline_s) if may_cut else self._read(answer, deadline_s)
        except ConfigError as error:
            raise ConfigError([replace(problem, key=key) for problem in error.problems]) from error
        except HostUnknown as error:
            raise ServerUnavailable(str(error)) from error
        except RuntimeError as error:
            if not self._closed.is_set():
                raise
            raise ServerUnavailable("it was closed") from error  # closed by another thread meanwhile
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeError) as error:
            # Invariant 6: the library's text may quote a header.
            raise UnsendableRequest(f"{masked(url)} or its headers cannot be sent: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            raise self._failure(error, key, url) from error

    def fetch(
        self,
        url: str,
        *,
        key: str,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        until_s: float = math.inf,
    ) -> HttpAnswer:
        """As `exchange`, and follow redirects; another server gets no headers but `Accept`."""
        sent = dict(headers or {})
        for _ in range(_MOST_REDIRECTS):
            answer = self.exchange(method, url, key=key, headers=sent, until_s=until_s)
            if answer.status not in REDIRECTS or not (place := answer.headers.get("location")):
                return answer
            try:
                found = httpx.URL(url).join(place)
            except (httpx.InvalidURL, ValueError):
                raise ServerUnavailable(f"it redirects to {masked(place)!r}, which is no URL") from None
            if _origin(found) != _origin(httpx.URL(url)):
                sent = {name: value for name, value in sent.items() if name.lower() == "accept"}
            url = str(found)
        raise ServerUnavailable(f"it redirects more than {_MOST_REDIRECTS} times")

    def _read(self, answer: httpx.Response, deadline_s: float) -> HttpAnswer:
        """The whole answer, limited in time and size; httpx limits only the time of each read."""
        body = bytearray()
        encoding = answer.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise ServerUnavailable(f"its answer is compressed ({encoding}), which it was not asked for")
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > self._largest_bytes:
                raise ServerUnavailable(f"its answer is larger than {self._largest_bytes >> 20} MiB")
            if time.monotonic() > deadline_s:
                raise ServerUnavailable(
                    f"its answer took longer than {self._read_setting}, or than what was left of it"
                )
        return HttpAnswer(answer.status_code, bytes(body), dict(answer.headers))

    def _cut(self, answer: httpx.Response, deadline_s: float) -> HttpAnswer:
        body = bytearray()
        with suppress(httpx.HTTPError):
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > self._largest_bytes or time.monotonic() > deadline_s:
                    break
        return HttpAnswer(answer.status_code, bytes(body[: self._largest_bytes]), dict(answer.headers))

    def _failure(self, error: httpx.HTTPError, key: str, url: str) -> Exception:
        if (untrusted := _untrusted(error)) is not None:
            remedy = f"Set {self._trust_setting} to a store with the certificate of its authority."
            what = f"Its certificate is not trusted: {untrusted.verify_message}."
            return ConfigError(Problem(key, masked(url), what, remedy))
        return ServerUnavailable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def masked(url: str) -> str:
    """The URL without its possible secrets: user, password, query."""
    # Invariant 6: a secret never reaches a log, a status or an answer.
    return re.split("[?#]", without_login(url), maxsplit=1)[0]


def basic_header(user_info: str) -> dict[str, str]:
    """The header of a login `user:password`."""
    return {"Authorization": "Basic " + base64.b64encode(user_info.encode()).decode()}


def _origin(url: httpx.URL) -> tuple[Any, ...]:
    return url.scheme, url.host, url.port


def _untrusted(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """The certificate error that caused httpx's error; None if there is none."""
    found = (one for one in causes(error, contexts=True) if isinstance(one, ssl.SSLCertVerificationError))
    return next(found, None)
