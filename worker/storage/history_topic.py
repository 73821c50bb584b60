"""The history topic: each change of a connector, recorded by the worker that made it or by one that sees it.

The changes themselves are the records of the config topic, which every worker reads. The worker that wrote one knows
who asked for it, and records it at once, with all changes before it. Any other worker waits a few seconds and then
records what nobody has recorded: changes by Java's workers, and those of a worker that died in between. Two workers
that do so at once write two records of one change, which count as one (`worker/storage/history.py`).

At its start a worker compares the connectors with the last revisions, so changes while no worker kept a history become
one revision each.

Decided: it holds the same configs as the config topic, with their secrets in the clear if they are so there, because a
rollback needs the true values; loses: the topic needs the same protection as the config topic, and is closed to
connectors like it.
Decided: off unless `config.history.topic` names a topic, because a worker that takes the place of Apache's must not
need rights that its principal does not have; loses: history begins when an operator asks for it.
Decided: any worker records what nobody did, not the leader alone, because Java's workers lead, too; loses: a change by
a Java worker is at times recorded twice.
Decided: changes of offsets by Java's workers are not recorded, because nothing in the topics tells them from a task's
commits; loses: these revisions.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.history import HISTORY_RETENTION, HISTORY_TOPIC
from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.java.jackson import java_json
from headrace.worker.errors import ConnectError, TooLarge
from headrace.worker.machine.vital_threads import VitalThread
from headrace.worker.requester import Requester, requester
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.compacted_topic import CompactedTopic, MakeTopic, TopicRecord, TopicSettings
from headrace.worker.storage.history import Move, Revision, Revisions, Snapshot, change_of, now_ms

log = logging.getLogger(__name__)

_WRITE_S: Final = 30.0
_BACKOFF: Final = Backoff(0.5, 30.0)
_OTHERS_S: Final = (3.0, 10.0)
"""The wait for the record of the worker that made a change; drawn anew for each, so that workers differ."""
_PREFIXES: Final = (b"connector-", b"target-state-")


@dataclass(frozen=True)
class _Unrecorded:
    """A change that waits to be recorded."""

    name: str
    after: Snapshot | None
    offset: int | None
    at_ms: int
    due: float
    requester: Requester | None = None
    moves: Sequence[Move] = ()


class HistoryTopic:
    """Follows the changes of the config topic, and records them. Any thread may call it."""

    def __init__(
        self,
        worker: WorkerConfig,
        worker_id: str,
        make_topic: MakeTopic = CompactedTopic,
        others_s: tuple[float, float] = _OTHERS_S,
    ) -> None:
        """Errors: ConfigError if the clients' settings cannot be served."""
        self._topic = make_topic(TopicSettings.of_history(worker), self._take)
        self._name: str = worker[HISTORY_TOPIC]
        self._config_topic: str = worker["config.storage.topic"]
        self._retention_ms: int = worker[HISTORY_RETENTION]
        self._worker_id = worker_id
        self._others_s = others_s
        self._known = Revisions()
        self._changed = threading.Condition()
        self._queue: deque[_Unrecorded] = deque()
        self._read: dict[str, _Unrecorded] = {}
        """The last change of each connector that was read before `begin`."""
        self._makers: dict[int, Requester] = {}
        """The requesters of this worker's writes, by their offsets in the config topic."""
        self._begun = self._stopping = False
        self._thread = VitalThread(target=self._run, name="config-history")

    @classmethod
    def of(cls, worker: WorkerConfig, worker_id: str) -> HistoryTopic | None:
        """Return the history of a worker; None if it keeps none."""
        return None if worker[HISTORY_TOPIC] is None else cls(worker, worker_id)

    def start(self, timeout_s: float) -> None:
        """Read the topic to its end, and follow it. Errors: as `CompactedTopic.start`; call `stop` then."""
        self._topic.start(timeout_s)

    def begin(self, cluster: ClusterConfig) -> None:
        """Begin to record; `cluster` is the configuration as read after the start. Errors: ConfigError."""
        if (newest := self._known.newest_offsets()) >= cluster.offset:
            message = (
                f"It has changes up to offset {newest} of the config topic {self._config_topic}, which ends at "
                f"{cluster.offset}: that topic has been made again."
            )
            remedy = "Name another topic, or delete this one."
            raise ConfigError(Problem(HISTORY_TOPIC, self._name, message, remedy))
        with self._changed:
            read = sorted(self._read.values(), key=lambda one: one.offset or 0)
            gone = [name for name in self._known.existing() if name not in self._read]
            self._queue.extend(read)
            self._queue.extend(self._unrecorded(name, None, cluster.offset - 1, now_ms()) for name in gone)
            self._read.clear()
            self._begun = True
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and recording."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._topic.stop()
        if self._begun:
            self._thread.join(_WRITE_S)

    def revisions(self, name: str) -> list[Revision]:
        """List the revisions of a connector, the oldest first; also of one that was deleted."""
        return self._known.of(name)

    def saw(self, name: str, cluster: ClusterConfig, record: TopicRecord) -> None:
        """Take a record of the config topic about a connector; `cluster` is the configuration with it."""
        config = cluster.connectors.get(name)
        after = None if config is None else Snapshot(config, cluster.targets[name])
        change = self._unrecorded(name, after, record.offset, record.timestamp_ms)
        with self._changed:
            if self._begun:
                self._queue.append(change)
                self._changed.notify_all()
            else:
                self._read[name] = change

    def made(self, offsets: Iterable[int], who: Requester) -> None:
        """Note that this worker wrote these records of the config topic, and who asked for them."""
        with self._changed:
            self._makers |= dict.fromkeys(offsets, who)
            self._changed.notify_all()

    def moved(self, name: str, moves: Sequence[Move]) -> None:
        """Record a change of offsets by the present requester; does not wait."""
        change = self._unrecorded(name, None, None, now_ms())
        with self._changed:
            self._queue.append(replace(change, requester=requester(), moves=moves))
            self._changed.notify_all()

    def _unrecorded(self, name: str, after: Snapshot | None, offset: int | None, at_ms: int) -> _Unrecorded:
        due = time.monotonic() + random.uniform(*self._others_s)
        return _Unrecorded(name, after, offset, at_ms, due)

    def _take(self, record: TopicRecord) -> None:
        key = record.key or b""
        if record.value is None:
            self._known.remove(key)
        elif (value := json.loads(record.value))["config.topic"] == self._config_topic:
            self._known.put(key, Revision.of(value), record.offset + 1)

    # On the thread that records.

    def _run(self) -> None:
        failures = 0
        while (change := self._next()) is not None:
            try:
                self._record(change)
            except StoppedError:
                return
            except TooLarge as error:
                log.error("The history lacks a change of connector %s: %s", change.name, error)
            except ConnectError as error:
                failures += 1
                pause_s = _BACKOFF.pause(failures)
                log.warning("A change of %s cannot be recorded yet, again in %.1f s: %s", change.name, pause_s, error)
                self._pause(pause_s)
                continue
            failures = 0
            self._done(change)

    def _next(self) -> _Unrecorded | None:
        """Wait for a change that is to be looked at now; None if the worker stops."""
        with self._changed:
            while not self._stopping:
                wait_s = None
                if self._queue:
                    change = self._queue[0]
                    wait_s = change.due - time.monotonic()
                    if wait_s <= 0 or self._is_mine() or self._needs_nothing(change):
                        who = change.requester if change.offset is None else self._makers.get(change.offset)
                        return replace(change, requester=who)
                self._changed.wait(wait_s)
            return None

    def _is_mine(self) -> bool:
        """True if this worker made one of the changes that wait; those before it are recorded, too, for their order."""
        return any(one.offset is None or one.offset in self._makers for one in self._queue)

    def _needs_nothing(self, change: _Unrecorded) -> bool:
        if change.offset is None:
            return False
        if change.offset > self._known.newest_offset(change.name):
            return change.after == self._known.latest(change.name)
        recorded = self._known.at(change.name, change.offset)
        return recorded is None or recorded.requester is not None

    def _record(self, change: _Unrecorded) -> None:
        """Record a change, unless it needs nothing. Errors: TooLarge; ConnectError; StoppedError."""
        revision = self._revision(change)
        if revision is None:
            return
        place = {"at": change.at_ms} if change.offset is None else {"offset": change.offset}
        key = java_json({"connector": change.name, **place, "worker": self._worker_id}).encode()
        self._topic.send_all([(key, java_json(revision.value(self._config_topic)).encode())], _WRITE_S)
        self._topic.read_to_end(_WRITE_S)
        surplus = self._known.surplus(now_ms() - self._retention_ms)
        self._topic.send_all([(one, None) for one in surplus], _WRITE_S)

    def _revision(self, change: _Unrecorded) -> Revision | None:
        name, latest, who = change.name, self._known.latest(change.name), change.requester
        if change.offset is None:
            return Revision(name, "offsets", change.at_ms, latest, latest, who, change.moves)
        if self._needs_nothing(change):
            return None
        if (recorded := self._known.at(name, change.offset)) is not None:
            return None if who is None else replace(recorded, requester=who)
        kind = change_of(latest, change.after)
        return Revision(name, kind, change.at_ms, latest, change.after, who, offset=change.offset)

    def _done(self, change: _Unrecorded) -> None:
        with self._changed:
            self._queue.popleft()
            if change.offset is not None:
                self._makers = {offset: who for offset, who in self._makers.items() if offset > change.offset}

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)


def connector_in(key: bytes | None) -> str | None:
    """Return the connector whose config or target state a record of the config topic with this key has."""
    for prefix in _PREFIXES:
        if key is not None and key.startswith(prefix):
            return key.removeprefix(prefix).decode(errors="replace")
    return None
