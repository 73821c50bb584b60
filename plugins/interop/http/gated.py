"""HTTP for plugins within `connector.allowed.hosts`: connects only to addresses that were checked.

    httpx.Client(transport=GatedTransport(AllowedHosts.of(self.worker), context), trust_env=False)

Decided: the transport's pool gets another network backend by a private attribute of httpx, because its public ways
resolve the name a second time (which may give another address) or mix up the TLS sessions of two names at one address;
loses: a new version of httpx can break it, which a test would show.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, Protocol

import httpcore
import httpx

from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS


class HostGate(Protocol):
    """Refuses hosts; `AllowedHosts` is one, and a connector may have bounds of its own beside it."""

    def check(self, key: str, host: str) -> list[str]:
        """Return the host's addresses. Errors: ConfigError that names the setting `key`; HostUnknown."""


class GatedTransport(httpx.HTTPTransport):
    """Sends requests only to allowed hosts, also after redirects; a proxy must be allowed, too.

    Errors: those of httpx; ConfigError and HostUnknown of `AllowedHosts.check`.
    """

    def __init__(
        self,
        allowed: HostGate,
        verify: ssl.SSLContext | bool = True,
        proxy: httpx.Proxy | str | None = None,
        limits: httpx.Limits | None = None,
    ) -> None:
        kept = limits or httpx.Limits(max_keepalive_connections=20)
        super().__init__(verify, trust_env=False, proxy=proxy, limits=kept)
        self._allowed, self._is_proxied = allowed, proxy is not None
        self._pool._network_backend = _GatedBackend(allowed)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. With a proxy the target is checked first, since the proxy resolves the name itself."""
        if self._is_proxied:
            self._allowed.check(ALLOWED_HOSTS, request.url.host)
        return super().handle_request(request)


class _GatedBackend(httpcore.SyncBackend):
    """Connects to one of the checked addresses; TLS still verifies the name."""

    def __init__(self, allowed: HostGate) -> None:
        self._allowed = allowed

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError(f"no address is known for the host {host}")
        for address in self._allowed.check(ALLOWED_HOSTS, host):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure
