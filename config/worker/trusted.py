"""Trusted connectors: they may use the workers' own topics, and groups and ids of others, in Kafka.

Decided: by connectors' names and not by a right of users, because the rule applies when records are read and sent, and
the author of the config is unknown then. The right to it is `edit` for such a name; loses: a new name needs a restart
of the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.worker.rights import NamePattern

TRUSTED: Final = "trusted.connectors"
"""The worker's setting with patterns of the names of trusted connectors."""
REMEDY: Final = f"or have the operator add the connector's name to {TRUSTED} of all workers."
"""The end of an error's advice."""


def is_trusted(connector: str, settings: Mapping[str, Any]) -> bool:
    """True if a worker with these parsed settings trusts the connector of this name."""
    return any(NamePattern(pattern).matches(connector) for pattern in settings.get(TRUSTED) or ())
