"""The connectors and tasks that a worker of a cluster was assigned."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from headrace.worker.model import TaskId

_SHOWN: Final = 50


class ConnectorsAndTasks(NamedTuple):
    """A set of connectors and tasks."""

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()

    @classmethod
    def of(cls, connectors: Collection[str] = (), tasks: Collection[TaskId] = ()) -> ConnectorsAndTasks:
        """Make a set of these connectors and tasks."""
        return cls(frozenset(connectors), frozenset(tasks))

    def with_(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """The connectors and tasks of either set."""
        return ConnectorsAndTasks(self.connectors | other.connectors, self.tasks | other.tasks)

    def without(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """The connectors and tasks of this set that are not in the other."""
        return ConnectorsAndTasks(self.connectors - other.connectors, self.tasks - other.tasks)

    def common(self, other: ConnectorsAndTasks) -> ConnectorsAndTasks:
        """The connectors and tasks of both sets."""
        return ConnectorsAndTasks(self.connectors & other.connectors, self.tasks & other.tasks)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __str__(self) -> str:
        connectors = [f"connectors {_shown(self.connectors)}"] if self.connectors else []
        tasks = [f"tasks {_shown(self.tasks)}"] if self.tasks else []
        return " and ".join(connectors + tasks) or "nothing"


def _shown(items: Collection[str | TaskId]) -> str:
    shown = ", ".join(map(str, sorted(items)[:_SHOWN]))
    left = len(items) - _SHOWN
    return f"[{shown}, and {left} more]" if left > 0 else f"[{shown}]"
