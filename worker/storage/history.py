"""The history of connectors: each change of a config, a target state or offsets, with who asked for it.

A `Revision` stands by itself: it has the connector as it was before and after. So any of them may be removed.

    {"config.topic":T,"offset":n,"connector":C,"change":"config","at":ms,"by":…,"from":…,
     "before":null,"after":{"config":{…},"state":"STARTED"}}

A change may be recorded several times, by the worker that made it and by others that do not know who asked for it
(`worker/storage/history_topic.py`). Records with the same offset of the config topic are one revision: it has the
number of the first, and the requester of the one that knows it.

**Bounded**: revisions are kept compressed, `MOST` of each connector.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

from headrace.worker.model import Config, Offset, TargetState
from headrace.worker.requester import Requester, requester

MOST: Final = 100
"""The revisions that a connector has; the oldest one goes for one more."""

Change = Literal["config", "state", "offsets", "delete"]


@dataclass(frozen=True)
class Snapshot:
    """A connector at one moment."""

    config: Config
    target: TargetState


class Move(NamedTuple):
    """The offset of a partition before and after a change."""

    partition: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True)
class Revision:
    """One change of a connector."""

    connector: str
    change: Change
    at_ms: int
    before: Snapshot | None
    """None if there was no such connector."""
    after: Snapshot | None
    """None if it was deleted."""
    requester: Requester | None = None
    """None if it is not known."""
    moves: Sequence[Move] = ()
    offset: int | None = None
    """The offset of the change in the config topic; None for a change of offsets, and without such a topic."""
    number: int = 0
    """Unique over all connectors, and larger for a later revision of the same one."""

    def value(self, config_topic: str) -> dict[str, Any]:
        """Return the record's value."""
        return {
            "config.topic": config_topic,
            "offset": self.offset,
            "connector": self.connector,
            "change": self.change,
            "at": self.at_ms,
            "by": None if self.requester is None else self.requester.by,
            "from": None if self.requester is None else self.requester.origin,
            "before": _written(self.before),
            "after": _written(self.after),
            **({"offsets": [move._asdict() for move in self.moves]} if self.moves else {}),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any], number: int = 0) -> Revision:
        """Read a record's value."""
        origin = value["from"]
        return cls(
            value["connector"],
            value["change"],
            value["at"],
            _read(value["before"]),
            _read(value["after"]),
            None if origin is None else Requester(value["by"], origin),
            tuple(Move(**move) for move in value.get("offsets", ())),
            value["offset"],
            number,
        )


def change_of(before: Snapshot | None, after: Snapshot | None) -> Change:
    """Name the difference of two snapshots that are not equal."""
    if after is None:
        return "delete"
    return "state" if before is not None and before.config == after.config else "config"


def moves_of(before: Sequence[Offset], after: Sequence[Offset]) -> list[Move]:
    """List the partitions whose offsets differ."""
    was, now = ({json.dumps(at, sort_keys=True): (at, to) for at, to in one} for one in (before, after))
    found = [
        Move((now.get(key) or was[key])[0], was.get(key, (None, None))[1], now.get(key, (None, None))[1])
        for key in {**was, **now}
    ]
    return [move for move in found if move.before != move.after]


class ConnectorHistory(Protocol):
    """The revisions of connectors, for a herder."""

    def revisions(self, name: str) -> list[Revision]:
        """List the revisions of a connector, the oldest first; also of one that was deleted."""

    def moved(self, name: str, moves: Sequence[Move]) -> None:
        """Record a change of offsets by the present requester; does not wait."""


@dataclass(slots=True)
class _Kept:
    number: int
    at_ms: int
    offset: int | None
    attributed: bool
    packed: bytes = field(repr=False)
    keys: tuple[bytes, ...]


