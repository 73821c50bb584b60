"""Plans the next batch of the due tables: finds their new windows, waits for late rows, chooses windows.

Small windows of many tables go into one plan, large ones into their own. That becomes a job, in which each table is one
part, or several if order does not matter. After a plan that the database failed to read, its tables are read one by
one, so that a failing one does not delay the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import Table
from headrace.connectors.jdbc.database import sql_states
from headrace.connectors.jdbc.source.offsets import position_of
from headrace.connectors.jdbc.source.splits import split_of
from headrace.connectors.jdbc.source.tables import SourceError, SourceTable, TableLayout, TableLayouts, query_facts
from headrace.connectors.jdbc.source.transaction_wait import TransactionWait
from headrace.connectors.jdbc.source.window_query import FoundWindow, WindowQuery, guessed_row_bytes
from headrace.connectors.jdbc.source.windows import Mode, Position
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import Limit, PartitionResult, Plan, SourceOffset, Split
from headrace.plugins.stopping import StopToken

SMALL_ROWS: Final = 20_000
SMALL_BYTES: Final = 4 << 20
"""Windows below these limits go into one plan, as long as their sum is below them, too."""
_MOST_SMALL: Final = 64
_MOST_LARGE: Final = 4
_ASK_S: Final = 0.5
"""After so long no more tables are queried before the windows found so far, or waiting ones, are looked at."""
_BACKOFF: Final = Backoff(1.0, 60.0)
"""The pauses of a table that failed, while others are read."""
_GONE_S: Final = 60.0
"""The pause before a missing table is looked for again; its connector finds out, too."""

log = logging.getLogger(__name__)


class Planning:
    """Plans the reading of a task's tables."""

    def __init__(
        self, values: Mapping[str, Any], dialect: Dialect, sql: SourceSql, tables: Sequence[SourceTable], query: str
    ) -> None:
        """`values`: parsed settings."""
        self.tables = tuple(tables)
        self.layouts: dict[str, tuple[SourceTable, TableLayout]] = {}
        """By shape."""
        self._mode = Mode(values["mode"])
        self._attempts: int = values["query.retry.attempts"]
        self._failures = 0
        self._interval_s: float = values["poll.interval.ms"] / 1000
        self._dialect = dialect
        self._query = query
        self._making = TableLayouts.of(values, sql)
        self._windows = WindowQuery(values, dialect, sql, self._mode)
        self._late = TransactionWait.of(values, self._mode, sql)
        self._asked: list[SourceTable] = []
        self._planned: dict[str, FoundWindow] = {}
        self._large_turn = False

    def describe(self, connection: Connection, tables: Sequence[SourceTable]) -> list[SourceTable]:
        """Updates the columns of these tables and returns those that exist.

        Errors: SourceError if the columns of the mode are not among them.
        """
        there = []
        for table, facts in zip(tables, self._facts(connection, tables), strict=True):
            if facts is None:
                log.warning("Table %s does not exist, or its user may not read it; it is looked for again", table.name)
                table.layout, table.due = None, time.monotonic() + _GONE_S
                continue
            layout = self._making.make(table, facts)
            if layout is not table.layout:
                if table.layout is not None:
                    log.info("The columns of table %s have changed", table.name)
                self.layouts[layout.shape] = table, layout
            table.layout, table.facts = layout, facts
            table.row_bytes = table.row_bytes or guessed_row_bytes(facts)
            there.append(table)
        return there

    def due(self, refused: bool = False) -> list[SourceTable]:
        """The tables to query now, longest-waiting first. Errors: SourceError after `query.retry.attempts`.

        `refused`: the database failed the last plan, or the planning.
        """
        failed, self._planned = [found.table for found in self._planned.values()], {}
        for table in failed:
            table.due, table.alone = 0.0, table.alone or refused
        if refused and len(failed) == 1:
            self._failed(failed[0])
        elif refused and not failed:
            self._failures += 1
            self._check(self._failures)
        now = time.monotonic()
        due = [table for table in self.tables if table.due <= now or table.name in self._late.waiting]
        self._asked = sorted(due, key=lambda table: table.due)
        return self._asked

    def plan(
        self, connection: Connection, after: Sequence[SourceOffset | None], limit: Limit, stopping: StopToken
    ) -> Plan | None:
        """Plans the new rows of the due tables, from the offsets of their partitions; None without new rows."""
        if not self._asked:
            return None
        chosen = self._chosen(self._late.settled(connection, self._found(connection, after, limit, stopping)))
        there = {table.name for table in self.describe(connection, [found.table for found in chosen])}
        self._planned = {found.table.name: found for found in chosen if found.table.name in there}
        chosen = list(self._planned.values())
        splits = tuple(self._split(connection, found) for found in chosen)
        self._failures = 0
        if not chosen:
            return None
        return Plan(splits, sum(found.rows for found in chosen), sum(found.bytes for found in chosen))

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Records how far the last plan's rows are in Kafka; windows not among them had no rows."""
        by_partition = {_name(one.source_partition): one for one in reached}
        planned, self._planned = self._planned, {}
        for found in planned.values():
            table, one = found.table, by_partition.get(_name(found.table.partition))
            stopped = one is not None and one.stop is not None
            table.failures, table.alone = 0, False
            table.due = 0.0 if stopped or found.more or found.is_late else time.monotonic() + self._interval_s
            if not (stopped or found.more):
                table.loading = False
            if one is not None and one.source_offset is not None and table.layout is not None:
                table.old_partition = None
                reached_now = position_of(one.source_offset, self._mode, table.layout.zone)
                self._windows.delivered(found, reached_now or Position(), one.stop is None)

    def _facts(self, connection: Connection, tables: Sequence[SourceTable]) -> list[Table | None]:
        if self._query:
            return [query_facts(self._dialect.columns_of(connection, self._query)) for _ in tables]
        ids = [table.id for table in tables if table.id is not None]
        described = self._dialect.describe(connection, ids) if ids else {}
        return [None if table.id is None else described.get(table.id) for table in tables]

    def _found(
        self, connection: Connection, after: Sequence[SourceOffset | None], limit: Limit, stopping: StopToken
    ) -> Iterator[FoundWindow]:
        self._windows.begin()
        offsets, began, count, waiting = iter(after), time.monotonic(), 0, self._late.waiting
        for table in self._asked:
            stored = [next(offsets) for _ in table.partitions]
            enough = count >= _MOST_SMALL or ((count or waiting) and time.monotonic() - began > _ASK_S)
            if stopping.is_set() or enough or table.name in waiting:
                continue
            if table.layout is None and not self.describe(connection, [table]):
                continue
            assert table.layout is not None
            offset = next((one for one in stored if one is not None), None)
            position = position_of(offset, self._mode, table.layout.zone)
            try:
                found = self._windows.ask(connection, table, position, limit)
            except SQLAlchemyError as error:
                self._passed_over(connection, table, error)
                count += 1
                continue
            if found is None:
                table.failures, table.alone = 0, False
                table.due = time.monotonic() + self._interval_s
            else:
                count += 1
                yield found

    def _passed_over(self, connection: Connection, table: SourceTable, error: SQLAlchemyError) -> None:
        """Passes over a table whose query failed, if it is gone or the error is retriable; else raises the error."""
        if getattr(error, "connection_invalidated", False):
            raise error
        connection.rollback()
        if len(self.tables) > 1 and sql_states.is_retriable(error):
            self._failed(table)
            log.warning("The query of table %s failed, others go first: %s", table.name, sql_states.message(error))
        elif table.id is None or self.describe(connection, [table]):
            raise error

    def _failed(self, table: SourceTable) -> None:
        table.failures += 1
        self._check(table.failures, f" of {table.name}")
        if len(self.tables) > 1:  # a single table waits as its task does
            table.due = time.monotonic() + _BACKOFF.pause(table.failures)

    def _check(self, failures: int, of: str = "") -> None:
        if 0 <= self._attempts < failures:
            raise SourceError(f"Failed to query table after retries: {failures} failures{of} in a row, as the log says")

    def _chosen(self, found: Sequence[FoundWindow]) -> list[FoundWindow]:
        """The windows to read now: small ones together, or a few large ones; the others are queried again."""
        if alone := [one for one in found if one.table.alone]:
            return alone[:1]
        small = [one for one in found if _is_small(one)]
        large = [one for one in found if not _is_small(one)]
        if large and (self._large_turn or not small):
            self._large_turn = False
            return large[:_MOST_LARGE]
        self._large_turn = True
        chosen: list[FoundWindow] = []
        rows = size = 0
        for one in small[:_MOST_SMALL]:
            rows, size = rows + one.rows, size + one.bytes
            if rows >= SMALL_ROWS or size >= SMALL_BYTES:
                break
            chosen.append(one)
        return chosen

    def _split(self, connection: Connection, found: FoundWindow) -> Split:
        table = found.table
        assert table.layout is not None
        self._windows.expect(connection, found)
        return split_of(found, table.layout)


def _is_small(found: FoundWindow) -> bool:
    return found.rows < SMALL_ROWS and found.bytes < SMALL_BYTES


def _name(partition: Mapping[str, Any] | None) -> str:
    return str(sorted((partition or {}).items()))
