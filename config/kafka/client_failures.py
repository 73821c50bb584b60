"""Tells a refused login or certificate from an unreachable broker.

librdkafka reports a time-out for all of them. Only its `error_cb` gets the reason, and only while the client is polled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from headrace.config.kafka.client_security import Login

_LOGIN: Final = "_AUTHENTICATION"
_TLS: Final = "_SSL"


class ClientFailures:
    """The `error_cb` of one librdkafka client; keeps the last refusals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, str] = {}
        self._since: float | None = None

    def __call__(self, error: Any) -> None:
        """Records the error if it is a refused login or a TLS failure."""
        if error.name() in (_LOGIN, _TLS):
            self._heard[error.name()] = error.str()
            self._since = self._clock() if self._since is None else self._since

    def forget(self, client: Any) -> None:
        """Serves pending callbacks and forgets all failures, before a request."""
        client.poll(0)
        self.clear()

    def clear(self) -> None:
        """Forgets all failures: the client has a connection."""
        self._heard.clear()
        self._since = None

    @property
    def seconds(self) -> float | None:
        """Seconds since the first refusal; None without one."""
        return None if self._since is None else self._clock() - self._since

    @property
    def login(self) -> str | None:
        """The error of a refused login; None without one."""
        return self._heard.get(_LOGIN)

    @property
    def certificate(self) -> str | None:
        """The error of a refused certificate, of either side; other TLS failures count as network errors."""
        told = self._heard.get(_TLS, "")
        return told if "certificate" in told.lower() else None

    def why(self, client: Any, login: Login) -> str | None:
        """Serves pending callbacks, then as `heard`."""
        client.poll(0)
        return self.heard(login)

    def heard(self, login: Login) -> str | None:
        """The reason that the client has no connection, with advice; None if nothing was refused."""
        if _LOGIN in self._heard:
            return refused_login(login, self._heard[_LOGIN])
        if _TLS in self._heard:
            return f"TLS cannot begin ({self._heard[_TLS]}); look at security.protocol and at the ssl settings"
        return None


def refused_login(login: Login, said: str) -> str:
    """The refused user, the broker's message and advice; never the password (Invariant 6)."""
    return (
        f"the login of user {login.user} by {login.mechanism} is refused ({said}); look at "
        "sasl.mechanism, and at the user and password in sasl.jaas.config"
    )
