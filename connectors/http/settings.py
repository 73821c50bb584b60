"""Declarations that the HTTP connectors share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.kafka.client_settings import SSL
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Password, Setting, Settings, Type
from headrace.config.tls import TlsSettings
from headrace.config.validators import Check, Range, Validator
from headrace.config.values import invalid
from headrace.plugins.interop.http.client import Proxy, masked

HTTPS: Final = "https."
"""Prefix of Kafka's TLS settings."""
TLS: Final = SSL.prefixed(HTTPS)
_HOLE: Final = re.compile(r"\$\{[^}]*\}")


def option(
    name: str,
    type_: Type,
    default: Any,
    text: str,
    validator: Validator | None = None,
    importance: Importance = Importance.MEDIUM,
) -> Setting:
    """A setting of an HTTP connector."""
    return Setting(name, type_, default, validator, importance, text)


def number(name: str, default: int, text: str, least: int = 0, most: int | None = None) -> Setting:
    """A setting that is a whole number."""
    return option(name, Type.INT, default, text, Range(least, most))


def _wrong_url(name: str, value: Any) -> str | None:
    if not value:
        return invalid(name, value, "A URL is needed")
    try:
        split = urlsplit(_HOLE.sub("x", value))
        split.port  # noqa: B018 - raises for a wrong one
    except ValueError:
        return invalid(name, masked(value), "It cannot be read as a URL")
    if split.scheme not in ("http", "https") or not split.hostname:
        return invalid(name, masked(value), "It must be http://host or https://host, with a port and a path")
    return None


URL: Final = Check(_wrong_url, "a URL with http or https")
URL_OR_NONE: Final = Check(lambda name, value: _wrong_url(name, value) if value else None, "a URL with http or https")

PROXY: Final = Settings(
    option("http.proxy.host", Type.STRING, "", "The host of an HTTP proxy; empty: none."),
    number("http.proxy.port", 0, "The proxy's port.", 0, 65535),
    option("http.proxy.user", Type.STRING, "", "The user of the proxy, if it asks for a login."),
    option("http.proxy.password", Type.PASSWORD, "", "The password of the proxy's user."),
)


def proxy_of(host: str | None, port: int | None, user: str | None, password: Any) -> Proxy | None:
    """The proxy of these values. Errors: ConfigError."""
    if not host:
        return None
    if not port:
        raise ConfigError(Problem("http.proxy.port", None, "The proxy needs host and port.", "Give http.proxy.port."))
    return Proxy(host, port, (user, plain(password)) if user else None)


def tls_of(values: Mapping[str, Any], prefix: str = HTTPS) -> TlsSettings:
    """The TLS settings below a prefix."""
    own = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(f"{prefix}ssl.")}
    return TlsSettings(own, prefix)


def plain(secret: Any) -> str:
    """The text of a value that may be a secret; empty for None."""
    return secret.value if isinstance(secret, Password) else secret or ""


def required(values: Mapping[str, Any], why: str, *keys: str) -> None:
    """Refuse a config in which one of these is empty. Errors: ConfigError with all of them."""
    if missing := [key for key in keys if not plain(values[key])]:
        raise ConfigError([Problem(key, None, f"It must be given {why}.", f"Set {key}.") for key in missing])
