"""OAuth 2 tokens of the client credentials grant."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.config.problems import ConfigError
from headrace.plugins.interop.http.client import HttpAnswer


class Token(NamedTuple):
    """An access token, and its type as the issuer named it."""

    text: str
    type: str


@dataclass
class OAuthTokens:
    """Tokens, each used until shortly before it expires, or until `forget`; any thread may ask."""

    fetch: Callable[[float], HttpAnswer]
    """Asks the issuer, until this monotonic time. Errors: ServerUnavailable, ConfigError."""
    refused: Callable[[int], ConfigError]
    """Makes the error for an answer of this status without a token."""
    buffer_s: float = 0
    """The time before a token expires at which it is replaced."""
    lifetime_s: float = 0
    """The lifetime of a token whose issuer names none."""
    property: str = "access_token"
    """The member of the issuer's answer that holds the token."""
    _token: Token = field(default=Token("", ""), init=False, repr=False)
    _until: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def current(self, until_s: float) -> Token:
        """A token that has not expired.

        Errors: ServerUnavailable if the issuer cannot be reached, ConfigError if it refuses.
        """
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, lifetime_s = self._fetched(until_s)
                # A token with a lifetime below the buffer is used for half of it.
                self._until = time.monotonic() + max(lifetime_s - self.buffer_s, lifetime_s / 2)
            return self._token

    def forget(self, token: Token) -> None:
        """Fetch another token next time, unless that was done since this one was given out."""
        with self._lock:
            if self._token == token:
                self._until = 0.0

    def _fetched(self, until_s: float) -> tuple[Token, float]:
        answer = self.fetch(until_s)
        try:
            found = json.loads(answer.body) if 200 <= answer.status < 300 else {}
            token = Token(found[self.property], found.get("token_type") or "Bearer")
            if not all(text and text.isascii() and text.isprintable() for text in token):
                raise ValueError("HTTP cannot carry it in a header")
            return token, float(found.get("expires_in") or self.lifetime_s)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # Invariant 6: the answer may hold a secret.
            raise self.refused(answer.status) from None
