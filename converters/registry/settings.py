"""The settings of the schema registry's client, by the names of Confluent's converters."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.kafka.client_settings import SSL
from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import Check, OrNull, Range
from headrace.config.values import invalid
from headrace.plugins.interop.http.client import masked

PREFIX: Final = "schema.registry."
"""Prefix of Kafka's TLS settings."""

HEADER_PREFIX: Final = "request.header."
"""Prefix of additional HTTP headers; their keys cannot be declared one by one."""


def _wrong_urls(name: str, urls: Any) -> str | None:
    if not urls:
        return invalid(name, urls, "At least one URL of a schema registry is needed")
    return next((invalid(name, masked(url), why) for url in urls if (why := _wrong_url(url))), None)


def _wrong_url(url: str) -> str | None:
    if url.startswith("mock://"):
        return (
            "mock:// is a registry in a Java program's memory; `headrace registry start` starts a real one and "
            "prints its URL"
        )
    if "?" in url or "#" in url:
        return "It must end with host, port and path; in a password, write ? as %3F and # as %23"
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return "It cannot be read as a URL"
    if split.scheme not in ("http", "https") or not split.hostname or port == 0:
        return "It must be http://host:port or https://host:port, with a path where the registry has one"
    return None


def _key(name: str, type_: Type, default: Any, text: str, validator: Any = None) -> Setting:
    return Setting(name, type_, default, validator, Importance.LOW, text)


def _number(name: str, default: int, text: str, least: int = 0, type_: Type = Type.INT) -> Setting:
    return _key(name, type_, default, text, Range(least))


_URLS: Final = Check(_wrong_urls, "the URLs of one schema registry's nodes, separated by commas")

CLIENT_SETTINGS: Final = Settings(
    Setting(
        "schema.registry.url",
        Type.LIST,
        REQUIRED,
        _URLS,
        Importance.HIGH,
        "URLs of the schema registry's nodes, separated by commas; they are tried in turn.",
    ),
    _key("schema.registry.url.randomize", Type.BOOLEAN, False, "Begin with a random URL, not with the first."),
    _number("max.schemas.per.subject", 1000, "How many schemas of one subject are cached.", 1),
    _number("latest.cache.size", 1000, "For how many subjects the latest version is cached.", 1),
    _number("latest.cache.ttl.sec", -1, "How long a latest version is cached; -1: for ever.", -1),
    _number("missing.cache.size", 10000, "How many unknown ids and schemas are cached.", 1),
    _number("missing.id.cache.ttl.sec", 0, "How long an id is cached as unknown.", type_=Type.LONG),
    _number("missing.schema.cache.ttl.sec", 0, "How long a schema is cached as unknown.", type_=Type.LONG),
    _number("http.connect.timeout.ms", 60000, "Longest wait for a connection.", 1),
    _number("http.read.timeout.ms", 60000, "Longest wait for an answer.", 1),
    _number("max.retries", 3, "How often a request is retried after 408, 429, 5xx and I/O errors."),
    _number("retries.wait.ms", 1000, "Longest pause before the first retry; it doubles with each retry."),
    _number("retries.max.wait.ms", 20000, "Longest pause before a retry."),
    _key("proxy.host", Type.STRING, None, "HTTP proxy for requests to the registry."),
    _key("proxy.port", Type.INT, None, "The proxy's port.", OrNull(Range(1, 65535))),
    _key("basic.auth.credentials.source", Type.STRING, "URL", "URL, USER_INFO or SASL_INHERIT."),
    _key("basic.auth.user.info", Type.PASSWORD, None, "user:password, for USER_INFO."),
    _key(f"{PREFIX}basic.auth.user.info", Type.PASSWORD, None, "The older name of basic.auth.user.info."),
    _key("sasl.jaas.config", Type.PASSWORD, None, "The login of Kafka's client, for SASL_INHERIT."),
    _key("bearer.auth.credentials.source", Type.STRING, "STATIC_TOKEN", "STATIC_TOKEN or OAUTHBEARER."),
    _key("bearer.auth.token", Type.PASSWORD, None, "The token, for STATIC_TOKEN."),
    _key("bearer.auth.issuer.endpoint.url", Type.STRING, None, "The token endpoint, for OAUTHBEARER."),
    _key("bearer.auth.client.id", Type.STRING, None, "The client's id, for OAUTHBEARER."),
    _key("bearer.auth.client.secret", Type.PASSWORD, None, "The client's secret, for OAUTHBEARER."),
    _key("bearer.auth.scope", Type.STRING, None, "The requested scope, for OAUTHBEARER."),
    _key("bearer.auth.logical.cluster", Type.STRING, None, "The header target-sr-cluster."),
    _key("bearer.auth.identity.pool.id", Type.STRING, None, "The header Confluent-Identity-Pool-Id."),
    _number("bearer.auth.cache.expiry.buffer.seconds", 300, "How long before it expires a token is replaced."),
) + SSL.prefixed(PREFIX)
"""All settings of `SchemaRegistry`; a converter declares them beside its own."""
