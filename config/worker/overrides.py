"""Rules for connectors' overrides of their Kafka clients' settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.config.problems import ConfigError, Problem

PREFIXES: Final = {"producer": "producer.override.", "consumer": "consumer.override.", "admin": "admin.override."}
"""The prefixes of a connector's overrides, by kind of client."""

_NAMES: Final = ("All", "None", "Principal", "Allowlist")
_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"
_PACKAGE: Final = "org.apache.kafka.connect.connector.policy."
_PRINCIPAL: Final = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")


@dataclass(frozen=True)
class OverridePolicy:
    """One of Apache's policies; all of them refuse keys that load classes (`config/connector/clients.py`)."""

    name: str
    allowlist: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, allowlist: Sequence[str]) -> OverridePolicy:
        """The policy of a name, alias or Java class. Errors: ConfigError for any other class."""
        name = text.removeprefix(_PACKAGE).removesuffix(_SUFFIX)
        if name not in _NAMES:
            key = "connector.client.config.override.policy"
            remedy = f"Choose one of {', '.join(_NAMES)}."
            raise ConfigError(Problem(key, text, "This policy is not known; policies cannot be plugged in.", remedy))
        return cls(name, tuple(allowlist))

    def allows(self, key: str) -> bool:
        """True if a connector may set this client key."""
        allowed = {"All": True, "None": False, "Principal": key in _PRINCIPAL, "Allowlist": key in self.allowlist}
        return allowed[self.name]

    def objection(self, key: str) -> str | None:
        """Connect's error for a key that may not be overridden; None if it may."""
        if self.allows(key):
            return None
        return f"The '{self.name}' policy does not allow '{key}' to be overridden in the connector configuration."


def overrides(kind: str, connector: Mapping[str, str | None]) -> dict[str, str]:
    """A connector's overrides for its `producer`, `consumer` or `admin`, by the clients' own keys."""
    prefix = PREFIXES[kind]
    return {
        key.removeprefix(prefix): value
        for key, value in connector.items()
        if key.startswith(prefix) and value is not None
    }
