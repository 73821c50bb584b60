"""The hosts that connectors may name (`connector.allowed.hosts`), checked by name and by resolved address.

    allowed = AllowedHosts.of(worker)
    allowed.check("connection.url", "db.example.com")     # resolves; raises ConfigError

Decided: a name pattern, even `*`, allows no link-local address and no cloud's metadata service, because a worker's
machine has its own credentials there, and any name can resolve to it; loses: a database at such an address needs its
network in the setting, too.
Decided: hosts are found in a config by the form of its values (URLs, `bootstrap.servers`, keys that end in `host`), not
by each plugin's declaration, because the rule must hold for third parties' plugins, too; loses: a host that such a
plugin takes under another key, which only the network can refuse.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import invalid

log = logging.getLogger(__name__)

ALLOWED_HOSTS: Final = "connector.allowed.hosts"
EVERYWHERE: Final = ("*", "0.0.0.0/0", "::/0")
"""Allows all hosts; for hosts in the worker's own properties."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_BY_NETWORK_ONLY: Final = tuple(
    ipaddress.ip_network(one) for one in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32")
)
"""Link-local addresses, and metadata services outside of them (Amazon's by IPv6, Alibaba's)."""
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NAME: Final = re.compile(r"[a-z0-9_*]([a-z0-9_.*-]*[a-z0-9_*])?", re.I)
_URL: Final = re.compile(r"(?:jdbc:)?([A-Za-z][\w+.-]*)(?::[\w.-]+)*://([^/?#;\s]*)")
_NEXT_URL: Final = re.compile(r",\s*(?=[A-Za-z][\w+.-]*://)")
_NO_HOSTS: Final = frozenset({"file", "s3", "s3a", "gs", "az", "azure", "classpath", "sqlite"})
"""Schemes whose authority is no host; the endpoint of a store's bucket is a separate setting."""
_NO_ADDRESSES: Final = ("transforms.", "predicates.")
"""Prefixes of settings that connect to nothing: a URL below them is a value for records."""
_RECENT_S: Final = 10.0
_HOST_KEYS: Final = ("host", "hostname", "hosts")
_SERVERS: Final = "bootstrap.servers"


class HostUnknown(OSError):
    """A host does not resolve now, and only its addresses could allow it; a later attempt may succeed."""


@dataclass(frozen=True)
class AllowedHosts:
    """The name patterns and networks that connectors may reach. Picklable."""

    names: tuple[str, ...]
    networks: tuple[Network, ...]

    @classmethod
    def of(cls, worker: Mapping[str, Any]) -> AllowedHosts:
        """The hosts that the worker's settings allow; all names by default.

        Errors: ValueError for a text that is neither a name pattern nor a network.
        """
        names, networks = [], []
        for text in worker.get(ALLOWED_HOSTS, ("*",)):
            try:
                networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
            except ValueError:
                if not _NAME.fullmatch(text) or (text != "*" and not re.search("[A-Za-z]", text)):
                    raise ValueError(f"'{text}' is neither a host's name, as *.example.com, nor a network") from None
                names.append(text.lower())
        return cls(tuple(names), tuple(networks))

    def __str__(self) -> str:
        return ", ".join([*self.names, *map(str, self.networks)]) or "empty"

    @property
    def is_open(self) -> bool:
        """True if every name is allowed."""
        return "*" in self.names

    def problem(self, key: str, host: str) -> Problem | None:
        """The problem of a host that is surely refused, without resolving its name; None if it may be allowed."""
        address = _literal(host)
        if address is not None:
            return None if self._allows(host, address) else self._refused(key, host, address)
        return None if self.networks or self._is_named(host) else self._refused(key, host, None)

    def check(self, key: str, host: str) -> list[str]:
        """The host's addresses, all allowed; empty if its name is allowed and does not resolve.

        Errors: ConfigError that names the setting `key`; HostUnknown.
        """
        addresses = _addresses(host)
        for address in addresses:
            self.check_address(key, host, str(address))
        if not addresses and not self._is_named(host):
            if not self.networks:
                raise ConfigError(self._refused(key, host, None))
            raise HostUnknown(
                f"{key}: the host {_name(host)} has no address now, by which {ALLOWED_HOSTS} ({self}) could allow it. "
                "Check its name and the resolver of the worker's machine."
            )
        return [str(address) for address in addresses]

    def check_address(self, key: str, host: str, address: str) -> None:
        """Refuses an address that the host may not have. Errors: ConfigError."""
        parsed = ipaddress.ip_address(address)
        if not self._allows(host, parsed):
            raise ConfigError(self._refused(key, host, parsed))

    def _is_named(self, host: str) -> bool:
        name = _name(host)
        return any(fnmatchcase(name, pattern) for pattern in self.names)

    def _allows(self, host: str, address: Address) -> bool:
        """An IPv4 address within an IPv6 address counts, too: both lead to the same machine."""
        forms = addresses_in(address)
        if any(form in network for network in self.networks for form in forms):
            return True
        if any(form in network for network in _BY_NETWORK_ONLY for form in forms):
            return False
        return self.is_open if _literal(host) is not None else self._is_named(host)

    def _refused(self, key: str, host: str, address: Address | None) -> Problem:
        name = _name(host)
        is_special = address is not None and any(
            form in network for network in _BY_NETWORK_ONLY for form in addresses_in(address)
        )
        where = f"the host {name}" if address is None or str(address) == name else f"the host {name} ({address})"
        why = f"{ALLOWED_HOSTS} ({self}) does not allow {where}."
        if is_special:
            why += " It is link-local, or of a cloud's metadata service: only a network allows it, no name."
        add = name if address is None else f"the network {address}" if is_special else f"{name} or its network"
        return Problem(
            key, name, why, f"Name another host; or have the operator add {add} to {ALLOWED_HOSTS} of all workers."
        )


