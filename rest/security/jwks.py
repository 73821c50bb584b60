"""Public keys of issuers of bearer tokens, as a JWKS in a file or at a URL.

Known keys stay valid while their server is unreachable. An unknown key causes another fetch, at most every ten seconds,
by one thread; requests with known keys do not wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import httpx
import jwt

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.listeners import LOOPBACK
from headrace.config.worker.login_settings import JWKS
from headrace.rest.security.refusals import Unchecked
from headrace.rest.security.watched_file import WatchedFile

log = logging.getLogger(__name__)

_RETRY_S: Final = 10.0
_ANSWER_S: Final = 5.0
_MOST_BYTES: Final = 1 << 20
_MOST_WAITING: Final = 32


class KeySet:
    """The keys of a JWKS for checking signatures."""

    def __init__(self, keys: list[dict[str, Any]]) -> None:
        self._keys = [key for key in keys if key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"]

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key with this id for this algorithm; without an id the only key for it. None if there is none."""
        found = [made for key in self._keys if kid in (None, key.get("kid")) and (made := _key(key, algorithm))]
        return found[0] if len(found) == 1 or (found and kid is not None) else None

    @classmethod
    def of(cls, text: bytes) -> KeySet:
        """Reads a JWKS. Errors: ValueError."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        keys = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(keys, list):
            raise ValueError('it has no member "keys"')
        made = cls([key for key in keys if isinstance(key, dict)])
        if not len(made):
            raise ValueError("it has no public key that checks signatures")
        return made


def _key(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(dict(key), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):  # of another kind, or broken
        return None


class Keys(Protocol):
    """A source of keys."""

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """As `KeySet.find`. Errors: Unchecked if the keys cannot be fetched."""

    def stop(self) -> None:
        """Ends fetching."""


class FileKeys:
    """Keys in a file, reread when it changes."""

    def __init__(self, path: Path) -> None:
        """Errors: ConfigError."""
        self._file = WatchedFile(path, _read)

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        return self._file.current().find(kid, algorithm)

    def stop(self) -> None:
        return


def _read(path: Path) -> KeySet:
    try:
        return KeySet.of(path.read_bytes())
    except OSError as error:
        why = f"The file cannot be read: {error.strerror or error}."
        raise ConfigError(Problem(JWKS, f"file://{path}", why, "Check its name and who may read it.")) from error
    except ValueError as error:
        remedy = "Store there what the issuer's jwks_uri answers."
        raise ConfigError(Problem(JWKS, f"file://{path}", f"It is no JWKS: {error}.", remedy)) from None


class UrlKeys:
    """Keys at a URL, fetched when first needed; any event loop may call."""

    def __init__(self, url: str, refresh_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._refresh_s = refresh_s
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, "jwks")
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._fetched = self._tried = float("-inf")
        self._why: str | None = None
        self._fetching: Future[None] | None = None
        self._waiting = 0

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        found = None if self._keys is None else self._keys.find(kid, algorithm)
        if found is not None:
            if self._clock() - self._fetched > self._refresh_s:
                self._begin()
            return found
        fetching = self._begin()
        if fetching is not None:
            await self._wait(fetching)
            found = None if self._keys is None else self._keys.find(kid, algorithm)
        if found is None and self._why is not None:
            raise Unchecked(503, self._why, int(_RETRY_S))
        return found

    async def _wait(self, fetching: Future[None]) -> None:
        with self._lock:
            if self._waiting >= _MOST_WAITING:
                raise Unchecked(503, "Too many logins wait for the keys of bearer tokens. Try again.")
            self._waiting += 1
        try:
            await asyncio.shield(asyncio.wrap_future(fetching))
        finally:
            with self._lock:
                self._waiting -= 1

    def _begin(self) -> Future[None] | None:
        """Starts to fetch the keys or joins a running fetch; None if the last one began a moment ago."""
        with self._lock:
            if self._fetching is not None and not self._fetching.done():
                return self._fetching
            if self._clock() - self._tried < _RETRY_S:
                return None
            self._tried = self._clock()
            self._fetching = self._pool.submit(self._fetch)
            return self._fetching

    def _fetch(self) -> None:
        try:
            self._keys = KeySet.of(self._answer())
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            shown = urlsplit(self._url)._replace(query="").geturl()
            self._why = f"The keys of bearer tokens cannot be fetched from {shown}: {error or type(error).__name__}"
            log.warning("%s; %s", self._why, "those that are known go on" if self._keys else "nobody can log in so")
        else:
            self._fetched, self._why = self._clock(), None

    def _answer(self) -> bytes:
        ends = time.monotonic() + _ANSWER_S
        local = urlsplit(self._url).hostname in LOOPBACK
        with (
            httpx.Client(timeout=_ANSWER_S, trust_env=not local) as client,
            client.stream("GET", self._url, headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status_code != 200:
                raise ValueError(f"the answer has status {answer.status_code}")
            text = b""
            for part in answer.iter_bytes():
                text += part
                if len(text) > _MOST_BYTES or time.monotonic() > ends:
                    raise ValueError(f"the answer has more than {_MOST_BYTES} bytes or takes too long")
        return text

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def keys_at(url: str, refresh_s: float) -> Keys:
    """The keys at an https or file URL, or at an http URL of this machine. Errors: ConfigError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(Problem(JWKS, url, f"It is no URL: {error}.", "Write https://host/path.")) from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return FileKeys(Path(unquote(parts.path)))
    if parts.username is not None or parts.password is not None:
        raise ConfigError(Problem(JWKS, None, "The URL has a login.", "A JWKS is public: name it without one."))
    if host and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)):
        return UrlKeys(url, refresh_s)
    why = "Keys from there could be another's: the URL must begin with https://, or with file:///."
    raise ConfigError(Problem(JWKS, url, why, "http:// is for localhost only."))
