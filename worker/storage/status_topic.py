"""The status topic of a cluster: the last status of every connector and task, whichever worker had it.

    status-connector-<c>                {"state":"RUNNING","trace":null,"worker_id":"w:1","generation":5,"version":"1"}
    status-task-<c>-<n>                 the same
    status-topic-<topic>:connector-<c>  {"topic":{"name":T,"connector":C,"task":n,"discoverTimestamp":ms}}

A status, this worker's own included, is visible here once it was read from the topic. A status that did not arrive is
sent again until it does, or until there is a newer one.

Decided, differently from Apache's workers:
- An UNASSIGNED counts if it comes from the very worker whose RUNNING of the same generation is known: theirs drop it,
  and show a stopped task as running; loses: nothing, a worker's records are in order.
- Another worker's UNASSIGNED never counts, even of a later generation: a worker that had lost its group and joined it
  again tells late of work that it gave up (seen with a worker that was stopped for 11 s); loses: the news of a task
  that never began there.
- Nor does a status that another worker wrote without being a member, or its RESTARTING of an earlier generation: its
  Spark was lost while it was stopped; loses: RESTARTING once, after a cluster of other workers began to count
  generations anew.
- A connector's tombstone removes the statuses of its tasks only while the topic is followed, not while it is read from
  its beginning: partitions are read in any order then, and the tasks' statuses may be younger; the leader removes
  statuses that should not exist. For that, tasks' statuses get tombstones of their own, which Apache's workers do not
  write.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.java.jackson import java_json
from headrace.worker.machine.vital_threads import VitalThread
from headrace.worker.model import State, Status, TaskId
from headrace.worker.storage.compacted_topic import CompactedTopic, MakeTopic, TopicRecord, TopicSettings
from headrace.worker.storage.statuses import MemoryStatusStore, StatusStore, may_replace

log = logging.getLogger(__name__)

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_OF_CONNECTOR: Final = ":connector-"

_MOST_S: Final = 5.0
_BACKOFF: Final = Backoff(0.2, _MOST_S)
"""Pauses before a record that did not arrive is sent again."""


@dataclass(eq=False)
class _PendingRecord:
    """A record that has not arrived yet."""

    key: str
    value: bytes | None
    who: str | TaskId | None = None
    """None for a record about a topic."""
    status: Status | None = None
    generation: int = 0
    attempts: int = 0


class GroupGeneration(Protocol):
    """The group's generation as this worker knows it."""

    @property
    def generation(self) -> int: ...


