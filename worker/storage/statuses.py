"""Stores of statuses: the contract, and the one in memory; `status_topic.py` has the one over the status topic."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from headrace.worker.model import State, Status, TaskId


class StatusStore(ABC):
    """Last status of every connector and task, and the topics that connectors used. Any thread may call it.

    A connector's key is its name, a task's is its `TaskId`.
    """

    @abstractmethod
    def put(self, who: str | TaskId, status: Status) -> None:
        """Set the status."""

    @abstractmethod
    def put_safe(self, who: str | TaskId, status: Status) -> bool:
        """Set the status unless another worker has put one of a later generation; returns True if it was set."""

    def tell(self, who: str | TaskId, status: Status) -> None:
        """Set the status; FAILED and UNASSIGNED by `put_safe`: they may come late, after another worker took over."""
        if status.state in (State.FAILED, State.UNASSIGNED):
            self.put_safe(who, status)
        else:
            self.put(who, status)

    @abstractmethod
    def get(self, who: str | TaskId) -> Status | None:
        """Return the last status; None if unknown."""

    @abstractmethod
    def tasks(self, connector: str) -> dict[int, Status]:
        """Return the last status of each of the connector's tasks, by number."""

    @abstractmethod
    def connectors(self) -> list[str]:
        """List the connectors that have a status, or a task with one."""

    @abstractmethod
    def forget(self, who: str | TaskId) -> None:
        """Remove the status; a connector's includes those of its tasks."""

    @abstractmethod
    def put_topic(self, task: TaskId, topic: str) -> None:
        """Note that the task used the topic; cheap if known already."""

    @abstractmethod
    def topics(self, connector: str) -> list[str]:
        """List the topics that the connector's tasks used, sorted."""

    @abstractmethod
    def forget_topics(self, connector: str) -> None:
        """Forget the topics that the connector's tasks used."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until the statuses put so far are stored for other workers; returns False after `timeout_s`."""
        return True


class MemoryStatusStore(StatusStore):
    """Statuses in memory, lost with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, frozenset[str]] = {}

    def put(self, who: str | TaskId, status: Status) -> None:
        with self._lock:
            self._put(who, status)

    def put_safe(self, who: str | TaskId, status: Status) -> bool:
        with self._lock:
            if not may_replace(self.get(who), status):
                return False
            self._put(who, status)
            return True

    def get(self, who: str | TaskId) -> Status | None:
        if isinstance(who, TaskId):
            return self._tasks.get(who.connector, {}).get(who.task)
        return self._connectors.get(who)

    def tasks(self, connector: str) -> dict[int, Status]:
        with self._lock:
            return dict(sorted(self._tasks.get(connector, {}).items()))

    def connectors(self) -> list[str]:
        with self._lock:
            return sorted({*self._connectors, *self._tasks})

    def forget(self, who: str | TaskId) -> None:
        with self._lock:
            if not isinstance(who, TaskId):
                self._connectors.pop(who, None)
                self._tasks.pop(who, None)
                return
            of_connector = self._tasks.get(who.connector, {})
            of_connector.pop(who.task, None)
            if not of_connector:
                self._tasks.pop(who.connector, None)

    def forget_alone(self, connector: str) -> None:
        """Remove the connector's status; its tasks keep theirs."""
        with self._lock:
            self._connectors.pop(connector, None)

    def put_topic(self, task: TaskId, topic: str) -> None:
        if not self.uses(task.connector, topic):
            with self._lock:
                self._topics[task.connector] = self._topics.get(task.connector, frozenset()) | {topic}

    def uses(self, connector: str, topic: str) -> bool:
        """True if a task of the connector used the topic."""
        return topic in self._topics.get(connector, frozenset())

    def topics(self, connector: str) -> list[str]:
        return sorted(self._topics.get(connector, frozenset()))

    def forget_topic(self, connector: str, topic: str) -> None:
        """Remove one topic from those that the connector's tasks used."""
        with self._lock:
            left = self._topics.pop(connector, frozenset()) - {topic}
            if left:
                self._topics[connector] = left

    def forget_topics(self, connector: str) -> None:
        with self._lock:
            self._topics.pop(connector, None)

    def _put(self, who: str | TaskId, status: Status) -> None:
        if isinstance(who, TaskId):
            self._tasks.setdefault(who.connector, {})[who.task] = status
        else:
            self._connectors[who] = status


def may_replace(last: Status | None, status: Status) -> bool:
    """True if `last` is not another worker's of a later generation."""
    return last is None or last.worker_id == status.worker_id or last.generation <= status.generation
