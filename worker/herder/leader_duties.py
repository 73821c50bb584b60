"""A leader's duties besides assignments: removes stale statuses and keeps the session key."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from headrace.worker.errors import ConnectError
from headrace.worker.model import TaskId
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import SessionKey
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)


class LeaderDuties:
    """Duties of the leading worker; for its deciding thread."""

    def __init__(
        self,
        config: ConfigTopic,
        statuses: StatusStore,
        settings: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`settings`: the worker's, parsed."""
        self._clock = clock
        self._seen: tuple[SessionKey, float] | None = None
        """The last key seen, and its time of expiry."""
        self._config = config
        self._statuses = statuses
        self._key = settings["inter.worker.key.generation.algorithm"], settings["inter.worker.key.size"]
        self._key_ttl_ms: int = settings["inter.worker.key.ttl.ms"]

    def clean_up(self, cluster: ClusterConfig) -> None:
        """Remove the statuses of connectors and tasks that are not configured."""
        for name in self._statuses.connectors():
            if name not in cluster.connectors:
                self._statuses.forget(name)
                self._statuses.forget_topics(name)
            configured = {task.task for task in cluster.tasks(name)}
            for number in self._statuses.tasks(name):
                if number not in configured:
                    self._statuses.forget(TaskId(name, number))

    def keep_key(self, cluster: ClusterConfig) -> None:
        """Write a session key if there is none, or it is too old or of another kind; a later call retries a failure."""
        key = cluster.session_key
        if key is not None and key.made_as(*self._key) and not self._expired(key):
            return
        try:
            self._config.put_session_key(SessionKey.generate(*self._key))
        except ConnectError as error:
            log.warning("No session key could be written, trying again: %s", error)

    def _expired(self, key: SessionKey) -> bool:
        """True if the key is too old.

        The wall clock is read once for each key: setting it back or forward later changes nothing.
        """
        if self._key_ttl_ms <= 0:
            return False
        if self._seen is None or self._seen[0] != key:
            self._seen = key, self._clock() + key.left_ms(self._key_ttl_ms) / 1000
        return self._clock() >= self._seen[1]
