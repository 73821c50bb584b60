"""Why a Kafka client has no connection: a refused login or certificate, told apart from a broker that is away.

librdkafka answers a request with a time-out in each of these cases, and gives the reason to its `error_cb` alone, which
is called where somebody polls the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from headrace.config.kafka.client_security import Login

_LOGIN: Final = "_AUTHENTICATION"
_TLS: Final = "_SSL"


class ClientFailures:
    """The `error_cb` of one client of librdkafka."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, str] = {}
        self._since: float | None = None

    def __call__(self, error: Any) -> None:
        """Note the error, where it says what is refused."""
        if error.name() in (_LOGIN, _TLS):
            self._heard[error.name()] = error.str()
            self._since = self._clock() if self._since is None else self._since

    def forget(self, client: Any) -> None:
        """Forget what was heard before the next request."""
        client.poll(0)
        self.clear()

    def clear(self) -> None:
        """Forget what was heard: the client has a connection."""
        self._heard.clear()
        self._since = None

    @property
    def seconds(self) -> float | None:
        """For how long something has been refused; None where nothing was heard."""
        return None if self._since is None else self._clock() - self._since

    @property
    def login(self) -> str | None:
        """What was heard of a refused login."""
        return self._heard.get(_LOGIN)

    @property
    def certificate(self) -> str | None:
        """What was heard of a refused certificate, of either side; other failures of TLS are those of a network."""
        told = self._heard.get(_TLS, "")
        return told if "certificate" in told.lower() else None

    def why(self, client: Any, login: Login) -> str | None:
        """Why the client has no connection, and what to look at; None where nothing was refused."""
        client.poll(0)
        return self.heard(login)

    def heard(self, login: Login) -> str | None:
        """As `why`, of what was heard already."""
        if _LOGIN in self._heard:
            return refused_login(login, self._heard[_LOGIN])
        if _TLS in self._heard:
            return f"TLS cannot begin ({self._heard[_TLS]}); look at security.protocol and at the ssl settings"
        return None


def refused_login(login: Login, said: str) -> str:
    """Who is refused, with the broker's words, and what to look at; never the password (Invariant 6)."""
    return (
        f"the login of user {login.user} by {login.mechanism} is refused ({said}); look at "
        "sasl.mechanism, and at the user and password in sasl.jaas.config"
    )
