"""A cluster's configuration, folded record by record from its config topic; pure, and immutable.

    cluster, event = cluster.fold(record)

| key | value | meaning |
|---|---|---|
| `target-state-<c>` | `{"state":…,"state.v2":…}` or null | the connector's target state |
| `connector-<c>` | `{"properties":{…}}`, null: deleted | its config |
| `task-<c>-<n>` | `{"properties":{…}}` | a task's config, which counts from the next commit on |
| `commit-<c>` | `{"tasks":N}` | there are N tasks, with configs before this record |
| `restart-connector-<c>` | `{"include-tasks":…,"only-failed":…}` | restart it |
| `tasks-fencing-<c>` | `{"task-count":N}` | the producers of its former first N tasks are fenced |
| `session-key` | `{"key":…,"algorithm":…,"creation-timestamp":…}` | the key that workers sign requests with |
| `logger-cluster-<namespace>` | `{"level":…}` | log it from this level on |

**The offset** is the last record's + 1, whatever its content; a record that is not JSON does not count. Workers
compare it for equality, so every worker, Java's too, has to count alike.

**Compaction** keeps the last record of each key in its place, and some day drops deletions. Thus (Invariant 7):
- A commit counts even if its connector was not seen yet: a config that was written again comes after the tasks that
  went on with it. The tasks become visible with the connector. Which config they were made from is then unknown, so the
  connector publishes them anew when it starts. (Apache forgets the tasks.)
- A deletion ends everything but the target state, the fencing count and the generation. Tasks and commits after it
  belong to the deleted connector, until the connector is configured again.
- A deletion may be dropped while the commit before it stays, so a worker that deletes a connector here deletes its
  commit too, after it. A null commit is the deletion of a connector that is unknown, and means nothing for one that
  is known: Apache ignores both. If Apache deleted it and a namesake was made a day or more later, a worker that
  starts then gives the namesake the old tasks, until the namesake starts and publishes its own.
- A commit with fewer task configs before it than it counts shows no tasks (`inconsistent`), as in Apache: a later
  writer began to replace them, and the topic holds configs of two generations.

**Bounded**: at most `most_tasks` task configs of each connector are kept; a commit of more shows no tasks.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from headrace.config.worker.settings import TASKS_BOUND
from headrace.worker.model import Config, TargetState, TaskId
from headrace.worker.storage.compacted_topic import TopicRecord
from headrace.worker.storage.signing import SessionKey

log = logging.getLogger(__name__)

TaskConfig = Mapping[str, str]


@dataclass(frozen=True)
class ConnectorChanged:
    """A connector was created or configured again, perhaps with the same config."""

    name: str


@dataclass(frozen=True)
class ConnectorRemoved:
    """A known connector was deleted."""

    name: str


@dataclass(frozen=True)
class TasksChanged:
    """A connector's tasks were committed; `tasks` are all of them, none if configs are missing."""

    name: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True)
class TargetChanged:
    """A connector's target state changed."""

    name: str


@dataclass(frozen=True)
class SessionKeyChanged:
    """The key that workers sign with changed."""


@dataclass(frozen=True)
class RestartAsked:
    """A restart was requested; `include_tasks`: of the tasks, too; `only_failed`: of failed parts only."""

    name: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True)
class LevelChanged:
    """The log level of a namespace was set for every worker."""

    namespace: str
    level: str


