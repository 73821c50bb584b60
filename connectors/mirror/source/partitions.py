"""The state of each partition that a source task copies: its fetch, its rest, its way (batches or records)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headrace.connectors.mirror.copy.fetching import PartitionFetch
from headrace.connectors.mirror.copy.link import CopyRange
from headrace.plugins.backoff import Backoff
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_REST: Final = Backoff(0.2, 10.0)
"""Seconds."""
_QUIET_FAILURES: Final = 3
"""So many failures in a row are the cost of a new leader; after them an operator should know."""
_NAMED: Final = 5
_FIRST_STRETCH: Final = 2_000
_LONGEST_STRETCH: Final = 2_000_000
"""The offsets that are read record by record before copying is tried again; doubled after each vain try."""
_TINY_BATCHES: Final = 64
_TINY_BYTES: Final = 2_048
_TINY_BACKLOG: Final = 5_000
"""If so many batches of a backlog of so many offsets wait, smaller than this on average, records are cheaper: a request
takes one batch of a partition.
"""


def rest(failures: Iterable[tuple[MirroredPartition, str]]) -> None:
    """Let these partitions rest, for these reasons; one line in the log for each reason."""
    by_reason: dict[str, list[MirroredPartition]] = {}
    for one, why in failures:
        one.failed()
        by_reason.setdefault(why, []).append(one)
    for why, its in by_reason.items():
        level = logging.WARNING if any(one.fails_often for one in its) else logging.INFO
        names = ", ".join(str(one.source) for one in its[:_NAMED])
        more = f" and {len(its) - _NAMED} more" if len(its) > _NAMED else ""
        log.log(level, "Partitions %s%s rest for some seconds, the others go on: %s", names, more, why)


@dataclass(eq=False)
class MirroredPartition:
    """One partition of the source cluster, and its target."""

    fetch: PartitionFetch
    target: TopicPartition
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _rests_until: float = 0.0
    _by_records_upto: int = -1
    _stretch: int = _FIRST_STRETCH
    _copied: int = 0
    """Records that were copied in batches since records were last read one by one."""

    def __post_init__(self) -> None:
        self.settled = self.fetch.taken
        """Everything up to this offset is in the target cluster, or not to be copied."""

    @property
    def source(self) -> TopicPartition:
        """The partition in the source cluster."""
        return self.fetch.partition

    @property
    def is_awake(self) -> bool:
        """True if it may be copied now: after a failure it rests for a while, and the others go on."""
        return not self._rests_until or self.clock() >= self._rests_until

    def failed(self) -> None:
        """Let it rest after a failure, longer with each in a row."""
        self._failures += 1
        self._rests_until = self.clock() + _REST.pause(self._failures)
        self.fetch.clear(self.settled + 1)

    @property
    def fails_often(self) -> bool:
        """True if an operator should know of its failures."""
        return self._failures >= _QUIET_FAILURES

    def reached(self, offset: int, by_records: bool) -> None:
        """Note that everything up to this offset is in the target cluster."""
        self._copied = 0 if by_records else self._copied + offset - self.settled
        if self._copied >= self._stretch:
            self._stretch = _FIRST_STRETCH
        self._failures, self._rests_until = 0, 0.0
        self.begin_at(offset + 1)

    def begin_at(self, position: int) -> None:
        """Go on at this offset: all before it is settled."""
        self.settled = position - 1
        self.fetch.seek(position)

    def begin_anew(self, fetch: PartitionFetch) -> None:
        """Go on with a new topic of the same name, at the position of this fetch."""
        self.fetch = fetch
        self._by_records_upto, self._stretch, self._copied = -1, _FIRST_STRETCH, 0
        self.begin_at(fetch.position)

    def go_back(self) -> None:
        """Go on after the settled offset: later taken records did not arrive."""
        self.fetch.seek(self.settled + 1)

    @property
    def lag(self) -> int | None:
        """The offsets that wait in the source; None if its end is not known yet."""
        return max(0, self.fetch.end - self.fetch.next) if self.fetch.end >= 0 else None

    def not_whole(self) -> None:
        """Read a stretch of records one by one, from its position on."""
        self.go_back()
        self._read_records_upto(self.settled)

    def goes_by_records(self) -> bool:
        """True if its next records have to be read one by one."""
        fetch = self.fetch
        if fetch.next > self._by_records_upto and fetch.waiting:
            first = fetch.waiting[0]
            if first.why_not_whole(fetch.taken + 1) is not None or self._is_tiny():
                self._read_records_upto(first.last)
        return fetch.next <= self._by_records_upto

    def _read_records_upto(self, least: int) -> None:
        self._by_records_upto = max(least, min(self.fetch.end - 1, self.fetch.taken + self._stretch))
        self._stretch = min(2 * self._stretch, _LONGEST_STRETCH)

    def _is_tiny(self) -> bool:
        batches = self.fetch.waiting
        tiny = len(batches) >= _TINY_BATCHES and self.fetch.waiting_bytes < _TINY_BYTES * len(batches)
        return tiny and self.backlog >= _TINY_BACKLOG

    def range(self, share: float, as_records: bool) -> CopyRange:
        """The next range to copy: the waiting batches, and this share of the rest."""
        fetch = self.fetch
        last = fetch.end - 1
        upto = min(last, max(fetch.waiting[-1].last if fetch.waiting else 0, fetch.taken + int(share * self.backlog)))
        if as_records:
            upto = min(self._by_records_upto, upto)
        return CopyRange(fetch.partition, self.target, fetch.taken, upto, fetch.topic_id)

    @property
    def backlog(self) -> int:
        """The offsets that are there and not taken."""
        return max(0, self.fetch.end - 1 - self.fetch.taken)

    @property
    def row_bytes(self) -> float:
        """The size of a record, by the waiting batches."""
        rows = sum(max(1, batch.count) for batch in self.fetch.waiting)
        return self.fetch.waiting_bytes / rows if rows else 0.0
