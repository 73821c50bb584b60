"""Addresses, logins and TLS of a cluster, read from the settings into a form that travels to Python workers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.config.settings import ConfigError, Password, Problem
from headrace.config.tls import TlsSettings
from headrace.config.worker.allowed_hosts import AllowedHosts
from headrace.connectors.elasticsearch.options import Flavour
from headrace.connectors.elasticsearch.parsing import SETTINGS
from headrace.connectors.elasticsearch.settings import AIVEN_SSL, CONFLUENT_SSL
from headrace.connectors.elasticsearch.shared_settings import with_scheme
from headrace.plugins.interop.http.client import Proxy

_API_KEY: Final = "api_key"


@dataclass(frozen=True)
class Aws:
    """Signed requests (SigV4); without keys the machine's own login signs."""

    region: str
    service: str
    key: str | None = field(repr=False)
    secret: str | None = field(repr=False)


@dataclass(frozen=True)
class Access:
    """The nodes of one cluster, and how to reach them."""

    urls: tuple[str, ...]
    allowed: AllowedHosts
    connect_s: float
    read_s: float
    login: tuple[str, str] | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    aws: Aws | None = None
    proxy: Proxy | None = field(default=None, repr=False)
    compresses: bool = False
    trusts_all: bool = False
    tls: Mapping[str, Any] | None = field(default=None, repr=False)
    """The parsed `ssl.*` settings; None: the system's authorities are trusted."""
    tls_prefix: str = ""

    @classmethod
    def of(cls, config: Mapping[str, str], flavour: Flavour, worker: Mapping[str, Any]) -> Access:
        """The access of a config. Errors: ConfigError."""
        values = SETTINGS[flavour].parse(config)
        urls, in_url = _addresses(values["connection.url"])
        prefix = CONFLUENT_SSL if flavour is Flavour.CONFLUENT else AIVEN_SSL
        return cls(
            urls=urls,
            allowed=AllowedHosts.of(worker),
            connect_s=values["connection.timeout.ms"] / 1000,
            read_s=values["read.timeout.ms"] / 1000,
            login=_login(values) or (None if flavour is Flavour.CONFLUENT else in_url),
            api_key=secret(values, "api.key.value") if _auth(values) == _API_KEY else None,
            aws=_aws(values),
            proxy=_proxy(values),
            compresses=bool(values.get("connection.compression")),
            trusts_all=bool(values.get("connection.trust.all.certificates")),
            tls=_tls(values, flavour, prefix),
            tls_prefix=prefix,
        )

    def context(self) -> ssl.SSLContext:
        """The TLS context. Errors: ConfigError."""
        context = (
            ssl.create_default_context()
            if self.tls is None
            else TlsSettings(self.tls, self.tls_prefix).client_context()
        )
        if self.trusts_all:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _addresses(given: list[str]) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """The nodes' URLs without logins, and the first login."""
    split = [urlsplit(with_scheme(url)) for url in given]
    scheme = "https" if any(one.scheme == "https" for one in split) else "http"
    urls = tuple(f"{scheme}://{one.netloc.rpartition('@')[2]}{one.path}".rstrip("/") for one in split)
    logins = [(unquote(one.username), unquote(one.password or "")) for one in split if one.username]
    return urls, logins[0] if logins else None


def _auth(values: Mapping[str, Any]) -> str:
    return str(values.get("auth.type") or "basic").lower()


def _login(values: Mapping[str, Any]) -> tuple[str, str] | None:
    user, password = values["connection.username"], secret(values, "connection.password")
    return (user, password) if user and password and _auth(values) == "basic" else None


def secret(values: Mapping[str, Any], name: str) -> str | None:
    """The text of a secret, which may be empty; None if it is not set."""
    found = values.get(name)
    return found.value if isinstance(found, Password) else found


def _aws(values: Mapping[str, Any]) -> Aws | None:
    if not values.get("aws.region"):
        return None
    keys = secret(values, "aws.access_key_id"), secret(values, "aws.secret_access_key")
    return Aws(values["aws.region"], values["aws.service.signing.name"], *keys)


def _proxy(values: Mapping[str, Any]) -> Proxy | None:
    if not values.get("proxy.host"):
        return None
    user, password = values["proxy.username"], secret(values, "proxy.password")
    return Proxy(values["proxy.host"], values["proxy.port"], (user, password or "") if user else None)


def _tls(values: Mapping[str, Any], flavour: Flavour, prefix: str) -> Mapping[str, Any] | None:
    own = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(f"{prefix}ssl.")}
    if flavour is Flavour.CONFLUENT:
        return own if values["elastic.security.protocol"].upper() == "SSL" else None
    return own or None


def problem(urls: tuple[str, ...], what: str, remedy: str) -> ConfigError:
    """The error of a cluster that cannot be used."""
    return ConfigError(Problem("connection.url", ", ".join(urls), what, remedy))