class RecentlyAllowed:
    """Checks the hosts of requests; an allowed host is resolved again after ten seconds only."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed
        self._until: dict[str, float] = {}

    def check(self, key: str, host: str) -> None:
        """As `AllowedHosts.check`; any thread may call."""
        now = time.monotonic()
        if now >= self._until.get(host, 0.0):
            self._allowed.check(key, host)
            self._until[host] = now + _RECENT_S


ALL_NAMES: Final = AllowedHosts(("*",), ())
"""The setting's default."""


def hosts_problem(name: str, value: Any) -> str | None:
    """The validator of the setting: the error of a wrong value, or None."""
    try:
        AllowedHosts.of({ALLOWED_HOSTS: value or ()})
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def named_hosts(config: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """The hosts in a connector's config, each with its setting."""
    for key, value in config.items():
        if value and not key.startswith(_NO_ADDRESSES):
            yield from ((key, host) for host in dict.fromkeys(_hosts(key, value.strip())))


def host_problems(config: Mapping[str, str | None], worker: Mapping[str, Any]) -> list[Problem]:
    """Problems of hosts that are refused without resolving names, one for each setting."""
    allowed = AllowedHosts.of(worker)
    found = [problem for key, host in named_hosts(config) if (problem := allowed.problem(key, host)) is not None]
    return list({problem.key: problem for problem in reversed(found)}.values())


def check_hosts(config: Mapping[str, str | None], worker: Mapping[str, Any]) -> None:
    """Refuses a config with a forbidden host or address. Errors: ConfigError; HostUnknown."""
    allowed = AllowedHosts.of(worker)
    for key, host in named_hosts(config):
        if allowed.is_open:
            _warn_of_no_bounds()
        allowed.check(key, host)


@cache
def _warn_of_no_bounds() -> None:
    """Warns once a process."""
    log.warning(
        "%s is *: users who may create a connector can have this worker connect to every host that it reaches, but for "
        "link-local addresses. Set it in the worker's properties to the hosts and networks meant for connectors.",
        ALLOWED_HOSTS,
    )


def hosts_of(text: str) -> Iterator[str]:
    """The hosts of a URL, or of a list of URLs; empty if the text begins with no URL."""
    for url in _NEXT_URL.split(text):
        match = _URL.match(url)
        if match is not None and match[1].lower() not in _NO_HOSTS:
            yield from _without_ports(match[2].rpartition("@")[2])
            begin, _, rest = match[2].partition("\\")
            if "@" in rest and match[1].lower() in ("http", "https"):  # clients read http://a\@b as the host a
                yield from _without_ports(begin.rpartition("@")[2])


def _hosts(key: str, value: str) -> Iterator[str]:
    last = key.rpartition(".")[2].lower()
    if _URL.match(value):
        yield from hosts_of(value)
    elif key.endswith(_SERVERS) or last in _HOST_KEYS:
        yield from _without_ports(value)


def _without_ports(text: str) -> Iterator[str]:
    for one in text.split(","):
        host = one.strip().rpartition("://")[2]
        host = host[1:].partition("]")[0] if host.startswith("[") else _without_port(host)
        host = host.partition("\\")[0]  # SQL Server: host\instance
        if host:
            yield host


def _without_port(host: str) -> str:
    return host if _literal(host) is not None else host.partition(":")[0]


def _name(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def addresses_in(address: Address) -> list[Address]:
    """The address without its zone, and the IPv4 address within it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    plain = ipaddress.IPv6Address(int(address))
    if plain.ipv4_mapped is not None:
        return [plain, plain.ipv4_mapped]
    return [plain, ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF)] if plain in _TRANSLATED else [plain]


_resolved = socket.getaddrinfo


def _addresses(host: str) -> list[Address]:
    try:
        found = _resolved(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # ValueError: the name is too malformed to resolve
        return []
    return list(dict.fromkeys(ipaddress.ip_address(str(one[4][0])) for one in found))
