"""A connector's own bounds of addresses, beside `connector.allowed.hosts`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import invalid
from headrace.config.worker.allowed_hosts import Address, AllowedHosts, Network, addresses_in

_ALLOW: Final = "connection.allow.cidr.ranges"
_DISALLOW: Final = "connection.disallow.cidr.ranges"
_KINDS: Final = {
    "connection.disallow.local.ips": ("127.0.0.0/8", "0.0.0.0/8", "169.254.0.0/16", "::1/128", "::/128", "fe80::/10"),
    "connection.disallow.private.ips": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    "connection.disallow.class.e.ips": ("240.0.0.0/4",),
}
"""The settings that refuse a kind of addresses."""


@dataclass(frozen=True)
class BoundedHosts:
    """Refuses hosts that the worker does not allow, and addresses that the connector's settings refuse."""

    allowed: AllowedHosts
    refused: Mapping[str, Sequence[Network]]
    """Networks by the setting that refuses them."""
    only: Sequence[Network]
    """The only networks that are allowed; all if empty."""

    @classmethod
    def of(cls, values: Mapping[str, Any], worker: Mapping[str, Any]) -> BoundedHosts:
        """The bounds by these parsed settings."""
        refused = {key: _networks(texts) for key, texts in _KINDS.items() if values[key]}
        if values[_DISALLOW]:
            refused[_DISALLOW] = _networks(values[_DISALLOW])
        return cls(AllowedHosts.of(worker), refused, _networks(values[_ALLOW]))

    def check(self, key: str, host: str) -> list[str]:
        """The host's addresses, none of them refused. Errors: ConfigError, HostUnknown."""
        addresses = self.allowed.check(key, host)
        for text in addresses:
            forms = addresses_in(ipaddress.ip_address(text))
            for setting, networks in self.refused.items():
                if _in(forms, networks):
                    raise ConfigError(
                        Problem(key, host, f"{setting} refuses its address {text}.", "Name another host.")
                    )
            if self.only and not _in(forms, self.only):
                raise ConfigError(Problem(key, host, f"{_ALLOW} has no network of its address {text}.", "Add one."))
        return addresses


def networks_problem(name: str, value: Any) -> str | None:
    """The error of a list that has something other than networks, or None."""
    try:
        _networks(value or ())
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


def _networks(texts: Sequence[str]) -> Sequence[Network]:
    return [ipaddress.ip_network(text, strict=False) for text in texts]


def _in(forms: Sequence[Address], networks: Sequence[Network]) -> bool:
    return any(form in network for form in forms for network in networks)
