"""Admin clients of Kafka, one for each configuration, kept for as long as the process lives; and their answers.

Decided: kept, because librdkafka 2.16 can crash when an admin client is destroyed while a request of its is under way
or waits to be tried again, and the client goes with the last reference to it; loses: a few threads for each distinct
configuration. Never ask them for the offsets of groups (`plugins/kafka/group_offsets.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from headrace.config.kafka.client_failures import ClientFailures
from headrace.plugins.kafka import group_offsets
from headrace.plugins.kafka.client_key import client_key
from headrace.worker.kafka.client_statistics import ClientStatistics

REQUEST_TIMEOUT_S: Final = 10.0
"""After so long the client itself answers a request with an error."""
_CHECK_EVERY_S: Final = 0.25


class KeptClient(NamedTuple):
    """A client, and what it hears of failed connections."""

    admin: AdminClient
    failures: ClientFailures


_clients: dict[str, KeptClient] = {}
_lock = threading.Lock()


def admin_client(config: Mapping[str, Any]) -> AdminClient:
    """The client of this configuration; its `client.id` is that of the first caller."""
    return kept_client(config).admin


def kept_client(config: Mapping[str, Any]) -> KeptClient:
    """As `admin_client`, with what it hears of failed connections."""
    key = client_key(config)
    with _lock:
        if key not in _clients:
            failures = ClientFailures()
            statistics = ClientStatistics("admin-client", config)
            own: dict[str, Any] = {**config, "error_cb": failures, **statistics.settings()}
            _clients[key] = KeptClient(AdminClient(own, logger=logging.getLogger(f"{__name__}.client")), failures)
        return _clients[key]


def poll_clients() -> None:
    """Have all clients hand out what they report, which they would keep; to be called now and then."""
    with _lock:
        clients = list(_clients.values())
    for client in clients:
        client.admin.poll(0)
    group_offsets.poll_clients()


def answered(future: Future[Any], check: Callable[[], object]) -> Any:
    """Wait for the answer to a request; meanwhile `check` is called often, and raises to give up.

    Errors: KafkaException, and what `check` raises.
    """
    while True:
        try:
            return future.result(_CHECK_EVERY_S)
        except TimeoutError:
            check()
