"""Finds why a broker's certificate is refused, which librdkafka does not say; and the files of a client's stores."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from headrace.config.kafka.client_security import Tls

_MOST_SERVERS: Final = 3
_TIMEOUT_S: Final = 2.0


def wrong_certificate(config: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the certificate of one of the `bootstrap.servers`, else None; connects to them.

    Shape: `config` is librdkafka's, as made by `ClientConfig.librdkafka`.
    """
    if "ssl.endpoint.identification.algorithm" not in config:
        return None
    try:
        context = Tls(config).kafka_python()["ssl_context"]
    except (ValueError, OSError) as error:
        return f"the stores cannot be used: {error}"
    for server in str(config.get("bootstrap.servers", "")).split(",")[:_MOST_SERVERS]:
        host, _, port = server.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")),
            ):
                continue
        except ssl.SSLCertVerificationError as error:
            return f"the certificate of {server.strip()}: {error.verify_message}"
        except (OSError, ValueError):
            continue
    return None


def stores_of(config: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return path, modification time and size of a config's store files now; a client reads them at creation."""
    paths = sorted({str(value) for key, value in config.items() if key.endswith(".location")})
    found = []
    for path in paths:
        with suppress(OSError):
            status = os.stat(path)
            found.append((path, status.st_mtime_ns, status.st_size))
    return found


def with_reason(text: str | None, certificate: str | None, config: Mapping[str, Any]) -> str | None:
    """Add the reason to the text of a refused certificate, as far as brokers tell it now."""
    if text is None or certificate is None:
        return text
    reason = wrong_certificate(config)
    return text if reason is None else f"{text}: {reason}"
