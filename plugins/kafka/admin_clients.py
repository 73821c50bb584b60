"""Keeps Kafka admin clients, one for each config, as long as the process lives.

Decided: kept, because librdkafka 2.16 can crash when an admin client is destroyed while one of its requests is under
way or waits for a retry, and the client goes with the last reference to it; loses: a few threads for each distinct
config. Never ask a group's coordinator by them: such a request can end the process (`group_offsets.py`).
Decided: they know a partition's leader for a second only, because else librdkafka goes on for a quarter of an hour with
the leader and epoch that it knows, and answers by itself "No leaders found" if there was none; loses: one more request
when offsets are asked for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.kafka.client_key import client_key
from headrace.plugins.kafka.client_statistics import ClientStatistics

_LEADERS_MS: Final = 1_000


class KeptClient(NamedTuple):
    """A client, and the failed connections that it reports."""

    admin: AdminClient
    failures: ClientFailures


_clients: dict[str, KeptClient] = {}
_lock = threading.Lock()


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """The client of this config; its `client.id` is that of the first caller."""
    return kept_client(config).admin


def kept_client(config: Mapping[str, Any]) -> KeptClient:
    """The client of this config, with the failed connections that it reports."""
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
    """Take the reports of all clients, else they keep them; to be called now and then."""
    with _lock:
        clients = list(_clients.values())
    for client in clients:
        client.admin.poll(0)
