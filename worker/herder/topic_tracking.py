"""Tracks the topics that connectors use, among the statuses (`topic.tracking.enable`, `topic.tracking.allow.reset`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.worker.errors import Forbidden
from headrace.worker.model import TaskId
from headrace.worker.storage.statuses import StatusStore


class TopicTracking:
    """Notes the topics that tasks use, and forgets them on request. Any thread may call it."""

    def __init__(self, statuses: StatusStore, settings: Mapping[str, Any]) -> None:
        """`settings`: the worker's, parsed."""
        self._statuses = statuses
        self._enabled: bool = settings["topic.tracking.enable"]
        self._reset_allowed: bool = settings["topic.tracking.allow.reset"]

    def used(self, task: TaskId, topic: str) -> None:
        """Note that the task uses the topic; cheap enough for every batch."""
        if self._enabled:
            self._statuses.put_topic(task, topic)

    def topics(self, connector: str) -> list[str]:
        """List the topics that the connector's tasks used since the last reset. Errors: Forbidden if not enabled."""
        self._check_enabled()
        return self._statuses.topics(connector)

    def reset(self, connector: str) -> None:
        """Forget the topics that the connector's tasks used. Errors: Forbidden if tracking or its reset is disabled."""
        self._check_enabled()
        if not self._reset_allowed:
            raise Forbidden("Topic tracking reset is disabled.")
        self._statuses.forget_topics(connector)

    def _check_enabled(self) -> None:
        if not self._enabled:
            raise Forbidden("Topic tracking is disabled.")
