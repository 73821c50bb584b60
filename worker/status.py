"""Where statuses are kept: in memory here; a store on the status topic answers the same calls."""

from __future__ import annotations

import re
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable

from headrace.config.values import HIDDEN
from headrace.worker.herder import Status, TaskId


class StatusStore(ABC):
    """The last status of every connector and task, and the topics that connectors used.

    A connector is known by its name, a task by its `TaskId`. Any thread may call.
    """

    @abstractmethod
    def put(self, who: str | TaskId, status: Status) -> None:
        """This is its status."""

    @abstractmethod
    def put_safe(self, who: str | TaskId, status: Status) -> bool:
        """This is its status, unless another worker has put one of this generation or a later one since."""

    @abstractmethod
    def get(self, who: str | TaskId) -> Status | None:
        """Its last status."""

    @abstractmethod
    def tasks(self, connector: str) -> dict[int, Status]:
        """The last status of each of its tasks, by number."""

    @abstractmethod
    def forget(self, who: str | TaskId) -> None:
        """It has no status."""

    @abstractmethod
    def put_topic(self, task: TaskId, topic: str) -> None:
        """The task used the topic; cheap where that is known already."""

    @abstractmethod
    def topics(self, connector: str) -> list[str]:
        """The topics that its tasks used, sorted."""

    @abstractmethod
    def forget_topics(self, connector: str) -> None:
        """Its tasks used no topic."""


class MemoryStatusStore(StatusStore):
    """Statuses that end with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statuses: dict[str | TaskId, Status] = {}
        self._topics: dict[str, frozenset[str]] = {}

    def put(self, who: str | TaskId, status: Status) -> None:
        with self._lock:
            self._statuses[who] = status

    def put_safe(self, who: str | TaskId, status: Status) -> bool:
        with self._lock:
            last = self._statuses.get(who)
            if last is not None and last.worker_id != status.worker_id and last.generation >= status.generation:
                return False
            self._statuses[who] = status
            return True

    def get(self, who: str | TaskId) -> Status | None:
        return self._statuses.get(who)

    def tasks(self, connector: str) -> dict[int, Status]:
        with self._lock:
            found = {
                who.task: status
                for who, status in self._statuses.items()
                if isinstance(who, TaskId) and who.connector == connector
            }
        return dict(sorted(found.items()))

    def forget(self, who: str | TaskId) -> None:
        with self._lock:
            self._statuses.pop(who, None)

    def put_topic(self, task: TaskId, topic: str) -> None:
        if topic in self._topics.get(task.connector, frozenset()):
            return
        with self._lock:
            self._topics[task.connector] = self._topics.get(task.connector, frozenset()) | {topic}

    def topics(self, connector: str) -> list[str]:
        return sorted(self._topics.get(connector, frozenset()))

    def forget_topics(self, connector: str) -> None:
        with self._lock:
            self._topics.pop(connector, None)


def trace_of(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The trace that a FAILED status shows: `module.Exception: message`, as in Java, then where it was raised.

    `secrets` are hidden wherever they stand in it. (Invariant 6: a secret never reaches a status.)
    """
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    frames = "".join(traceback.format_exception(error)).rstrip()
    return masked(f"{module}{kind.__qualname__}: {error}\n{frames}", secrets)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with each secret hidden, longer ones first; shorter than three characters they say nothing."""
    known = sorted({secret for secret in secrets if len(secret) > 2}, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, known)), HIDDEN, text) if known else text
