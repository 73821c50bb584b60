"""What the leader of a cluster owes it beside assignments: statuses without owners go, and a session key is there."""

from __future__ import annotations

import logging

from headrace.worker.errors import ConnectError
from headrace.worker.model import TaskId
from headrace.worker.signing import SessionKey
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.statuses import StatusStore

log = logging.getLogger(__name__)


class LeaderDuties:
    """For the deciding thread of the worker that leads."""

    def __init__(
        self,
        config: ConfigTopic,
        statuses: StatusStore,
        key_algorithm: str = "HmacSHA256",
        key_size: int | None = None,
        key_ttl_ms: int = 3_600_000,
    ) -> None:
        self._config = config
        self._statuses = statuses
        self._key = key_algorithm, key_size
        self._key_ttl_ms = key_ttl_ms

    def clean_up(self, cluster: ClusterConfig) -> None:
        """No connector and no task that is not configured has a status."""
        for name in self._statuses.connectors():
            if name not in cluster.connectors:
                self._statuses.forget(name)
                self._statuses.forget_topics(name)
            configured = {task.task for task in cluster.tasks(name)}
            for number in self._statuses.tasks(name):
                if number not in configured:
                    self._statuses.forget(TaskId(name, number))

    def keep_key(self, cluster: ClusterConfig) -> None:
        """The cluster has a session key that is not too old; where it cannot be written, a later call will."""
        key = cluster.session_key
        if key is not None and key.made_as(*self._key) and not key.expired(self._key_ttl_ms):
            return
        try:
            self._config.put_session_key(SessionKey.generate(*self._key))
        except ConnectError as error:
            log.warning("No session key could be written, it will be tried again: %s", error)
