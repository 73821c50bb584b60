"""The last step of a sink's batch inline: the sink's writer writes it whole, or in ever smaller parts.

It is written in parts if the sink says that some records are to blame but not which. With a retry topic this also
happens if a batch failed again with a retriable error: one slow record then does not hold up all others.

Decided: if nothing at all can be written, the outside system is away and no record is to blame, so the batch is tried
again as a whole; the failure of a batch of one record is that record's. Loses: if every record of a batch is bad, all
are retried until a batch has a good one.

Decided: a search holds the task's thread, which has to poll, for about half a minute at most; the rows left then are a
batch of their own, after the rows that were reached; loses: more tries if many records are to blame and not named.

Decided: a part that was written stays written when the search is given up, and comes again with the next try of the
batch, because a sink's writers are at least once; loses: repeated rows if an outage begins during a search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from headrace.plugins.contracts import ArrowWriter, SinkTask
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.extensions import extension
from headrace.plugins.offsets import Stop, TopicPartition
from headrace.plugins.sink_requests import RequestingSink
from headrace.worker.deadletters.reporting import NotSentYet, Reporter
from headrace.worker.engine.driver import EngineLost
from headrace.worker.outcome import Outcome, hold, leave_out
from headrace.worker.pipeline.partition_gate import PartitionGate, Reports
from headrace.worker.pipeline.scope import TaskScope

Piece = tuple[pa.RecordBatch, pa.RecordBatch]
"""Decoded rows for `PartitionGate`, and the same records as they came from Kafka."""
Later = Callable[[pa.RecordBatch], pa.RecordBatch]

MOST_TRIES = 64
MOST_VAIN_TRIES = 16
"""After so many tries with nothing written, the records are not to blame."""
MOST_S = 30.0
"""The longest time that a search for the records to blame holds the task, except for one more try."""


@dataclass
class SinkWriting:
    """Writes the batches of one sink task."""

    scope: TaskScope
    task: SinkTask
    put_class: str
    """The sink's class, as errors name it."""
    attempts: Iterator[str]
    """Names, one for each attempt."""
    reporter: Reporter = field(init=False)
    held: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The first offset that the sink holds, by partition."""
    _told: set[tuple[str, int, int]] = field(default_factory=set)
    """Records of the batch that have their dead letters already, or are in the retry topic."""

    def __post_init__(self) -> None:
        self.begin()

    def begin(self, again: bool = False) -> None:
        """Begin a new batch, or another try of the same one."""
        self.reporter = Reporter(self.scope.reporting, self.scope.stop)
        if not again:
            self._told.clear()

    def write(self, pieces: Sequence[Piece], later: Later | None = None) -> Outcome[TopicPartition]:
        """Write these rows; if the sink does not say which records are to blame, search for them.

        `later` takes records that may succeed later. If the search takes too long, rows after the reached ones are
        left. Errors: those of the sink and of reports.
        """
        try:
            return self._write(pieces, later, self.task.writer(next(self.attempts)))
        except RecordsFailed as error:
            return _Bisection(self, later).run(pieces, error)

    def write_closely(self, pieces: Sequence[Piece], later: Later, leave_rest: bool) -> Outcome[TopicPartition]:
        """As `write`, for a batch that failed with a retriable error before: records to blame are tried later.

        `leave_rest`: if the search is given up, all unwritten rows are tried later, too.
        """
        return _Bisection(self, later, leave_rest).run(pieces)

    def _write(
        self,
        pieces: Sequence[Piece],
        later: Later | None,
        writer: ArrowWriter,
        stopped: Collection[TopicPartition] = (),
    ) -> Outcome[TopicPartition]:
        put_off = None if later is None else partial(self._put_off, later)
        reports = Reports(self._report if self.scope.reporting.wanted else None, put_off, self.put_class)
        gate = PartitionGate(writer, self.scope.tolerate, reports, stopped)
        try:
            for decoded, raw in pieces:
                gate.write(decoded, raw)
            part = gate.finish()
        except BaseException:
            writer.abort()
            raise
        outcome = gate.reached()
        if not isinstance(writer, _Refusing):
            self.held = self.task.commit([part]) or {}
            leave_out(outcome, extension(self.task, RequestingSink).left_out())
        hold(outcome, self.held)
        return outcome

    def _report(self, failed: pa.RecordBatch) -> None:
        self.reporter(self._untold(failed))
        self._told.update(_places(failed))

    def _put_off(self, later: Later, failed: pa.RecordBatch) -> pa.RecordBatch:
        given_up = later(self._untold(failed))
        self._told.update(set(_places(failed)) - set(_places(given_up)))
        return given_up

    def _untold(self, failed: pa.RecordBatch) -> pa.RecordBatch:
        """Drop the records that were reported already, in this try of the batch or an earlier one."""
        return failed.filter(pa.array([place not in self._told for place in _places(failed)], pa.bool_()))


@dataclass
class _Bisection:
    """Halves rows that cannot be written until single records are left."""

    of: SinkWriting
    later: Later | None
    leave_rest: bool = False
    outcome: Outcome[TopicPartition] = field(default_factory=Outcome)
    tries: int = 0
    written: bool = False
    slow: list[tuple[list[Piece], RetriableError]] = field(default_factory=list)
    """Parts that failed with a retriable error."""
    began: float = field(default_factory=time.monotonic)

    def run(self, pieces: Sequence[Piece], failed: RecordsFailed | None = None) -> Outcome[TopicPartition]:
        """Write the rows; return how far each partition got.

        `failed`: the error of a writer that was given all the rows at once.
        """
        todo = [list(pieces)] if failed is None else self._parts(pieces, failed)
        while todo and not (self.outcome.of and self._is_late):
            self.of.scope.stop.raise_if_set("looking for the records that keep a batch from being written")
            part = todo.pop()
            try:
                self._take(part, self.of.task.writer(next(self.of.attempts)))
            except (EngineLost, NotSentYet):
                raise
            except RecordsFailed as error:
                todo += self._parts(part, error)
            except RetriableError as error:
                todo += self._after(part, error, todo)
        if self.leave_rest:
            late = RetriableError("the search for the records that cannot be written took too long")
            self.slow += [(part, late) for part in reversed(todo)]
        elif self.slow and not (self.written or _good(pieces) == 1):
            raise self.slow[0][1]
        for part, why in self.slow:
            self._refuse(part, why)
        return self.outcome

    def _parts(self, part: Sequence[Piece], error: RecordsFailed) -> list[list[Piece]]:
        """The parts to try next, of a part in which the sink names no record."""
        if _count(part) > 1:
            return list(reversed(_halves(part)))
        self._refuse(part, error)
        return []

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self.began > MOST_S

    def _after(self, part: list[Piece], error: RetriableError, todo: list[list[Piece]]) -> list[list[Piece]]:
        """The parts to try next, of a part that failed with a retriable error."""
        self.tries += 1
        most = MOST_TRIES if self.written else MOST_VAIN_TRIES
        given_up = self.later is None or self.tries >= most or self._is_late
        if given_up and not self.leave_rest:
            raise error
        if given_up or _count(part) == 1:
            self.slow += [(part, error)]
            if given_up:
                self.slow += [(rest, error) for rest in reversed(todo)]
                todo.clear()
            return []
        return list(reversed(_halves(part)))

    def _refuse(self, part: Sequence[Piece], error: Exception) -> None:
        self._take(part, _Refusing(str(error), isinstance(error, RetriableError)))

    def _take(self, part: Sequence[Piece], writer: ArrowWriter) -> None:
        stopped = [partition for partition, one in self.outcome.of.items() if one.stop is Stop.FATAL]
        for partition, now in self.of._write(part, self.later, writer, stopped).of.items():
            self.outcome.add(partition, now)
            self.written = self.written or now.written > 0


@dataclass
class _Refusing:
    """A writer that refuses each row with the error met before."""

    message: str
    retriable: bool

    def write(self, rows: pa.RecordBatch) -> None:
        """Errors: RecordsFailed."""
        failures = [RecordFailure(row, self.message, self.retriable) for row in range(rows.num_rows)]
        raise RecordsFailed(self.message, failures)

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None:
        """Nothing is open."""


def _count(pieces: Sequence[Piece]) -> int:
    return sum(decoded.num_rows for decoded, _ in pieces)


def _good(pieces: Sequence[Piece]) -> int:
    """Count the rows that go to a writer."""
    passed = [pc.or_(decoded["_drop"].fill_null(False), decoded["_stop"].is_valid()) for decoded, _ in pieces]
    return sum(len(skipped) - (pc.sum(skipped).as_py() or 0) for skipped in passed)


def _places(failed: pa.RecordBatch) -> list[tuple[str, int, int]]:
    return list(zip(*(failed[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True))


def _halves(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    first: list[Piece] = []
    rest: list[Piece] = []
    left = _count(pieces) // 2
    for decoded, raw in pieces:
        taken = min(left, decoded.num_rows)
        if taken:
            first.append((decoded.slice(0, taken), raw.slice(0, taken)))
        if taken < decoded.num_rows:
            rest.append((decoded.slice(taken), raw.slice(taken)))
        left -= taken
    return first, rest
