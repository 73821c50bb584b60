"""Keeps Kafka admin clients, one for each config, for the life of the process.

Decided: kept, because librdkafka 2.16 can crash if an admin client is destroyed while one of its requests is under way
or waits for a retry, and the client goes with its last reference; loses: a few threads for each distinct config. Never
use them for requests to a group's coordinator: such a request can end the process (`group_offsets.py`).

Decided: they cache a partition's leader for only a second, because librdkafka otherwise uses a known leader and epoch
for a quarter of an hour, and answers "No leaders found" itself if there was none; loses: one more request for each
query of offsets.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.interop.kafka.client_key import client_key
from headrace.plugins.interop.kafka.client_statistics import ClientStatistics

_LEADERS_MS: Final = 1_000


class KeptClient(NamedTuple):
    """A client with the failed connections that it reports."""

    admin: AdminClient
    failures: ClientFailures


_clients: dict[str, KeptClient] = {}
_lock = threading.Lock()


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """Return the client of this config; its `client.id` is that of the first caller."""
    return kept_client(config).admin


def kept_client(config: Mapping[str, Any]) -> KeptClient:
    """Return the client of this config with the failed connections that it reports."""
    key = client_key(config)
    with _lock:
        if key not in _clients:
            failures = ClientFailures()
            statistics = ClientStatistics("admin-client", config)
            own: dict[str, Any] = {**config, "metadata.max.age.ms": _LEADERS_MS, "error_cb": failures}
            admin = AdminClient({**own, **statistics.settings()}, logger=logging.getLogger(f"{__name__}.client"))
            statistics.watch(admin)
            _clients[key] = KeptClient(admin, failures)
        return _clients[key]


def poll_clients() -> None:
    """Take the reports of all clients, which otherwise accumulate; to be called now and then."""
    with _lock:
        clients = list(_clients.values())
    for client in clients:
        client.admin.poll(0)
