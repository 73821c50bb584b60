"""The amount under way at once: for clusters near each other, or for a long distance (`mirror.profile=wan`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.copy.fetching import FetchLimits

PROFILE: Final = "mirror.profile"
_MIB: Final = 1 << 20
_NEAR: Final = FetchLimits()
_WAN: Final = FetchLimits(
    most_bytes=64 * _MIB, partition_bytes=16 * _MIB, ahead_bytes=32 * _MIB, memory_bytes=128 * _MIB
)
_WAN_CLIENT: Final = {"receive.buffer.bytes": str(8 * _MIB), "send.buffer.bytes": str(8 * _MIB)}


def is_wan(config: Mapping[str, str]) -> bool:
    """True if the clusters are far from each other. Errors: ConfigError."""
    name = config.get(PROFILE, "").strip().lower()
    if name not in ("", "default", "wan"):
        message = f"{PROFILE}={name} is not known."
        raise ConfigError(Problem(PROFILE, name, message, "Set it to wan for a long distance, or remove it."))
    return name == "wan"


def fetch_limits(config: Mapping[str, str], consumer: ClientConfig) -> FetchLimits:
    """The bounds of fetching; the consumer's own settings win. Errors: ConfigError."""
    limits = _WAN if is_wan(config) else _NEAR
    named = {
        "wait_ms": "fetch.max.wait.ms",
        "least_bytes": "fetch.min.bytes",
        "most_bytes": "fetch.max.bytes",
        "partition_bytes": "max.partition.fetch.bytes",
    }
    given = {field: consumer[key] for field, key in named.items() if key in consumer.java}
    return limits._replace(**given)


def tuned(config: Mapping[str, str], client: ClientConfig) -> ClientConfig:
    """The client with the profile's socket buffers, unless it sets its own. Errors: ConfigError."""
    return ClientConfig(client.kind, {**_WAN_CLIENT, **client.java}) if is_wan(config) else client
