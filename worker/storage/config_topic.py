"""The config topic: reads and follows the cluster's configuration, and writes it as Apache does, byte for byte.

Leaders write connectors, tasks, restarts and session keys, one write at a time; any worker writes targets and log
levels. A write has 30 seconds. When it is done, `snapshot` shows it if Apache reads to the end after it, too; targets
except STOPPED, restarts and levels show once they are read.

Decided: unchanged tasks are published again when their connector is configured again, unless its config changed and it
is to run: then it publishes its tasks when it starts, since the old ones were made from another config. Else compaction
would leave the commit ahead of the connector's record, and Apache's workers lose such tasks when they start; loses: a
connector that is configured again with the same config has its tasks restarted, and a Java worker that starts while
such a connector fails to start may still miss its tasks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from headrace.config.connector import clients
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import TASKS_BOUND
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.java.jackson import java_json
from headrace.worker.errors import BadRequest, Conflict, ConnectError, NotFound, TooLarge
from headrace.worker.model import Config, TargetState
from headrace.worker.requester import requester
from headrace.worker.storage.cluster_config import ClusterConfig, Event
from headrace.worker.storage.compacted_topic import CompactedTopic, TopicRecord, TopicSettings
from headrace.worker.storage.history_topic import HistoryTopic, connector_in
from headrace.worker.storage.leader_writer import LeaderWriter, NotWritten
from headrace.worker.storage.signing import SessionKey

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 30.0
_CLAIM_SECONDS: Final = 5.0


class ConfigTopic:
    """The cluster's configuration as read by this worker. Any thread may call it; the topic's own must not wait."""

    def __init__(self, worker: WorkerConfig, history: HistoryTopic | None = None) -> None:
        """`history`: records the changes. Errors: ConfigError if the clients' settings cannot be served."""
        self._history = history
        settings = TopicSettings.of(worker, "config")
        self._topic = CompactedTopic(settings, self._take)
        self._leader: LeaderWriter | None = None
        if worker.exactly_once != "disabled":
            self._leader = LeaderWriter(settings.topic, clients.leader_producer(worker))
        self._state = ClusterConfig(most_tasks=worker[TASKS_BOUND.name])
        self._started = False
        self._writing = threading.Lock()
        self._follower: Callable[[Event, int], None] | None = None

    def start(self, timeout_s: float) -> None:
        """Read the topic to its end, and follow it. Errors: as `CompactedTopic.start`; call `stop` then."""
        self._topic.start(timeout_s)
        self._started = True

    def follow(self, follower: Callable[[Event, int], None]) -> None:
        """Call `follower`, on the topic's thread, with each later event and the configuration's offset after it."""
        self._follower = follower

    def stop(self) -> None:
        """Stop reading and writing."""
        self._topic.stop()

    def lead(self, leads: bool) -> None:
        """Note if this worker leads; a leader fences the former one if sources may be exactly-once."""
        if self._leader is None:
            return
        if not leads:
            self._leader.give_up()
            return
        try:
            self._leader.claim(_CLAIM_SECONDS)
        except NotWritten as error:
            log.warning("The first write as the leader will try again: %s", error)

    def snapshot(self) -> ClusterConfig:
        """Return the configuration as read so far."""
        return self._state

    def refresh(self, timeout_s: float) -> ClusterConfig:
        """Read the topic to its end; returns the configuration. Errors: TimedOut; ConnectError."""
        try:
            self._topic.read_to_end(timeout_s)
        except StoppedError as error:
            raise ConnectError(str(error)) from error
        return self._state

    def put_connector(self, name: str, config: Config, target: TargetState | None = None) -> None:
        """Write the connector's config, and its target state if given. Errors: ConnectError."""
        with self._write("Error writing connector configuration to Kafka") as write:
            was = self._state.connectors.get(name)
            records: list[tuple[str, Any]] = [(f"connector-{name}", {"properties": dict(config)})]
            if target is not None and target is not self._state.targets.get(name, TargetState.STARTED):
                records.insert(0, (f"target-state-{name}", _target(target)))
            write.send(*records)
            write.refresh()
            starts = was != config and self._state.targets.get(name) is TargetState.STARTED
            tasks = self._state.task_configs(name)
            if tasks and not starts:
                self._put_tasks(write, name, tasks)

    def remove_connector(self, name: str) -> None:
        """Delete the connector. Errors: ConnectError."""
        with self._write("Error removing connector configuration from Kafka") as write:
            # Delete the commit too, lest compaction leave it to a namesake (see cluster_config); Apache ignores that.
            write.send((f"connector-{name}", None), (f"commit-{name}", None), (f"target-state-{name}", None))
            write.refresh()

    def put_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Write the connector's task configs.

        Errors: NotFound if it has been deleted; BadRequest if it is STOPPED; nothing is written then. ConnectError.
        """
        with self._write("Error writing task configurations to Kafka") as write:
            write.refresh()
            if name not in self._state.connectors:
                raise NotFound(f"Connector {name} not found")
            if configs and self._state.targets[name] is TargetState.STOPPED:
                raise BadRequest(f"Cannot submit non-empty set of task configs for stopped connector {name}")
            self._put_tasks(write, name, configs)

    def put_stopped(self, name: str) -> None:
        """Remove the connector's tasks and set it to STOPPED; then it gets no tasks. Errors: ConnectError."""
        with self._write("Error writing task configurations to Kafka") as write:
            self._put_tasks(write, name, [])
            write.failed = "Error writing target state to Kafka"
            write.send((f"target-state-{name}", _target(TargetState.STOPPED)))
            write.refresh()

    def put_target(self, name: str, target: TargetState) -> None:
        """Write the connector's target state. Errors: ConnectError."""
        with self._write("Error writing target state to Kafka", leads=False) as write:
            write.send((f"target-state-{name}", _target(target)))

    def put_restart(self, name: str, include_tasks: bool, only_failed: bool) -> None:
        """Request a restart of the connector; `include_tasks`: of its tasks, too; `only_failed`: of failed parts only.

        Errors: ConnectError.
        """
        asked = f"restart request for {{connectorName='{name}', onlyFailed={_java(only_failed)}, "
        with self._write(f"Error writing {asked}includeTasks={_java(include_tasks)}}} to Kafka") as write:
            value = {"include-tasks": include_tasks, "only-failed": only_failed}
            write.send((f"restart-connector-{name}", value))

    def put_fencing(self, name: str, count: int, generation: int | None) -> None:
        """Write that the connector's former tasks are fenced and that it has `count` tasks of this generation.

        Errors: Conflict if its tasks have changed; ConnectError.
        """
        with self._write("Error writing task count record to Kafka") as write:
            write.refresh()
            if self._state.generations.get(name) != generation or len(self._state.tasks(name)) != count:
                raise Conflict(
                    f"Fencing failed because new task configurations were generated for the connector {name}"
                )
            write.send((f"tasks-fencing-{name}", {"task-count": count}))
            write.refresh()

    def put_session_key(self, key: SessionKey) -> None:
        """Write the key that workers sign with. Errors: ConnectError."""
        with self._write("Error writing session key to Kafka") as write:
            write.send(("session-key", key.value()))
            write.refresh()

    def put_level(self, namespace: str, level: str) -> None:
        """Set the namespace's log level on every worker. Errors: ConnectError."""
        with self._write("Error writing logger level to Kafka", leads=False) as write:
            write.send((f"logger-cluster-{namespace}", {"level": level}))

    def _put_tasks(self, write: _Write, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        if configs:
            # All arrive before the commit is sent: a commit without all its configs ends the tasks.
            write.send(*((f"task-{name}-{n}", {"properties": dict(config)}) for n, config in enumerate(configs)))
        write.failed = "Error writing root configuration to Kafka"
        write.send((f"commit-{name}", {"tasks": len(configs)}))
        write.refresh()

    @contextmanager
    def _write(self, failed: str, leads: bool = True) -> Iterator[_Write]:
        """Do one write within its budget; leaders' writes exclude each other.

        Errors: ConnectError with the text `failed` and its cause; those of requests (NotFound and the like) unchanged.
        """
        write = _Write(self._topic, failed, self._leader if leads else None, self._history)
        lock = self._writing if leads else nullcontext()
        try:
            with lock:
                yield write
        except (ConnectError, StoppedError) as error:
            if isinstance(error, NotFound | BadRequest | Conflict | NotWritten | TooLarge):
                raise
            raise ConnectError(write.failed) from error

    def _take(self, record: TopicRecord) -> None:
        self._state, event = self._state.fold(record)
        if self._history is not None and (name := connector_in(record.key)) is not None:
            self._history.saw(name, self._state, record)
        # Requests made before this worker's start are not for it.
        if event is not None and self._started and self._follower is not None:
            self._follower(event, self._state.offset)


class _Write:
    """One write, with its remaining time and the text of its failure."""

    def __init__(
        self, topic: CompactedTopic, failed: str, leader: LeaderWriter | None, history: HistoryTopic | None
    ) -> None:
        self.failed = failed
        self._history = history
        self._topic = topic
        self._leader = leader
        self._until = time.monotonic() + WRITE_SECONDS

    def send(self, *records: tuple[str, Any]) -> None:
        """Send records; waits until all replicas have them. Errors: as `send_all` of the topic or of `LeaderWriter`."""
        encoded = [(key.encode(), None if value is None else java_json(value).encode()) for key, value in records]
        offsets = (self._leader or self._topic).send_all(encoded, self._left)
        who = requester()
        if self._history is not None and who is not None:
            made = [offset for offset, (key, _) in zip(offsets, encoded, strict=False) if connector_in(key)]
            self._history.made(made, who)

    def refresh(self) -> None:
        self._topic.read_to_end(self._left)

    @property
    def _left(self) -> float:
        return self._until - time.monotonic()


def _target(target: TargetState) -> dict[str, str]:
    # Workers before 3.5 do not know STOPPED.
    before = TargetState.PAUSED if target is TargetState.STOPPED else target
    return {"state": str(before), "state.v2": str(target)}


def _java(flag: bool) -> str:
    return "true" if flag else "false"
