"""Finds the new rows of a table by one cheap query: their count after its position, and their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.columns import Kind
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.source_sql import SourceSql, single_row
from headrace.connectors.jdbc.contract.tables import Table
from headrace.connectors.jdbc.source.offsets import least_shown
from headrace.connectors.jdbc.source.overlap_rows import OverlapRows
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable, TableLayout
from headrace.connectors.jdbc.source.windows import Mode, Position, ReadWindow, begin_position, next_end
from headrace.plugins.contracts import Limit

COUNTED: Final = 100_000
"""A bulk read's rows are counted up to here if the database estimates no size."""

MEASURED: Final = 1_000
"""From this number of rows on, the database's estimate of their size is read."""


@dataclass(frozen=True)
class FoundWindow:
    """A window with rows in it."""

    table: SourceTable
    window: ReadWindow
    rows: int
    bytes: int
    more: bool = False
    """True if there are more rows after it."""
    low: int | None = None
    """The first value of the order's first column."""

    @property
    def is_late(self) -> bool:
        """True if its rows were committed late."""
        return self.window.is_late


class WindowQuery:
    """Queries the tables of a task for their next windows."""

    def __init__(self, values: Mapping[str, Any], dialect: Dialect, sql: SourceSql, mode: Mode) -> None:
        """`values`: parsed settings."""
        self._dialect = dialect
        self._sql = sql
        self._mode = mode
        self._delay_ms: int = values["timestamp.delay.interval.ms"]
        self._initial_ms: int | None = values["timestamp.initial"]
        self._initial_id: int = values["incrementing.initial"]
        self._distance: int = (
            values["incrementing.overlap"] if mode is Mode.INCREMENTING else (values["timestamp.overlap.ms"] * 1000)
        )
        self._late: dict[str, OverlapRows] = {}
        self._clock: int | None = None

    def begin(self) -> None:
        """Begins a round: the database's clock is read anew."""
        self._clock = None

    def ask(
        self, connection: Connection, table: SourceTable, stored: Position | None, limit: Limit
    ) -> FoundWindow | None:
        """The next window of a described table; None if no rows are left to read."""
        if self._mode is Mode.BULK:
            return self._all(connection, table)
        layout = _layout(table)
        after = self._begin(connection, layout, stored)
        if stored is not None and self._distance:
            late = self._late_rows(table).look(connection, layout, table.source, after)
            if late is not None:
                window, rows = late
                return FoundWindow(table, window, rows, rows * table.row_bytes)
        most = _most(table, limit)
        count, low, high = self._count_after(connection, table, layout, after, most)
        if count >= MEASURED and self._size(connection, table) is not None and _most(table, limit) < count:
            most = _most(table, limit)
            count, low, high = self._count_after(connection, table, layout, after, most)
        if table.loading is None:
            table.loading = stored is None
        if not count:
            table.loading = False
            return None
        upto = Position(micros=high) if self._mode.times else Position(id=high)
        return FoundWindow(table, ReadWindow(after, upto), count, count * table.row_bytes, count >= most, low)

    def expect(self, connection: Connection, found: FoundWindow) -> None:
        """Remembers the rows of a window before it is read, for the search for late rows."""
        if self._distance and not found.is_late and found.window.upto is not None:
            layout = _layout(found.table)
            self._late_rows(found.table).expect(connection, layout, found.table.source, found.window)

    def delivered(self, found: FoundWindow, reached: Position, whole: bool) -> None:
        """Records that a window was read up to here. `whole=False`: it is unknown which late rows arrived."""
        if self._distance and (whole or not found.is_late):
            self._late_rows(found.table).delivered(reached)

    def _begin(self, connection: Connection, layout: TableLayout, stored: Position | None) -> Position:
        if self._initial_ms == -1:
            self._initial_ms = self._now(connection) // 1000
        # By the lesser time if the clock shows the hour twice: else rows of its second time would be skipped.
        if self._initial_ms is None:
            # The epoch, which a clock in the west shows as a time of 1969.
            initial = min(0, least_shown(0, layout.zone)) or None
        else:
            initial = least_shown(self._initial_ms * 1000, layout.zone)
        found = begin_position(stored, self._mode, initial)
        return found._replace(id=self._initial_id) if stored is None and self._mode.counts else found

    def _count_after(
        self, connection: Connection, table: SourceTable, layout: TableLayout, after: Position, most: int
    ) -> tuple[int, int, int]:
        """The count of rows after a position, `most` at most, with their first and last values."""
        order = layout.order
        times, end, first = self._mode.times, None, order.by[0]
        if times:
            # Decided: an hour that the zone's clock shows twice is read when it shows it again, because rows of its
            # second time would lie before the position that those of the first have reached; loses: an hour's delay
            # once a year.
            settled = least_shown(self._now(connection) - self._delay_ms * 1000, layout.zone)
            end = next_end(settled, layout.unit)
        rows = f"SELECT {first} AS k FROM {table.source} WHERE {order.beyond(after, end)} ORDER BY {first}"
        ends = ", ".join(self._sql.number(one) if times else one for one in ("MIN(k)", "MAX(k)"))
        found = single_row(connection, f"SELECT COUNT(*), {ends} FROM ({self._sql.limited(rows, most)}) w")
        count, low, high = (int(one or 0) if times else _id(one, table) for one in found)
        return count, low, high

    def _all(self, connection: Connection, table: SourceTable) -> FoundWindow | None:
        plain = connection.execution_options(no_parameters=True)
        one = f"SELECT 1 AS k FROM {table.source}"
        if table.id is not None and plain.exec_driver_sql(self._sql.limited(one, 1)).first() is None:
            return None
        if (size := self._size(connection, table)) is not None:
            return FoundWindow(table, ReadWindow(Position()), *size)
        if table.id is None:
            return FoundWindow(table, ReadWindow(Position()), 1, table.row_bytes)
        (count,) = single_row(connection, f"SELECT COUNT(*) FROM ({self._sql.limited(one, COUNTED)}) w")
        return FoundWindow(table, ReadWindow(Position()), int(count), int(count) * table.row_bytes)

    def _size(self, connection: Connection, table: SourceTable) -> tuple[int, int] | None:
        """Asks for the estimate of a table's rows and bytes, and notes the size of a row; None without an estimate."""
        size = None if table.id is None else self._sql.size(connection, table.id, table.quoted)
        if size is None or not all(size):
            return None
        table.row_bytes, table.measured = max(1, size[1] // size[0]), True
        return size

    def _now(self, connection: Connection) -> int:
        if self._clock is None:
            self._clock = self._dialect.now_micros(connection)
        return self._clock

    def _late_rows(self, table: SourceTable) -> OverlapRows:
        return self._late.setdefault(table.name, OverlapRows(self._distance))


def _most(table: SourceTable, limit: Limit) -> int:
    return max(1, min(limit.rows, limit.bytes // max(1, table.row_bytes)))


def _id(value: Any, table: SourceTable) -> int:
    """A value of an incrementing column. Errors: SourceError for a value that no offset can hold."""
    try:
        number = int(value or 0)
    except (ValueError, TypeError, OverflowError):
        number = None
    if number is None or number != (value or 0):
        raise SourceError(f"Invalid value for incrementing column of table {table.name}: {value!r} is no integer")
    if abs(number) >= 2**63:
        raise SourceError(
            f"Decimal value for incrementing column exceeded Long.MAX_VALUE: {number} in table {table.name}"
        )
    return number


def guessed_row_bytes(facts: Table) -> int:
    """A row's approximate size, by its columns alone."""
    texts = (Kind.STRING, Kind.BYTES, Kind.ARRAY)
    return 16 + sum(min(column.length or 32, 100) if column.kind in texts else 8 for column in facts.columns)


def _layout(table: SourceTable) -> TableLayout:
    assert table.layout is not None, f"{table.name} was never described"
    return table.layout