Event: TypeAlias = (
    ConnectorChanged | ConnectorRemoved | TasksChanged | TargetChanged | SessionKeyChanged | RestartAsked | LevelChanged
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """State of one connector; its mappings are never mutated."""

    config: Config | None = None
    """None if not seen yet, or deleted."""
    deleted: bool = False
    target: TargetState | None = None
    deferred: Mapping[int, TaskConfig] = field(default_factory=dict)
    """Task configs not yet committed."""
    tasks: tuple[TaskConfig, ...] = ()
    count: int | None = None
    inconsistent: bool = False
    applied: Config | None = None
    generation: int | None = None
    pending_fencing: bool = False
    fencing_count: int | None = None


@dataclass(frozen=True)
class ClusterConfig:
    """The cluster's configuration as of one record of its config topic; immutable, so any thread may read it."""

    offset: int = 0
    """Offset of the last record folded, + 1."""
    session_key: SessionKey | None = None
    entries: Mapping[str, _Entry] = field(default_factory=dict, repr=False)
    most_tasks: int = TASKS_BOUND.default
    """Limit of a connector's tasks; other workers, Java's too, may have written more."""

    @cached_property
    def connectors(self) -> Mapping[str, Config]:
        """Config of every connector, with variables unresolved."""
        return {name: entry.config for name, entry in self.entries.items() if entry.config is not None}

    @cached_property
    def targets(self) -> Mapping[str, TargetState]:
        """Target state of every connector."""
        return {name: self.entries[name].target or TargetState.STARTED for name in self.connectors}

    def tasks(self, name: str) -> tuple[TaskId, ...]:
        """List a connector's tasks; none if it is unknown or inconsistent."""
        return tuple(TaskId(name, number) for number in range(len(self.task_configs(name))))

    def task_configs(self, name: str) -> tuple[TaskConfig, ...]:
        """Return the configs of a connector's tasks, in order; none if it is unknown or inconsistent."""
        entry = self.entry(name)
        return () if entry.config is None or entry.inconsistent else entry.tasks

    def task_config(self, task: TaskId) -> TaskConfig:
        """Return a task's config. Errors: KeyError if there is no such task."""
        configs = self.task_configs(task.connector)
        if not 0 <= task.task < len(configs):
            raise KeyError(task)
        return configs[task.task]

    @cached_property
    def applied(self) -> Mapping[str, Config]:
        """The config that each connector's tasks were made from, if known."""
        found = {name: self.entries[name].applied for name in self.connectors}
        return {name: config for name, config in found.items() if config is not None}

    @cached_property
    def task_counts(self) -> Mapping[str, int]:
        """Number of tasks in each connector's last commit, also of inconsistent connectors."""
        found = {name: self.entries[name].count for name in self.connectors}
        return {name: count for name, count in found.items() if count is not None}

    @cached_property
    def generations(self) -> Mapping[str, int]:
        """Number of each connector's task generation, counted from 0 as far as the topic shows."""
        return {name: entry.generation for name, entry in self.entries.items() if entry.generation is not None}

    @cached_property
    def fencing_counts(self) -> Mapping[str, int]:
        """Number of tasks in each connector's last fencing record; only exactly-once sources have one."""
        return {name: entry.fencing_count for name, entry in self.entries.items() if entry.fencing_count is not None}

    @cached_property
    def pending_fencing(self) -> frozenset[str]:
        """Connectors whose tasks were committed after the last fencing."""
        return frozenset(name for name in self.connectors if self.entries[name].pending_fencing)

    @cached_property
    def inconsistent(self) -> frozenset[str]:
        """Connectors whose last commit lacks task configs."""
        return frozenset(name for name in self.connectors if self.entries[name].inconsistent)

    def fold(self, record: TopicRecord) -> tuple[ClusterConfig, Event | None]:
        """Return the configuration with this record, and the event; an invalid record is logged and ignored."""
        try:
            value = None if record.value is None else json.loads(record.value)
        except ValueError as error:
            log.error("The record at %d of the config topic is not JSON (%s): passed over", record.offset, error)
            return self, None
        moved = replace(self, offset=record.offset + 1)
        key = (record.key or b"").decode(errors="replace")
        for prefix, meaning in _MEANINGS.items():
            if key.startswith(prefix) and (prefix != _SESSION_KEY or key == prefix):
                try:
                    return meaning(moved, key.removeprefix(prefix), value)
                except _Senseless as why:
                    log.error("The record of %s at %d of the config topic %s: ignored", key, record.offset, why)
                    return moved, None
        log.error("The record of %r at %d of the config topic has an unknown key: ignored", key, record.offset)
        return moved, None

    def entry(self, name: str) -> _Entry:
        """Return everything known under this name."""
        return self.entries.get(name, _NOTHING)

    def having(self, name: str, entry: _Entry) -> ClusterConfig:
        """Return a copy with this entry under the name."""
        return replace(self, entries={**self.entries, name: entry})


class _Senseless(Exception):
    """An invalid record; the text never shows the value, which may contain secrets (Invariant 6)."""


_Folded: TypeAlias = tuple[ClusterConfig, Event | None]
_NOTHING: Final = _Entry()
_SESSION_KEY: Final = "session-key"


def _target_state(cluster: ClusterConfig, name: str, value: Any) -> _Folded:
    entry = cluster.entry(name)
    if value is None:
        return cluster.having(name, replace(entry, target=None)), None
    states = [value.get(member) for member in ("state.v2", "state")] if isinstance(value, dict) else []
    try:
        target = TargetState(next((state for state in states if isinstance(state, str)), ""))
    except ValueError:
        raise _Senseless(f"has {states} as its state") from None
    changed = entry.config is not None and target is not (entry.target or TargetState.STARTED)
    return cluster.having(name, replace(entry, target=target)), TargetChanged(name) if changed else None


def _connector(cluster: ClusterConfig, name: str, value: Any) -> _Folded:
    entry = cluster.entry(name)
    if value is not None:
        config = _properties(value)
        return cluster.having(name, replace(entry, config=config, deleted=False)), ConnectorChanged(name)
    return cluster.having(name, _deleted(entry)), None if entry.config is None else ConnectorRemoved(name)


def _deleted(entry: _Entry) -> _Entry:
    return _Entry(deleted=True, target=entry.target, generation=entry.generation, fencing_count=entry.fencing_count)


def _task(cluster: ClusterConfig, name_and_number: str, value: Any) -> _Folded:
    name, _, number = name_and_number.rpartition("-")
    if not name or not number.isdecimal():
        raise _Senseless("does not end with the number of a task")
    if value is None:
        raise _Senseless("is null")
    config = {key: text for key, text in _properties(value).items() if text is not None}
    entry = cluster.entry(name)
    if entry.deleted or int(number) >= cluster.most_tasks:
        return cluster, None
    return cluster.having(name, replace(entry, deferred={**entry.deferred, int(number): config})), None


def _commit(cluster: ClusterConfig, name: str, value: Any) -> _Folded:
    entry = cluster.entry(name)
    if entry.deleted:
        return cluster, None
    if value is None and entry.config is None:
        return cluster.having(name, _deleted(entry)), None
    count = _number(value, "tasks")
    if count > cluster.most_tasks:
        log.error(
            "Connector %s has %d tasks, and this worker allows %d, so none of them runs here: lower the connector's "
            "tasks.max, or raise %s of every worker",
            *(name, count, cluster.most_tasks, TASKS_BOUND.name),
        )
    complete = all(number in entry.deferred for number in range(count))
    generation = entry.generation
    if complete and entry.deferred:
        generation = 0 if generation is None else generation + 1
    committed = replace(
        entry,
        deferred={},
        tasks=tuple(entry.deferred[number] for number in range(count)) if complete else entry.tasks,
        count=count,
        inconsistent=not complete,
        applied=entry.config if complete else entry.applied,
        generation=generation,
        pending_fencing=True,
    )
    if entry.config is None:
        return cluster.having(name, committed), None
    tasks = tuple(TaskId(name, number) for number in range(count)) if complete else ()
    return cluster.having(name, committed), TasksChanged(name, tasks)


def _restart(cluster: ClusterConfig, name: str, value: Any) -> _Folded:
    if not isinstance(value, dict):
        raise _Senseless("is no JSON object")
    return cluster, RestartAsked(name, value.get("include-tasks") is True, value.get("only-failed") is True)


def _fencing(cluster: ClusterConfig, name: str, value: Any) -> _Folded:
    count = _number(value, "task-count")
    return cluster.having(name, replace(cluster.entry(name), fencing_count=count, pending_fencing=False)), None


def _session_key(cluster: ClusterConfig, _: str, value: Any) -> _Folded:
    try:
        return replace(cluster, session_key=SessionKey.of_value(value)), SessionKeyChanged()
    except ValueError as error:
        raise _Senseless(str(error)) from None


def _level(cluster: ClusterConfig, namespace: str, value: Any) -> _Folded:
    level = value.get("level") if isinstance(value, dict) else None
    if not isinstance(level, str):
        raise _Senseless("names no level")
    return cluster, LevelChanged(namespace, level)


_MEANINGS: Final[Mapping[str, Callable[[ClusterConfig, str, Any], _Folded]]] = {
    "target-state-": _target_state,
    "connector-": _connector,
    "task-": _task,
    "commit-": _commit,
    "restart-connector-": _restart,
    "tasks-fencing-": _fencing,
    _SESSION_KEY: _session_key,
    "logger-cluster-": _level,
}
"""Handlers by prefix of the key, tried in this order."""


def _properties(value: Any) -> dict[str, str | None]:
    properties = value.get("properties") if isinstance(value, dict) else None
    if not isinstance(properties, dict):
        raise _Senseless("has no properties")
    return {
        key: text if text is None or isinstance(text, str) else json.dumps(text) for key, text in properties.items()
    }


def _number(value: Any, member: str) -> int:
    number = value.get(member) if isinstance(value, dict) else None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise _Senseless(f"has no number {member}")
    return int(number)
