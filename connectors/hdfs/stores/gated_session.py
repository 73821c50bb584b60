"""WebHDFS requests within `connector.allowed.hosts`, those redirected to data nodes included."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from headrace.config.worker.allowed_hosts import AllowedHosts, RecentlyAllowed

_KEY = "store.url"


class GatedAdapter(HTTPAdapter):
    """Judges the host of each request, and then the address of its connection.

    Errors: those of requests; ConfigError and HostUnknown of `AllowedHosts.check`.
    """

    def __init__(self, allowed: AllowedHosts, **arguments: Any) -> None:
        self._allowed, self._recent = allowed, RecentlyAllowed(allowed)
        super().__init__(**arguments)

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        """Make connections that check their address: the name may have another one by then."""
        super().init_poolmanager(*arguments, **named)
        self.poolmanager.pool_classes_by_scheme = _pools(self._allowed)

    def send(self, request: requests.PreparedRequest, *arguments: Any, **named: Any) -> requests.Response:
        """Send the request, which may be a redirected one."""
        self._recent.check(_KEY, urlsplit(request.url or "").hostname or "")
        return super().send(request, *arguments, **named)


def _pools(allowed: AllowedHosts) -> dict[str, Any]:
    def judged(connection: HTTPConnection, opened: socket.socket) -> socket.socket:
        try:
            allowed.check_address(_KEY, connection.host, opened.getpeername()[0])
        except ValueError:
            opened.close()
            raise
        return opened

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return judged(self, super()._new_conn())

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return judged(self, super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