class KafkaStatusStore(StatusStore):
    """Statuses of all workers of the cluster; call `start` first."""

    def __init__(self, config: WorkerConfig, group: GroupGeneration, make_topic: MakeTopic = CompactedTopic) -> None:
        self._topic = make_topic(TopicSettings.of(config, "status"), self._on_record)
        self._group = group
        self._known = MemoryStatusStore()
        self._followed = False
        self._sending = threading.Lock()
        """Keeps the statuses of one task in the order in which they were put."""
        self._changed = threading.Condition()
        """Guards the members below; never held while `send` waits, because answers need it."""
        self._under_way: dict[str, _PendingRecord] = {}
        """The last record of each key, while it has not arrived."""
        self._failed: list[_PendingRecord] = []
        self._stopping = threading.Event()
        self._resender = VitalThread(target=self._resend, name="status-topic-resend")

    def start(self, timeout_s: float) -> None:
        """Read all statuses of the cluster, and follow them. Errors: as `CompactedTopic.start`."""
        self._topic.start(timeout_s)
        self._followed = True
        self._resender.start()

    def read_to_end(self, timeout_s: float) -> None:
        """Read all statuses written so far. Errors: as `CompactedTopic.read_to_end`."""
        self._topic.read_to_end(timeout_s)

    def stop(self) -> None:
        """Flush statuses, within five seconds, and stop writing."""
        if not self.flush(_MOST_S):
            log.warning("Some statuses did not reach the status topic; others see older ones")
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        if self._resender.is_alive():
            self._resender.join(_MOST_S)
        self._topic.stop()

    def flush(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, timeout_s)

    # Reading.

    def get(self, who: str | TaskId) -> Status | None:
        return self._known.get(who)

    def tasks(self, connector: str) -> dict[int, Status]:
        return self._known.tasks(connector)

    def connectors(self) -> list[str]:
        return self._known.connectors()

    def topics(self, connector: str) -> list[str]:
        return self._known.topics(connector)

    # Writing.

    def put(self, who: str | TaskId, status: Status) -> None:
        self._put(who, replace(status, generation=self._group.generation))

    def put_safe(self, who: str | TaskId, status: Status) -> bool:
        status = replace(status, generation=self._group.generation)
        if not may_replace(self._known.get(who), status):
            return False
        self._put(who, status)
        return True

    def forget(self, who: str | TaskId) -> None:
        if not isinstance(who, TaskId):
            for number in self._known.tasks(who):
                self.forget(TaskId(who, number))
        self._send(_PendingRecord(_key(who), None, who, generation=self._group.generation))

    def put_topic(self, task: TaskId, topic: str) -> None:
        key = _topic_key(task.connector, topic)
        if self._known.uses(task.connector, topic) or key in self._under_way:
            return
        now_ms = int(time.time() * 1000)
        used = {"name": topic, "connector": task.connector, "task": task.task, "discoverTimestamp": now_ms}
        self._send(_PendingRecord(key, java_json({"topic": used}).encode()))

    def forget_topics(self, connector: str) -> None:
        for topic in self._known.topics(connector):
            self._send(_PendingRecord(_topic_key(connector, topic), None))

    def _put(self, who: str | TaskId, status: Status) -> None:
        self._send(_PendingRecord(_key(who), _value(status), who, status, status.generation))

    def _send(self, sent: _PendingRecord) -> None:
        with self._sending:
            with self._changed:
                self._under_way[sent.key] = sent
            future = self._topic.send(sent.key.encode(), sent.value)
        future.add_done_callback(lambda answered: self._answered(sent, answered))

    def _answered(self, sent: _PendingRecord, future: Future[int]) -> None:
        error = future.exception()
        with self._changed:
            if self._under_way.get(sent.key) is not sent:
                return
            if isinstance(error, RetriableError) and not self._stopping.is_set():
                sent.attempts += 1
                self._failed.append(sent)
            else:
                del self._under_way[sent.key]
            self._changed.notify_all()
        if error is not None:
            level = logging.WARNING if isinstance(error, RetriableError) else logging.ERROR
            log.log(level, "%s could not be written to the status topic: %s", sent.key, error)

    def _resend(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._failed or self._stopping.is_set())
                failed, self._failed = self._failed, []
            attempts = max((sent.attempts for sent in failed), default=0)
            self._stopping.wait(_BACKOFF.pause(max(1, attempts)))
            for sent in failed:
                self._send_again(sent)

    def _send_again(self, sent: _PendingRecord) -> None:
        with self._sending:
            if not self._is_wanted(sent):
                return
            future = self._topic.send(sent.key.encode(), sent.value)
        future.add_done_callback(lambda answered: self._answered(sent, answered))

    def _is_wanted(self, sent: _PendingRecord) -> bool:
        with self._changed:
            if self._under_way.get(sent.key) is not sent:
                return False
            if self._stopping.is_set() or not self._still_counts(sent):
                del self._under_way[sent.key]
                self._changed.notify_all()
                return False
        return True

    def _still_counts(self, sent: _PendingRecord) -> bool:
        """True if no other worker has put a later status meanwhile."""
        last = None if sent.who is None else self._known.get(sent.who)
        if sent.status is not None:
            return may_replace(last, sent.status)
        return last is None or last.generation <= sent.generation

    # Called on the topic's thread.

    def _on_record(self, record: TopicRecord) -> None:
        key = "" if record.key is None else record.key.decode()
        if key.startswith(_CONNECTOR):
            self._take(key.removeprefix(_CONNECTOR), record.value)
        elif key.startswith(_TASK):
            connector, _, number = key.removeprefix(_TASK).rpartition("-")
            self._take(TaskId(connector, int(number)), record.value)
        elif key.startswith(_TOPIC) and _OF_CONNECTOR in key:
            # A connector's name may have colons, a topic's may not.
            topic, _, connector = key.removeprefix(_TOPIC).partition(_OF_CONNECTOR)
            self._take_topic(connector, topic, record.value)
        else:
            log.warning("Ignoring the record with the unknown key %r in the status topic", key)

    def _take(self, who: str | TaskId, value: bytes | None) -> None:
        if value is not None:
            status = _status(json.loads(value))
            if not self._is_stale(who, status):
                self._known.put(who, status)
        elif isinstance(who, TaskId) or self._followed:
            self._known.forget(who)
        else:
            self._known.forget_alone(who)

    def _is_stale(self, who: str | TaskId, status: Status) -> bool:
        """True if another worker has begun the task since; see the module's decisions."""
        last = self._known.get(who) if isinstance(who, TaskId) else None
        if last is None or last.state is not State.RUNNING or last.worker_id == status.worker_id:
            return False
        return (
            status.generation < 0  # it was no member of the group
            or status.state is State.UNASSIGNED
            or (status.state is State.RESTARTING and status.generation < last.generation)
        )

    def _take_topic(self, connector: str, topic: str, value: bytes | None) -> None:
        if value is None:
            self._known.forget_topic(connector, topic)
        else:
            self._known.put_topic(TaskId(connector, int(json.loads(value)["topic"]["task"])), topic)


def _key(who: str | TaskId) -> str:
    return f"{_TASK}{who}" if isinstance(who, TaskId) else f"{_CONNECTOR}{who}"


def _topic_key(connector: str, topic: str) -> str:
    return f"{_TOPIC}{topic}{_OF_CONNECTOR}{connector}"


def _value(status: Status) -> bytes:
    members = {
        "state": str(status.state),
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    return java_json(members).encode()


def _status(members: Mapping[str, Any]) -> Status:
    return Status(
        State(members["state"]),
        members["worker_id"],
        members.get("version"),
        members.get("trace"),
        int(members["generation"]),
    )
