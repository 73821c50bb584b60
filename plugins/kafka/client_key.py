"""Which configurations one client can serve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.plugins.kafka.certificates import stores_of


def client_key(config: Mapping[str, Any]) -> str:
    """The same text for configs of librdkafka that differ in `client.id` alone, while their stores are the same."""
    same = {name: value for name, value in config.items() if name != "client.id"}
    return json.dumps([same, stores_of(config)], sort_keys=True, default=str)
