"""Writes the rows of a batch: some requests at once, each with a piece of the rows.

With versions the last write of a key wins, whatever the order of requests. Without (upserts) a document's rows share a
lane, whose requests follow each other.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.elasticsearch.bulk import Missing, Piece, Sender, Settled, ends
from headrace.connectors.elasticsearch.columns import NO_SCHEMA
from headrace.connectors.elasticsearch.conflicts import Replay, Replays, explained, is_same_write
from headrace.connectors.elasticsearch.items import Fate
from headrace.connectors.elasticsearch.options import Policy
from headrace.connectors.elasticsearch.target import Link, Target
from headrace.plugins.errors import RecordFailure, RecordsFailed, StoppedError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
_NO_SCHEMA: Final = (
    "The record's value has no schema, and the index has no mapping yet; schema.ignore=true has the server make one"
)
_CONFLICT: Final = (
    "is there with the version {}, and the record's is {}: its key is in several partitions, or the topic was made "
    "again, so that its offsets begin anew. Delete the index, or take versions from a header"
)
_ALREADY: Final = (
    "of this id is there already, and only new documents are taken; with key.ignore=true each record is one"
)


class Result(NamedTuple):
    """The answer of a writer to its task."""

    counts: Mapping[str, int]
    replays: Mapping[TopicPartition, Replay]


@dataclass
class BulkWriter:
    """Writes the rows of one batch, or of one partition of it."""

    target: Target
    replaying: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partitions whose records may come again, with their `Replay.clean`."""
    stopping: StopToken | None = None
    _count: int = 0
    _failures: dict[int, str] = field(default_factory=dict)
    _running: deque[tuple[Future[list[Settled]], Piece]] = field(default_factory=deque)
    _lanes: dict[int, ThreadPoolExecutor] = field(default_factory=dict)
    _submitted: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _counts: Counter[str] = field(default_factory=Counter)
    _link: Link | None = None

    def __post_init__(self) -> None:
        self._replays = Replays({partition: Replay(clean=clean) for partition, clean in self.replaying.items()})
        self._sender: Sender | None = None
        self._is_own = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Begins to write rows. Errors: of rows before, as `Sender.send`; as `Indices.ensure`."""
        numbers = np.arange(self._count, self._count + len(rows))
        self._count += len(rows)
        piece = self._writable(Piece(rows, numbers))
        if len(piece):
            self._ensure(piece)
            piece = self._with_mapping(piece)
        for lane, part in self._by_lane(piece):
            for one in part.pieces(self.target.options):
                self._submit(lane, one)

    def finish(self) -> bytes:
        """Waits for all requests; returns the bytes of `result_of`. Errors: RecordsFailed; as `write`."""
        while self._running:
            self._settle()
        if self._sender is not None:
            self._counts.update(self._sender.counts)
        self._close()
        replays = [[*partition, asdict(replay)] for partition, replay in self._replays.of.items()]
        part = json.dumps({"counts": dict(self._counts), "replays": replays}).encode()
        if self._failures:
            failures = [RecordFailure(row, reason) for row, reason in sorted(self._failures.items())]
            raise RecordsFailed(failures[0].message, failures, part)
        return part

    def abort(self) -> None:
        """Ends all pauses, and waits for the requests that are under way."""
        self._ended.set()
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        return {"target": self.target, "replaying": self.replaying}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _writable(self, piece: Piece) -> Piece:
        """The rows with a text; the others are passed over, or refused."""
        lines = piece.rows["lines"]
        has_text = np.diff(ends(lines)) > 0
        if lines.null_count:
            refused = np.flatnonzero(lines.is_null().to_numpy(zero_copy_only=False))
            self._refuse(piece.take(refused), piece.rows["refused"].take(pa.array(refused)).to_pylist())
            has_text &= lines.is_valid().to_numpy(zero_copy_only=False)
        if has_text.all():
            return piece
        self._counts["passed_over"] += len(piece) - int(has_text.sum()) - lines.null_count
        return piece.take(np.flatnonzero(has_text))

    def _refuse(self, piece: Piece, reasons: Iterable[str]) -> None:
        if self.target.options.drops_invalid:
            self._counts["passed_over"] += len(piece)
            log.error("%d records are passed over (drop.invalid.message): %s", len(piece), next(iter(reasons)))
            return
        self._failures.update(zip(map(int, piece.numbers), reasons, strict=True))

    def _ensure(self, piece: Piece) -> None:
        """Make the indices of these rows. Errors: as `Indices.ensure`."""
        indices = self._opened().indices
        for name in pc.unique(piece.rows["index"]).to_pylist():
            mapped = piece.rows["mapping"].filter(pc.equal(piece.rows["index"], name))
            wanted = [number for number in pc.unique(mapped).to_pylist() if number is not None and number >= 0]
            indices.ensure(name, self.target.mappings[wanted[0]] if wanted else None)

    def _with_mapping(self, piece: Piece) -> Piece:
        """The rows but for those without a schema that would have to make a mapping. Errors: as `Indices.ensure`."""
        numbers = piece.rows["mapping"]
        unknown = pc.equal(numbers, NO_SCHEMA).fill_null(False)
        if numbers.null_count == len(numbers) or not pc.any(unknown).as_py():
            return piece
        for name in pc.unique(piece.rows["index"].filter(unknown)).to_pylist():
            if self._opened().indices.has_mapping(name):
                unknown = pc.and_(unknown, pc.not_equal(piece.rows["index"], name))
        bad = unknown.to_numpy(zero_copy_only=False)
        if not bad.any():
            return piece
        refused = piece.take(np.flatnonzero(bad))
        self._refuse(refused, [_NO_SCHEMA] * len(refused))
        return piece.take(np.flatnonzero(~bad))

    def _by_lane(self, piece: Piece) -> Iterable[tuple[int | None, Piece]]:
        """The rows by the lane that keeps their order; None: any will do."""
        lanes = piece.rows["lane"]
        if not len(piece) or lanes.null_count:
            return ((None, piece),) if len(piece) else ()
        of_rows = np.asarray(lanes) % self.target.options.in_flight
        return [(int(lane), piece.take(np.flatnonzero(of_rows == lane))) for lane in np.unique(of_rows)]

    # -- requests ------------------------------------------------------------------------------------------------------

    def _opened(self) -> Link:
        if self._link is None:
            self._link = self.target.kept()
            if self._link is None:
                self._link, self._is_own = self.target.open(), True
            self._sender = Sender(self._link.server, self.target.options, self._pause)
        return self._link

    def _submit(self, lane: int | None, piece: Piece) -> None:
        self._opened()
        assert self._sender is not None
        number = self._submitted % self.target.options.in_flight if lane is None else lane
        self._submitted += 1
        if number not in self._lanes:
            self._lanes[number] = ThreadPoolExecutor(1, thread_name_prefix="elasticsearch-sink")
        self._running.append((self._lanes[number].submit(self._sender.send, piece, lane is not None), piece))
        while len(self._running) > self.target.options.in_flight:
            self._settle()

    def _settle(self) -> None:
        """Wait for the oldest request. The later ones stay at hand, to explain its conflicts."""
        future, piece = self._running[0]
        try:
            settled = future.result()
        except Missing:
            self._opened().indices.forget()
            raise
        conflicts = [one for one in settled if one.item.fate is Fate.CONFLICT]
        for one in settled:
            if one.item.fate is Fate.REFUSED:
                self._malformed(one)
        foreign = [one for one in conflicts if not is_same_write(one) and not self._is_superseded(one)]
        for one in foreign:
            if not self._replays.covers(one):
                self._conflict(one)
        self._replays.follow(piece, conflicts, self.target.options.in_flight)
        self._counts["written"] += len(piece) - len(settled)
        self._counts["superseded"] += len(conflicts)
        self._running.popleft()

    def _is_superseded(self, one: Settled) -> bool:
        return bool(self.target.options.version_header) or explained(one, (piece for _, piece in self._running))

    def _malformed(self, one: Settled) -> None:
        options = self.target.options
        self._counts["refused"] += 1
        if options.tells or options.malformed in (Policy.FAIL, Policy.REPORT):
            self._failures[one.number] = f"{one.document.where} refuses the document: {one.item.reason}"
        elif options.malformed is Policy.WARN:
            log.warning("%s-%d at offset %d is passed over: %s", *one.place, one.item.reason)

    def _conflict(self, one: Settled) -> None:
        options = self.target.options
        self._counts["conflicts"] += 1
        name = one.document.id if options.shows_content else "a document"
        why = _ALREADY if one.item.current is None else _CONFLICT.format(one.item.current, one.document.version)
        text = f"{one.document.where}: {name} {why}"
        if options.conflicts in (Policy.FAIL, Policy.REPORT):
            self._failures[one.number] = text
        elif options.conflicts is Policy.WARN and self._counts["conflicts"] == 1:
            log.warning("%s-%d at offset %d is passed over: %s", *one.place, text)

    def _pause(self, seconds: float) -> None:
        """Errors: StoppedError."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            if self._ended.wait(min(left_s, _LOOK_S)) or (self.stopping is not None and self.stopping.is_set()):
                raise StoppedError("the end was asked for while documents were to be sent again")

    def _close(self) -> None:
        for lane in self._lanes.values():
            lane.shutdown(wait=True, cancel_futures=True)
        if self._link is not None and self._is_own:
            self._link.close()
        self._link = None


def result_of(part: bytes) -> Result:
    """The result in the bytes of a writer's `finish`."""
    told = json.loads(part)
    replays = {TopicPartition(topic, number): Replay(**replay) for topic, number, replay in told["replays"]}
    return Result(told["counts"], replays)
