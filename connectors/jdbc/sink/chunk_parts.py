"""Splits a chunk's rows into parts, which are written one after the other, each by the statements of its layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import PASSED, SEPARATOR, Operation, RowLayout, keeps_last
from headrace.connectors.jdbc.contract.sink_sql import Target
from headrace.connectors.jdbc.sink.evolution import Tables
from headrace.connectors.jdbc.sink.order import (
    Numbers,
    by_key,
    exact_bytes,
    last_of_each,
    not_deleted,
    numbered,
    rough_bytes,
    waves,
)


@dataclass
class RowKind:
    """Rows of a chunk that are written by the same statements."""

    target: Target
    layout: RowLayout
    table: str
    """The name of the table, by the settings."""
    members: tuple[str, ...] = ()
    """The sorted names of the members of values without schema."""


@dataclass
class ChunkParts:
    """Orders the rows of one sink's chunks."""

    _layouts: dict[int, RowLayout]
    _options: SinkOptions
    _tables: Tables

    def prepare(self, rows: pa.RecordBatch) -> None:
        """Prepares the tables beforehand: DDL would commit an open transaction, or wait for it.

        Errors: as `Tables.target`.
        """
        for name, part in _by_table(rows):
            self._kinds(name, part)

    def ordered(self, rows: pa.RecordBatch) -> Iterator[tuple[RowKind, pa.RecordBatch]]:
        """The parts with their kinds, in writing order."""
        for name, of_table in _by_table(rows):
            for part in self._lasting(of_table):
                yield from self._in_order(part, list(self._kinds(name, part).values()))

    def _lasting(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """One table's rows with a lasting effect: the last row that empties it, alone, then all rows after that."""
        emptying = [number for number, layout in self._layouts.items() if layout.operation is Operation.TRUNCATE]
        found = np.flatnonzero(np.isin(rows["layout"].to_numpy(), emptying))
        if len(found):
            last = int(found[-1])
            yield rows.slice(last, 1)
            rows = rows.slice(last + 1)
        yield from self._of_like_keys(rows)

    def _of_like_keys(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Splits rows where their keys' columns change: only the table can tell if unlike columns name one row."""
        encoded = rows["layout"].dictionary_encode()
        layouts = [self._layouts[number] for number in encoded.dictionary.to_pylist()]
        columns = [sorted(cell.name.lower() for cell in layout.key) for layout in layouts]
        ends = [len(rows)] if len(rows) else []
        if any(keeps_last(layout, self._options) for layout in layouts):
            alike = np.array([columns.index(one) for one in columns])[encoded.indices.to_numpy()]
            ends = [*(np.flatnonzero(np.diff(alike)) + 1).tolist(), *ends]
        for begin, end in pairwise([0, *ends]):
            yield rows.slice(begin, end - begin)

    def _kinds(self, name: str, rows: pa.RecordBatch) -> dict[int, RowKind]:
        """The kinds of these rows of one table, by the numbers of `_kind_numbers`."""
        found = {}
        for number, first in zip(*np.unique(_kind_numbers(rows), return_index=True), strict=True):
            layout = self._layouts[rows["layout"][int(first)].as_py()]
            shape = rows["shape"][int(first)].as_py() if layout.members else None
            members = tuple(shape.split(SEPARATOR)) if shape else ()
            found[int(number)] = RowKind(self._tables.target(name, layout, members), layout, name, members)
        return found

    def _in_order(self, rows: pa.RecordBatch, kinds: list[RowKind]) -> Iterator[tuple[RowKind, pa.RecordBatch]]:
        exact = all(kind.target.exact for kind in kinds)
        if len(kinds) == 1 and (exact or not keeps_last(kinds[0].layout, self._options)):
            yield kinds[0], self._as_loaded(rows, kinds[0].layout, None)
            return
        numbers = _kind_numbers(rows)
        keys = self._keys(rows, numbers, kinds, exact_bytes)
        deletes = np.isin(numbers, [n for n, kind in enumerate(kinds) if kind.layout.operation is Operation.DELETE])
        if deletes.any() and all(keeps_last(kind.layout, self._options) for kind in kinds):
            kept = not_deleted(keys, deletes)
            if len(kept) < len(rows):
                rows, numbers, keys = rows.take(pa.array(kept)), numbers[kept], keys[kept]
        steps = numbers
        if not exact:  # keys that may be one row go in waves of their own
            steps = numbered([pa.array(numbers), pa.array(keys)], len(rows))
            keys = self._keys(rows, numbers, kinds, rough_bytes)
        wave = waves(keys, steps)
        for turn in range(int(wave.max(initial=-1)) + 1):
            for number, kind in enumerate(kinds):
                chosen = np.flatnonzero((wave == turn) & (numbers == number))
                if len(chosen):
                    yield kind, self._as_loaded(rows.take(pa.array(chosen)), kind.layout, keys[chosen])

    def _as_loaded(self, rows: pa.RecordBatch, layout: RowLayout, keys: Numbers | None) -> pa.RecordBatch:
        """The last row of each key, sorted by key, if rows are found by their keys; else all rows."""
        if not keeps_last(layout, self._options):
            return rows
        names = [cell.arrow for cell in layout.key]
        if keys is None:
            keys = numbered([rows[name] for name in names], len(rows))
        last = last_of_each(keys)
        return by_key(rows if len(last) == len(rows) else rows.take(pa.array(last)), names)

    def _keys(
        self, rows: pa.RecordBatch, numbers: Numbers, kinds: list[RowKind], comparable: Callable[[pa.Array], pa.Array]
    ) -> Numbers:
        """Numbers the rows: equal numbers for rows that must keep their order."""
        if not all(kind.layout.key for kind in kinds):
            return np.arange(len(rows))
        # Each layout has the key's columns in its own order.
        cells = [sorted(kind.layout.key, key=lambda cell: cell.name.lower()) for kind in kinds]
        width = max(map(len, cells))
        columns = [[] for _ in range(width)]  # type: list[list[pa.Array]]
        places = []
        for number, key in enumerate(cells):
            chosen = np.flatnonzero(numbers == number)
            places.append(chosen)
            part = rows.take(pa.array(chosen))
            for place in range(width):
                found = comparable(part[key[place].arrow]) if place < len(key) else None
                columns[place].append(pa.nulls(len(part), pa.binary()) if found is None else found)
        back = pa.array(np.argsort(np.concatenate(places)))
        return numbered([pa.concat_arrays(parts).take(back) for parts in columns], len(rows))


def _kind_numbers(rows: pa.RecordBatch) -> Numbers:
    """Numbers the rows: equal numbers for one layout and, for values without schema, the same members."""
    shape = rows["shape"]
    return numbered([rows["layout"]] if shape.null_count == len(shape) else [rows["layout"], shape], len(rows))


def _by_table(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows with an effect, by table, each table's in order.

    The tables come sorted: two transactions that take several tables in different orders may deadlock.
    """
    assert not rows["layout"].null_count, "a record is neither written, nor skipped, nor refused"
    effective = pc.not_equal(rows["layout"], PASSED)
    if not pc.all(effective).as_py():
        rows = rows.filter(effective)
    values = pc.unique(rows["table"])
    for value in sorted(values.to_pylist()):
        yield value, rows if len(values) == 1 else rows.filter(pc.equal(rows["table"], value))
