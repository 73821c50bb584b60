"""The URLs of the other workers of a group, as the brokers know them.

Decided: asked of Kafka, because the leader alone is told the members' URLs, and it may be a Java worker, which tells
nobody; loses: a request to each broker, at most every `_KEPT_S`, when a page is looked at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from headrace.config.connector import clients
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.errors import ConnectError
from headrace.worker.group.protocol import Subscription
from headrace.worker.kafka.consumer_groups import members

_KEPT_S: Final = 10.0
_ASK_S: Final = 3.0


class GroupUrls:
    """The URLs of one worker's group; any thread may ask."""

    def __init__(self, config: WorkerConfig, own: str) -> None:
        """`own`: this worker's URL."""
        self._config = config
        self._own = own
        self._lock = threading.Lock()
        self._others: Sequence[str] = ()
        self._asked = float("-inf")

    def others(self) -> Sequence[str]:
        """Return the URLs of the other members; those known last while the group rebalances. Errors: ConnectError."""
        with self._lock:
            if time.monotonic() - self._asked > _KEPT_S:
                found = self._found()
                self._others = self._others if found is None else found
                self._asked = time.monotonic()
            return self._others

    def _found(self) -> Sequence[str] | None:
        """Ask Kafka; None while the group rebalances. Errors: ConnectError."""
        admin = admin_client(clients.internal_admin(self._config).librdkafka())
        subscriptions = [one.subscription for one in members(admin, self._config["group.id"], _ASK_S)]
        if not all(subscriptions):
            return None
        try:
            urls = {Subscription.decode(one).url for one in subscriptions}
        except ValueError as error:
            group = self._config["group.id"]
            raise ConnectError(f"The group {group} has a member that is no worker: {error}") from error
        return sorted(urls - {self._own})