class Revisions:
    """The revisions that are known, by connector. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[_Kept]] = {}
        self._connectors: dict[bytes, str] = {}
        """The connector of each record's key."""
        self._latest: dict[str, tuple[Snapshot | None, int]] = {}

    def put(self, key: bytes, revision: Revision, number: int) -> None:
        """Take a record of the revision; an earlier one of the same change stays what it is but for its requester."""
        packed = zlib.compress(json.dumps(revision.value("")).encode(), 1)
        attributed = revision.requester is not None
        with self._lock:
            self._connectors[key] = revision.connector
            of_connector = self._kept.setdefault(revision.connector, [])
            for kept in of_connector:
                if revision.offset is not None and kept.offset == revision.offset:
                    kept.keys = (*kept.keys, key)
                    if attributed and not kept.attributed:
                        kept.attributed, kept.packed = True, packed
                    return
            of_connector.append(_Kept(number, revision.at_ms, revision.offset, attributed, packed, (key,)))
            _, newest = self._latest.get(revision.connector, (None, -1))
            self._latest[revision.connector] = (
                revision.after,
                max(newest, -1 if revision.offset is None else revision.offset),
            )

    def remove(self, key: bytes) -> None:
        """Remove the revision that has a record with this key."""
        with self._lock:
            name = self._connectors.pop(key, None)
            left = [kept for kept in self._kept.get(name or "", ()) if key not in kept.keys]
            if left:
                self._kept[name or ""] = left
            elif name is not None:
                self._kept.pop(name, None)
                if self._latest[name][0] is None:
                    del self._latest[name]

    def of(self, name: str) -> list[Revision]:
        """List the revisions of a connector, the oldest first."""
        with self._lock:
            found = [(kept.packed, kept.number) for kept in self._kept.get(name, ())]
        return [Revision.of(json.loads(zlib.decompress(packed)), number) for packed, number in found]

    def latest(self, name: str) -> Snapshot | None:
        """Return the connector after its last revision; None if it was deleted or never seen."""
        return self._latest.get(name, (None, -1))[0]

    def newest_offset(self, name: str) -> int:
        """Return the last offset of the config topic among its revisions; -1 if there is none."""
        return self._latest.get(name, (None, -1))[1]

    def existing(self) -> list[str]:
        """List the connectors that exist after their last revisions."""
        with self._lock:
            return [name for name, (after, _) in self._latest.items() if after is not None]

    def newest_offsets(self) -> int:
        """Return the last offset of the config topic among all revisions; -1 if there is none."""
        with self._lock:
            return max((offset for _, offset in self._latest.values()), default=-1)

    def at(self, name: str, offset: int) -> Revision | None:
        """Return the connector's revision of this offset of the config topic; None if there is none."""
        return next((one for one in self.of(name) if one.offset == offset), None)

    def surplus(self, until_ms: int) -> list[bytes]:
        """List the keys of revisions that are too many, or older; the last one of a connector that exists stays."""
        with self._lock:
            return [key for name in self._kept for kept in self._surplus(name, until_ms) for key in kept.keys]

    def _surplus(self, name: str, until_ms: int) -> Iterator[_Kept]:
        kept = self._kept[name]
        exists = self._latest[name][0] is not None
        for place, one in enumerate(kept):
            if len(kept) - place > MOST or (one.at_ms < until_ms and not (exists and one is kept[-1])):
                yield one


def _written(snapshot: Snapshot | None) -> dict[str, Any] | None:
    return None if snapshot is None else {"config": dict(snapshot.config), "state": str(snapshot.target)}


def _read(value: Mapping[str, Any] | None) -> Snapshot | None:
    return None if value is None else Snapshot(value["config"], TargetState(value["state"]))


class MemoryHistory:
    """The history of a standalone worker, which ends with the worker, as changes by REST do."""

    def __init__(self) -> None:
        self._known = Revisions()
        self._last: Mapping[str, Snapshot] = {}
        self._number = 0

    def revisions(self, name: str) -> list[Revision]:
        """List the revisions of a connector, the oldest first; also of one that was deleted."""
        return self._known.of(name)

    def look(self, connectors: Mapping[str, Snapshot]) -> None:
        """Record how these connectors differ from those of the last call; for one thread."""
        before, self._last = self._last, connectors
        for name in {**before, **connectors}:
            was, now = before.get(name), connectors.get(name)
            if was != now:
                self._put(Revision(name, change_of(was, now), now_ms(), was, now, requester()))

    def moved(self, name: str, moves: Sequence[Move]) -> None:
        """Record a change of offsets by the present requester."""
        present = self._last.get(name)
        self._put(Revision(name, "offsets", now_ms(), present, present, requester(), moves))

    def _put(self, revision: Revision) -> None:
        self._number += 1
        self._known.put(str(self._number).encode(), revision, self._number)
        for key in self._known.surplus(0):
            self._known.remove(key)


def now_ms() -> int:
    """Return the time in milliseconds of the epoch."""
    return time.time_ns() // 1_000_000
