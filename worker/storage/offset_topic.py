"""The offsets topic of a cluster: every source's offsets, under key bytes that Java's workers look up.

    key    ["<connector>",{<source partition>}]
    value  {<source offset>}, or none: the partition has no offset

Here partitions are equal if their members are. A Java worker looks an offset up by the bytes that it serializes its
map to, so an offset is written under each spelling of its partition in the topic, and under Java's own (`java_order`)
if there is none yet.

The caller of `set` holds Invariant 1. `refresh` before a task begins and `release` when it ended hold Invariant 2: an
offset that the task could not store never follows those that the next worker stores.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.java.jackson import java_json
from headrace.plugins.offsets import SourceOffset, SourcePartition
from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.storage.compacted_topic import CompactedTopic, MakeTopic, TopicRecord, TopicSettings
from headrace.worker.storage.offset_file import SourceOffsets, partition_name

log = logging.getLogger(__name__)

_BUCKETS: Final = 16
_READ_S: Final = 5.0
"""Longest time of one read of other workers' offsets."""


class _PartitionKey(NamedTuple):
    """A source partition of a connector, whatever its spelling."""

    connector: str
    partition: str


@dataclass
class _Stored:
    """The topic's records of one partition."""

    partition: dict[str, Any]
    value: bytes | None
    spellings: dict[bytes, None] = field(default_factory=dict)
    """Keys of the records, in order of first appearance."""


@dataclass(eq=False)
class _Change:
    """An offset that was set and is not in `_stored` yet."""

    partition: dict[str, Any]
    offset: dict[str, Any] | None
    value: bytes | None
    first: int
    """Number of the earliest `set` that it includes."""
    unread: set[bytes] = field(default_factory=set)
    """Keys under which it was sent but not read yet."""
    answers: Sequence[Future[int]] = ()
    """Futures of the sent records; empty before."""


