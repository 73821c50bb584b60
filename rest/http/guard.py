"""Refuses requests that a foreign web page may have a browser send: for foreign hosts, and from foreign origins.

Decided: a host is accepted if it is an address, if no public registry can assign it (`connect`, `localhost`,
`connect.kafka.svc`), if it is below a search domain of the machine's resolver, or if it is a listener's or advertised
host or in `rest.allowed.hosts`. A page can only let its own name resolve to a worker (DNS rebinding), and containers
and port forwarding use names that a worker cannot know; loses: nothing against such pages, but full names of load
balancers must be configured.
Decided: `connect.kafka` is accepted if `connect.kafka.svc.cluster.local` resolves, not for the namespace's name alone,
because a namespace may be named like a public domain, such as `dev` or `app`, in which pages can have names; loses: a
query to the cluster's resolver for each refused name of this form.
Decided: GET from foreign origins is answered, because browsers keep the answer from the page, and links to a worker in
a wiki work; loses: nothing, as no GET changes anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.config.worker.listeners import parse_listeners
from headrace.config.worker.rest_tls import ALL_LISTENERS
from headrace.rest.http.errors import error
from headrace.rest.http.layers import SAFE_METHODS

log = logging.getLogger(__name__)

_NOT_PUBLIC: Final = (
    "consul",
    "corp",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "svc",
)
"""Domains without public registration."""
_RESOLVER: Final = Path("/etc/resolv.conf")
_MOST_TOLD: Final = 20
"""The most refused hosts to log."""
_PORTS: Final = {"http": ":80", "https": ":443"}
_OWN_PAGES: Final = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` for the worker's own pages, and for an address that a person typed."""


class Guard:
    """Answers 403 to requests for foreign hosts, and to changes requested by pages of foreign origins."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        """`hosts`: names accepted beside those that no page can have; `origins`: origins that may request changes."""
        self._app = app
        self._hosts = {host.lower().rstrip(".") for host in hosts}
        self._origins = set(origins)
        self._clusters = [host.removeprefix("*.") for host in self._hosts if host.startswith("*.svc.")]
        self._told: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = await self._objection(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        if why is None:
            await self._app(scope, receive, send)
        else:
            await error(403, why, {"Connection": "close"})(scope, receive, send)

    async def _objection(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if host and not (self._is_own(name := _name(host)) or await self._is_service(name)):
            why = (
                f"The host {host!r} is not known as one of this worker. Ask it by an address, or by its advertised "
                "host; or name the host in rest.allowed.hosts."
            )
            if name not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(name)
                log.warning("A request was answered with 403: %s", why)
            return why
        if method not in SAFE_METHODS and self._is_foreign(headers, host):
            asking = headers.get("origin", "another site")
            return (
                f"A page of {asking} may not change anything here. If it may, name its origin in "
                "access.control.allow.origin."
            )
        return None

    def _is_own(self, name: str) -> bool:
        if "." not in name or name in self._hosts or "*" in self._hosts or _is_address(name):
            return True
        parents = [name.split(".", number)[-1] for number in range(1, name.count(".") + 1)]
        return any(parent in _NOT_PUBLIC or f"*.{parent}" in self._hosts for parent in parents)

    async def _is_service(self, name: str) -> bool:
        """True if the name is `<service>.<namespace>` of the worker's Kubernetes cluster."""
        if name.count(".") != 1:
            return False
        for cluster in self._clusters:
            try:
                await asyncio.get_running_loop().getaddrinfo(f"{name}.{cluster}.", None)
            except (OSError, UnicodeError):
                continue
            self._hosts.add(name)
            return True
        return False

    def _is_foreign(self, headers: Headers, host: str) -> bool:
        return not {"*", headers.get("origin")} & self._origins and is_foreign(headers, host)


def is_foreign(headers: Headers, host: str) -> bool:
    """True if a page of another origin asked for this request to a host."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None:  # right even if a proxy has changed the host
        return site.strip().lower() not in _OWN_PAGES
    if origin is None:
        return False
    page = urlsplit(origin)
    port = _PORTS.get(page.scheme, "")
    # No page can send X-Forwarded-Host to another origin that does not allow it in a preflight.
    own = (host, *headers.get("x-forwarded-host", "").split(","))
    return page.netloc.lower().removesuffix(port) not in {one.strip().lower().removesuffix(port) for one in own if one}


def own_hosts(settings: Mapping[str, Any]) -> set[str]:
    """The names of a worker with these settings, and the hosts that they allow."""
    listeners = [listener for key in ALL_LISTENERS for listener in parse_listeners(settings.get(key) or [], key)]
    named = {listener.host for listener in listeners} | {settings.get("rest.advertised.host.name") or ""}
    machine = {socket.gethostname(), socket.getfqdn(), *(f"*.{domain}" for domain in _search_domains())}
    return {*named, *machine, *settings.get("rest.allowed.hosts", ())} - {""}


def _search_domains() -> list[str]:
    """The search domains of the machine's resolver, without top-level ones."""
    try:
        lines = [line.split() for line in _RESOLVER.read_text(errors="replace").splitlines()]
    except OSError:
        return []
    found = [line[1:] for line in lines if line and line[0] in ("search", "domain")]
    return [domain for domain in (found[-1] if found else []) if "." in domain.strip(".")]


def _name(host: str) -> str:
    """The name in a Host header, without its port, which forwarding may have changed."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
