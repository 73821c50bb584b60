"""TLS of the schema registry's client: a Python `ssl` context from Java's stores and settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from headrace.config.tls import TlsSettings
from headrace.converters.registry.settings import PREFIX


def tls_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """The context for `schema.registry.ssl.*`; without a trust store it trusts the system's certificates.

    Errors: ConfigError.
    """
    own = {key.removeprefix(PREFIX): value for key, value in values.items() if key.startswith(f"{PREFIX}ssl.")}
    return TlsSettings(own, PREFIX).client_context()
