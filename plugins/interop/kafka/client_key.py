"""Keys for configs that one client can serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.plugins.interop.kafka.certificates import stores_of


def client_key(config: Mapping[str, Any]) -> str:
    """Return a text that is equal for librdkafka configs that only differ in `client.id` and have unchanged stores."""
    same = {name: value for name, value in config.items() if name != "client.id"}
    return json.dumps([same, stores_of(config)], sort_keys=True, default=str)
