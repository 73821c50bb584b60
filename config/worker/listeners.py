"""The listeners of a worker's REST API, and its advertised URL."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.config.problems import ConfigError, Problem

_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_SCHEMES: Final = ("http", "https")
_ALL_INTERFACES: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Hosts that mean all interfaces, each with the address that answers on this machine."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""Hosts that mean this machine alone."""


@dataclass(frozen=True)
class Listener:
    """One listener; an empty host means all interfaces, port 0 any free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def shown(self) -> str:
        """An address that answers on this machine, for people; other machines may need another."""
        local = _ALL_INTERFACES.get(self.host)
        return str(self) if local is None else f"{replace(self, host=local)} (all interfaces)"

    @property
    def is_on_all_interfaces(self) -> bool:
        """True if it listens on all interfaces."""
        return self.host in _ALL_INTERFACES

    def bound(self, port: int) -> Listener:
        """The same listener with the actual port."""
        return replace(self, port=port)


def parse_listener(text: str, key: str = "listeners") -> Listener:
    """The listener `protocol://hostname:port`. Errors: ConfigError."""
    match = _LISTENER.fullmatch(text)
    if match is None:
        message = "Listener doesn't have the right format (protocol://hostname:port)."
        raise ConfigError(Problem(key, text, message, "Write it like http://127.0.0.1:8083, or http://:8083 for all."))
    scheme, host, port = match[1].lower(), match[2], int(match[3])
    if scheme not in _SCHEMES:
        message = 'Listener protocol must be either "http" or "https".'
        raise ConfigError(Problem(key, text, message, "Write it like http://127.0.0.1:8083."))
    if not 0 <= port <= 65535:
        message = "Listener port must be from 0 to 65535."
        raise ConfigError(Problem(key, text, message, "Port 0 takes any free one."))
    return Listener(scheme, host, port)


def parse_listeners(values: Sequence[str], key: str = "listeners") -> list[Listener]:
    """The listeners of a setting. Errors: ConfigError with all problems."""
    listeners, problems = [], []
    for value in values:
        try:
            listeners.append(parse_listener(value, key))
        except ConfigError as e:
            problems.extend(e.problems)
    if problems:
        raise ConfigError(problems)
    return listeners


def machine_host() -> str:
    """This machine's address for others; the loopback address if there is no other."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def advertised(
    listeners: Sequence[Listener],
    scheme: str | None = None,
    host: str | None = None,
    port: int | None = None,
    fallback_host: str | None = None,
) -> Listener:
    """The worker's own URL; `listeners` are bound ones, the other parameters are the `rest.advertised.*` settings.

    Without `scheme`, http comes before https. `fallback_host` is for listeners on all interfaces.

    Errors: ConfigError if no listener has the scheme.
    """
    wanted = [scheme.lower()] if scheme else list(_SCHEMES)
    chosen = next((one for name in wanted for one in listeners if one.scheme == name), None)
    if chosen is None:
        message = f"There is no listener with protocol {' or '.join(wanted)}."
        raise ConfigError(Problem("rest.advertised.listener", scheme, message, "Add one to listeners."))
    return Listener(
        chosen.scheme,
        host or chosen.host or fallback_host or machine_host(),
        port if port is not None and port > 0 else chosen.port,
    )


def advertised_url(listener: Listener) -> str:
    """The URL for other workers and `Location` headers."""
    return f"{listener}/"


def worker_id(listener: Listener) -> str:
    """The worker's id in statuses: `host:port`."""
    return f"{listener.host}:{listener.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