class OffsetTopic(SourceOffsets):
    """Source offsets of the cluster; call `start` first."""

    def __init__(self, config: WorkerConfig, make_topic: MakeTopic = CompactedTopic) -> None:
        self._topic = make_topic(TopicSettings.of(config, "offset"), self._on_record)
        self._flush_timeout_s = config["offset.flush.timeout.ms"] / 1000
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._stored: dict[str, dict[str, _Stored]] = {}
        self._changed: dict[_PartitionKey, _Change] = {}
        self._under_way: dict[_PartitionKey, _Change] = {}
        self._arrived: dict[_PartitionKey, _Change] = {}
        """Changes that the topic has and its reading thread has not read yet."""
        self._number = 0

    def start(self, timeout_s: float) -> None:
        """Read all offsets of the cluster, and follow them. Errors: as `CompactedTopic.start`."""
        self._topic.start(timeout_s)

    def stop(self) -> None:
        """Stop storing offsets; call `flush` before."""
        self._topic.stop()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._topic.topic

    def keys_of(self, connector: str, partition: SourcePartition) -> list[bytes]:
        """Return the keys that an offset of this partition is to be written under."""
        with self._lock:
            return self._keys(_PartitionKey(connector, partition_name(partition)), partition)

    @property
    def durable(self) -> int:
        with self._lock:
            waiting = [change.first for change in (*self._changed.values(), *self._under_way.values())]
            return min(waiting) - 1 if waiting else self._number

    def refresh(self) -> None:
        with self._lock:
            arrived = list(self._arrived.items())
        try:
            self._topic.read_to_end(_READ_S)
        except TimedOut as error:
            raise RetriableError(str(error)) from error
        with self._lock:
            for place, change in arrived:
                # Compaction may have removed it before it was read, in favour of another worker's.
                if self._arrived.get(place) is change:
                    del self._arrived[place]

    def get(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        place = _PartitionKey(connector, partition_name(partition))
        with self._lock:
            change = self._changed.get(place) or self._under_way.get(place) or self._arrived.get(place)
            if change is not None:
                return None if change.offset is None else dict(change.offset)
            stored = self._stored.get(connector, {}).get(place.partition)
        return None if stored is None else _offset(connector, stored)

    def set(self, connector: str, partition: SourcePartition, offset: SourceOffset | None) -> int:
        place = _PartitionKey(connector, partition_name(partition))
        value = None if offset is None else java_json(offset).encode()
        with self._lock:
            self._number += 1
            former = self._changed.get(place)
            first = self._number if former is None else former.first
            self._changed[place] = _Change(dict(partition), None if offset is None else dict(offset), value, first)
            return self._number

    def partitions(self, connector: str) -> list[dict[str, Any]]:
        with self._lock:
            stored = self._stored.get(connector, {})
            found = {name: one.partition for name, one in stored.items() if one.value is not None}
            for changes in (self._arrived, self._under_way, self._changed):
                for place, change in changes.items():
                    if place.connector == connector:
                        found.pop(place.partition, None)
                        if change.offset is not None:
                            found[place.partition] = change.partition
            return [dict(partition) for partition in found.values()]

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        offsets = ((partition, self.get(connector, partition)) for partition in self.partitions(connector))
        return [(partition, dict(offset)) for partition, offset in offsets if offset is not None]

    def release(self, connector: str, partitions: Collection[SourcePartition]) -> bool:
        with self._lock:
            places = [_PartitionKey(connector, partition_name(partition)) for partition in partitions]
            unsent = [self._changed.pop(place) for place in places if place in self._changed]
            sent = [self._under_way.pop(place) for place in places if place in self._under_way]
        if sent:
            self._topic.withdraw()  # the next flush sends those of other tasks again
        return bool(unsent or sent)

    def flush(self) -> None:
        """Store offsets; those missing after `offset.flush.timeout.ms` are logged and left to the next flush."""
        until = time.monotonic() + self._flush_timeout_s
        with self._lock:
            wanted = self._number
        failed = 0
        while self.durable < wanted and not failed and time.monotonic() < until:
            self._send_changes()
            failed = self._wait(until)
        if not failed and self.durable < wanted:
            log.error(
                "Source offsets could not be stored within %.0f ms (offset.flush.timeout.ms), the next flush waits for "
                "them. Check whether the brokers answer",
                self._flush_timeout_s * 1000,
            )

    def _send_changes(self) -> None:
        """Send all changes except those of partitions with an older one still unanswered."""
        with self._sending:
            with self._lock:
                begun = {place: change for place, change in self._changed.items() if place not in self._under_way}
                keys = {place: self._keys(place, change.partition) for place, change in begun.items()}
                for place, change in begun.items():
                    change.unread = set(keys[place])
                    del self._changed[place]
                self._under_way |= begun
            for place, change in begun.items():
                change.answers = [self._topic.send(key, change.value) for key in keys[place]]

    def _keys(self, place: _PartitionKey, partition: SourcePartition) -> list[bytes]:
        stored = self._stored.get(place.connector, {}).get(place.partition)
        return list(stored.spellings) if stored else [key_of(place.connector, partition)]

    def _wait(self, until: float) -> int:
        """Wait for answers; returns how many changes failed and have to be sent again."""
        with self._lock:
            under_way = [(place, change) for place, change in self._under_way.items() if change.answers]
        wait_for([answer for _, change in under_way for answer in change.answers], max(0.0, until - time.monotonic()))
        return sum(
            self._answered(place, change)
            for place, change in under_way
            if all(answer.done() for answer in change.answers)
        )

    def _answered(self, place: _PartitionKey, change: _Change) -> bool:
        """Handle a change's answers; returns True if the offset must be sent again."""
        error = next((error for answer in change.answers if (error := answer.exception()) is not None), None)
        with self._lock:
            if self._under_way.get(place) is not change:
                return False
            del self._under_way[place]
            if error is None:
                if change.unread:
                    self._arrived[place] = change
                return False
            newer = self._changed.setdefault(place, replace(change, unread=set(), answers=()))
            newer.first = change.first
        log.error("The offset of %s of connector %s could not be stored: %s", place.partition, place.connector, error)
        return True

    def _on_record(self, record: TopicRecord) -> None:
        found = _place_of(record.key)
        if found is None or record.key is None:
            return
        connector, partition = found
        place = _PartitionKey(connector, partition_name(partition))
        with self._lock:
            stored = self._stored.setdefault(connector, {}).setdefault(place.partition, _Stored(partition, None))
            stored.value = record.value
            stored.spellings.setdefault(record.key)
            for changes in (self._under_way, self._arrived):
                change = changes.get(place)
                if change is not None and change.value == record.value:
                    change.unread.discard(record.key)
            if place in self._arrived and not self._arrived[place].unread:
                del self._arrived[place]


def key_of(connector: str, partition: SourcePartition) -> bytes:
    """Return the key that a Java worker makes of a partition in a HashMap."""
    return java_json([connector, {name: partition[name] for name in java_order(partition)}]).encode()


def java_order(names: Iterable[str]) -> list[str]:
    """Sort the names as a Java HashMap iterates over them after it was filled one by one."""
    names = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _bucket(name, buckets))


def _bucket(name: str, buckets: int) -> int:
    units = name.encode("utf-16-be")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return (code ^ code >> 16) & (buckets - 1)


def _place_of(key: bytes | None) -> tuple[str, dict[str, Any]] | None:
    try:
        connector, partition = json.loads(key or b"")
    except (ValueError, TypeError):
        connector = partition = None
    if isinstance(connector, str) and isinstance(partition, dict):
        return connector, partition
    if not isinstance(connector, str) or partition is not None:
        log.warning("Ignoring the record with the key %r in the offsets topic: it is no connector and partition", key)
    return None


def _offset(connector: str, stored: _Stored) -> Mapping[str, Any] | None:
    if stored.value is None:
        return None
    try:
        offset = json.loads(stored.value)
    except ValueError:
        offset = None
    if not isinstance(offset, dict):
        raise ConnectError(
            f"The offset of {stored.partition} of connector {connector} in the offsets topic cannot be read: it is no "
            "JSON object. Stop the connector, then alter or reset its offsets"
        )
    return offset
