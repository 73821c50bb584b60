"""Follows the snapshots of one table: what comes after a position.

Decided: snapshots are read one after the other, files in the order of their paths, because a restart then finds the
same rows in the same places; loses: the files of one table are not read side by side, tables are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.source.positions import ROOT, Position
from headrace.connectors.lake.iceberg.source.scans import History, Scans, Snapshot, TableFile, expired, left
from headrace.connectors.lake.iceberg.source.settings import EARLIEST, LATEST, SourceOptions
from headrace.connectors.lake.iceberg.tables import TableState

log = logging.getLogger(__name__)

_APPEND: Final = "append"
_REPLACE: Final = "replace"


@dataclass(frozen=True)
class Chosen:
    """The files of a table that a plan reads."""

    begin: Position
    files: tuple[TableFile, ...]
    """The files from `begin.file` on; none if only the position moves on."""
    end: Position
    """The position after them."""

    @property
    def rows(self) -> int:
        """The rows of the files, before deletes."""
        return max(0, sum(file.records for file in self.files) - self.begin.row)


class Following:
    """One table of a task."""

    def __init__(self, scans: Scans, table: str, options: SourceOptions) -> None:
        self._scans, self.table, self._options = scans, table, options
        self._history: History | None = None
        self._after = ROOT
        self._asked = 0.0
        self._files: tuple[tuple[int, bool], tuple[TableFile, ...]] | None = None
        self._state: TableState | None = None

    @property
    def state(self) -> TableState:
        """The table, once something of it was planned."""
        assert self._state is not None
        return self._state

    @property
    def defaults(self) -> frozenset[int]:
        """The ids of columns whose value in files without them is not null."""
        return self._told.defaults

    @property
    def _told(self) -> History:
        """The history that the table told last."""
        assert self._history is not None
        return self._history

    def next(self, position: Position | None, rows: int, size: int) -> Chosen | None:
        """Return about so many rows and bytes of files after a position; None if nothing is new.

        Errors: LakeError, RetriableError.
        """
        begin = self._checked(position)
        moved = begin
        while moved is not None:
            if not moved.done and (chosen := self._chosen(moved, rows, size)) is not None:
                return chosen
            following = self._following(moved)
            if following is None:
                break
            moved = following
        if moved is not None and moved.uuid != self._told.uuid:
            return self.next(position, rows, size)  # made again since it was begun
        if moved is None or (moved == begin and position is not None):
            return None
        done = Position(moved.uuid, moved.snapshot)
        return Chosen(done, (), done)

    def _checked(self, position: Position | None) -> Position | None:
        """Return the position in this table, where it begins if there is none; None if it has nothing yet."""
        if self._history is None:
            self._ask(ROOT if position is None else position.snapshot)
        history = self._told
        if position is not None and position.uuid and position.uuid != history.uuid:
            log.warning("Table %s was made again: it is read from its start", self.table)
            return self._whole(history)
        if position is not None:
            return replace(position, uuid=history.uuid)
        return self._start()

    def _start(self) -> Position | None:
        if self._after != ROOT or self._is_due():
            self._ask(ROOT)
        history, start = self._told, self._options.start
        if start == EARLIEST:
            return self._whole(history)
        if start == LATEST:
            return Position(history.uuid, history.head)
        if isinstance(start, datetime):
            if start > datetime.now(UTC):
                return None
            return Position(history.uuid, self._before(start))
        assert isinstance(start, int)
        return Position(history.uuid, start)

    def _before(self, moment: datetime) -> int:
        """Return the last snapshot of the branch before this moment."""
        before, limit = ROOT, moment.timestamp() * 1000
        while True:
            history = self._ask(before)
            if not history.is_reached and (not history.snapshots or history.snapshots[0].timestamp >= limit):
                raise LakeError(
                    f"Table {self.table}: the snapshots at {moment.isoformat()} have expired. Set start.from to a "
                    "later time, or to earliest for all rows of the table."
                )
            earlier = [one.id for one in history.snapshots if one.timestamp < limit]
            if not earlier:
                return before
            before = earlier[-1]

    @staticmethod
    def _whole(history: History) -> Position | None:
        return None if history.head == ROOT else Position(history.uuid, history.head, whole=True, done=False)

    def _chosen(self, position: Position, rows: int, size: int) -> Chosen | None:
        """Return the next files of a snapshot; None at its end."""
        key = position.snapshot, position.whole
        if self._files is None or self._files[0] != key:
            self._files = key, self._scans.files(self.table, *key)
        files = self._files[1]
        chosen = tuple(_some(files[position.file :], rows + position.row, size))
        if not chosen:
            return None
        end = position.file + len(chosen)
        after = replace(position, file=end, row=0)
        if end == len(files):
            after = Position(position.uuid, position.snapshot)
        return Chosen(position, chosen, after)

    def _following(self, position: Position) -> Position | None:
        """Return the begin of the snapshot after a position, or its end if it has no rows; None if there is none."""
        snapshot = self._snapshot_after(position)
        if snapshot is None:
            return None
        done = Position(position.uuid, snapshot.id)
        if snapshot.operation == _APPEND:
            return replace(done, done=False)
        if snapshot.operation != _REPLACE:
            self._pass_over(snapshot)
        return done

    def _pass_over(self, snapshot: Snapshot) -> None:
        what = f"Table {self.table}: snapshot {snapshot.id} ({snapshot.operation}) deletes or overwrites rows"
        if not self._options.skips_deletes:
            raise LakeError(
                f"{what}, which a topic cannot follow. Set on.delete=skip to leave such snapshots out, with the rows "
                f'that they add, or PATCH the connector\'s offsets to {{"snapshot": {snapshot.id}}} to go on after it.'
            )
        log.warning("%s: it is left out (on.delete=skip)", what)

    def _snapshot_after(self, position: Position) -> Snapshot | None:
        after, told = position.snapshot, self._told.snapshots
        ids = [self._after, *(one.id for one in told)] if self._told.is_reached else []
        if after in ids[:-1]:
            return told[ids.index(after)]
        if after in ids and not self._is_due():
            return None
        history = self._ask(after)
        if history.uuid != position.uuid:
            return None
        if not history.is_reached:
            raise left(self.table, after, self._options.branch) if history.is_known else expired(self.table, after)
        return history.snapshots[0] if history.snapshots else None

    def _is_due(self) -> bool:
        return time.monotonic() >= self._asked + self._options.poll_interval_s

    def _ask(self, after: int) -> History:
        self._asked = time.monotonic()
        history = self._scans.history(self.table, after)
        if self._state is None or (self._state.uuid, self._state.schema_id) != (history.uuid, history.schema_id):
            self._state = self._scans.load(self.table)
        self._history, self._after = history, after
        return history


def _some(files: tuple[TableFile, ...], rows: int, size: int) -> Iterator[TableFile]:
    """Yield the first files that have so many rows or bytes; at least one."""
    for file in files:
        if rows <= 0 or size <= 0:
            return
        yield file
        rows, size = rows - file.records, size - file.size
