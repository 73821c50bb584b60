"""Turns windows into a plan's splits, in JSON, and splits into their SELECT. Pure.

A split's `after` and `upto` are offsets, with further members that are never stored: `_low`, the beginning of a first
load that is cut into pieces; for late rows `_late`, their positions, or `_again`, their beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.connectors.jdbc.contract.source_sql import Ranges
from headrace.connectors.jdbc.source.offsets import offset_of, position_of
from headrace.connectors.jdbc.source.reading import SplitQuery
from headrace.connectors.jdbc.source.tables import SourceTable, TableLayout
from headrace.connectors.jdbc.source.window_query import FoundWindow
from headrace.connectors.jdbc.source.windows import Mode, Position, ReadWindow
from headrace.plugins.contracts import Split

LOW: Final = "_low"
LATE: Final = "_late"
AGAIN: Final = "_again"


def split_of(found: FoundWindow, layout: TableLayout) -> Split:
    """The split of a window."""
    window, mode, zone = found.window, layout.order.mode, layout.zone
    after = offset_of(window.after, mode, zone) or None
    if mode is Mode.BULK:
        return Split(found.table.partition, None, None, layout.shape)
    if window.late:
        late = {LATE: [list(position) for position in window.late]}
        return Split(found.table.partition, after, late, layout.shape)
    if window.again is not None:
        return Split(found.table.partition, after, {AGAIN: list(window.again)}, layout.shape)
    upto: dict[str, Any] = offset_of(window.upto or Position(), mode, zone)
    if found.table.loading and found.low is not None:
        upto[LOW] = found.low
    return Split(found.table.partition, after, upto, layout.shape)


def window_of(split: Split, layout: TableLayout) -> ReadWindow:
    """The window of a split."""
    mode, zone = layout.order.mode, layout.zone
    after = position_of(split.after, mode, zone) or Position()
    members = split.upto or {}
    if LATE in members:
        return ReadWindow(after, late=tuple(Position(micros, number) for micros, number in members[LATE]))
    if AGAIN in members:
        return ReadWindow(after, again=Position(*members[AGAIN]))
    return ReadWindow(after, position_of(split.upto, mode, zone))


def split_query(split: Split, table: SourceTable, layout: TableLayout, suffix: str = "") -> SplitQuery:
    """The SELECT of a split, in a mode with an order."""
    window, order = window_of(split, layout), layout.order
    if window.is_late:
        suffix = ""  # all of these rows count as read
    return SplitQuery(
        select=layout.select(table.source, order.rows(window)),
        types=layout.types,
        shape=layout.shape,
        order=layout.ordered_by,
        ranges=None if suffix else _ranges(split.upto or {}, window, layout),
        suffix=suffix,
        last_micros=window.upto.micros if window.upto is not None else None,
        zone=layout.zone,
        offset=offset_of(window.after, order.mode, layout.zone) if window.is_late else None,
    )


def _ranges(upto: Mapping[str, Any], window: ReadWindow, layout: TableLayout) -> Ranges | None:
    if window.upto is None or LOW not in upto:
        return None
    times = layout.order.mode.times
    high = window.upto.micros if times else window.upto.id
    return None if high is None else Ranges("", upto[LOW], high, layout.order.bound if times else str)
