"""Finds late rows, committed before the position that a source has reached, by looking back over an overlap.

The setting `incrementing.overlap` or `timestamp.overlap.ms` bounds it. The rows read from it are remembered. A query
counts them, and only if there are more now, positions are compared. In mode timestamp, rows of one timestamp have no
other name: if there is one more of them, all rows of that timestamp are read again.

Decided: the task remembers the rows it has read and stores none, because there are as many as the overlap has rows;
loses: after a restart all rows of the overlap are read again, in one window (at least once).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.source_sql import single_row
from headrace.connectors.jdbc.source.tables import SourceError, TableLayout
from headrace.connectors.jdbc.source.windows import Mode, Position, ReadWindow, position_before

MOST_KEYS: Final = 200_000
"""The most rows of an overlap."""
MOST_LATE: Final = 500
"""The most positions that are read at once."""
_MODULUS: Final = 1_000_003


@dataclass
class OverlapRows:
    """The rows of one table that were read within the overlap."""

    distance: int
    """Units: ids, or microseconds."""
    _known: Counter[Position] | None = None
    _expected: Counter[Position] = field(default_factory=Counter)
    _asked: tuple[Position, tuple[int, int]] | None = None

    def look(
        self, connection: Connection, layout: TableLayout, source: str, after: Position
    ) -> tuple[ReadWindow, int] | None:
        """A window of the first unread rows up to `after`, and their number; None if no row is unread.

        It is the whole overlap if it is unknown which rows were read.
        """
        condition = self._stretch(layout, after)
        summary = self._summary(connection, layout, source, condition)
        if self._known is not None and self._asked == (after, summary):
            return None
        positions = self._positions(connection, layout, source, condition)
        there = Counter({at: count for at, count in positions.items() if _upto(at, after)})
        if self._known is None and there:
            self._expected = there
            return ReadWindow(after, again=position_before(after, layout.order.mode, self.distance)), there.total()
        known = self._known or Counter()
        late = sorted(at for at, count in there.items() if count > known[at])[:MOST_LATE]
        if not late:
            self._known, self._asked = there, (after, summary)
            return None
        self._expected = Counter({at: there[at] for at in late})
        return ReadWindow(after, late=tuple(late)), self._expected.total()

    def expect(self, connection: Connection, layout: TableLayout, source: str, window: ReadWindow) -> None:
        """Remembers the rows that a window will give, before it is read.

        Rows before the window that were committed since the last look are not among them.
        """
        assert window.upto is not None
        there = self._positions(connection, layout, source, self._stretch(layout, window.upto))
        self._expected = Counter({at: count for at, count in there.items() if not _upto(at, window.after)})

    def delivered(self, reached: Position) -> None:
        """Records that the expected rows were read up to `reached`."""
        known = Counter(self._known or {})
        for at, count in self._expected.items():
            if _upto(at, reached):
                known[at] = max(known[at], count)
        self._known = known
        self._asked = None
        self._expected = Counter()

    def _stretch(self, layout: TableLayout, upto: Position) -> str:
        return layout.order.rows(ReadWindow(position_before(upto, layout.order.mode, self.distance), upto))

    def _summary(self, connection: Connection, layout: TableLayout, source: str, condition: str) -> tuple[int, int]:
        key = " + ".join(part for part in (layout.micros, layout.id) if part)
        count, total = single_row(
            connection, f"SELECT COUNT(*), SUM(({key}) % {_MODULUS}) FROM {source} WHERE {condition}"
        )
        return int(count), int(total or 0)

    def _positions(self, connection: Connection, layout: TableLayout, source: str, condition: str) -> Counter[Position]:
        micros, number = layout.micros or "NULL", layout.id or "NULL"
        inner = f"SELECT {micros} AS m, {number} AS n FROM {source} WHERE {condition}"
        grouped = f"SELECT m, n, COUNT(*) FROM ({inner}) k GROUP BY m, n"
        plain = connection.execution_options(no_parameters=True)
        rows: Any = plain.exec_driver_sql(layout.sql.limited(grouped, MOST_KEYS + 1)).all()
        if len(rows) > MOST_KEYS:
            what = "incrementing.overlap" if layout.order.mode is Mode.INCREMENTING else "timestamp.overlap.ms"
            raise SourceError(f"{what} covers more than {MOST_KEYS} rows of {layout.table}; make it smaller")
        return Counter(
            {Position(None if m is None else int(m), None if n is None else int(n)): int(c) for m, n, c in rows}
        )


def _upto(at: Position, end: Position) -> bool:
    """True if a position is not beyond the end. In mode timestamp it has no id, in mode incrementing no time.

    An end without what the position has is before all rows.
    """
    if at.micros is None:
        return at.id is not None and end.id is not None and at.id <= end.id
    if end.micros is None:
        return False
    if at.id is None or end.id is None:
        return at.micros <= end.micros
    return (at.micros, at.id) <= (end.micros, end.id)
