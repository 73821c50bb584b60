"""One transaction of a sink: rows into their tables, and the offsets of what is written.

    tables ready → begin → lock offsets → rows in their order → store offsets → commit

With an offsets table each record has its effect exactly once, without one at least once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import PASSED, SEPARATOR, Operation, RowLayout, finds_rows
from headrace.connectors.jdbc.contract.sink_sql import Target
from headrace.connectors.jdbc.database.connection import Database, DatabaseError, begun
from headrace.connectors.jdbc.sink.evolution import Tables
from headrace.connectors.jdbc.sink.failures import RolledBack, TableChanged, classifying
from headrace.connectors.jdbc.sink.offset_table import Fence, OffsetTable
from headrace.connectors.jdbc.sink.order import Numbers, by_key, last_of_each, not_deleted, numbered, waves
from headrace.connectors.jdbc.sink.staging import load
from headrace.plugins.contracts import RecordsFailed, RetriableError, TopicPartition

_DEADLOCKS: Final = 6
"""How often in a row a transaction may be rolled back to end a deadlock."""
_LOOK_AGAIN_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 10.0
"""The longest of the worker's pauses before a retry: 0.1 s at first, each twice as long."""
_ALIKE: Final = {"ẞ": "S", "Æ": "AE", "Œ": "OE", "Ø": "O", "Ð": "D", "Đ": "D", "Ł": "L", "Þ": "TH", "Ħ": "H"}
"""Letters that a collation may take for others."""
_LIVE: Final[WeakValueDictionary[str, Sink]] = WeakValueDictionary()
"""The sinks of the tasks in this process, by their names."""


@dataclass
class _Kind:
    """Rows of a chunk that go into one table alike."""

    target: Target
    layout: RowLayout


class Sink:
    """One task's transactions in its database. Unpickled in its own process it is the same object, else a new one."""

    def __init__(
        self,
        name: str,
        database: Database,
        options: SinkOptions,
        layouts: dict[int, RowLayout],
        fences: dict[TopicPartition, Fence],
        written: dict[TopicPartition, int] | None = None,
    ) -> None:
        self.name = name
        self.database = database
        self.options = options
        self.layouts = layouts
        self.fences = fences
        self.written = {} if written is None else written
        """The last offsets that are known to be stored."""
        self.sql = database.dialect.sink_sql(options)
        self.tables = Tables(database, self.sql)
        table = options.offsets_table
        self.offsets = OffsetTable(database, database.dialect.table_id(table), options.connector) if table else None
        self._failures = 0
        self._counts_from = 0.0
        self._looked = 0.0

    @property
    def is_here(self) -> bool:
        """Whether this is the task's own object, in its worker."""
        return _LIVE.get(self.name) is self

    def keep(self) -> None:
        """Writers in this process write through this sink, as long as its task holds it."""
        _LIVE[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.name, self.database, self.options, self.layouts, self.fences, self.written)

    def write(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        """Writes these rows and stores the offsets up to the last of them; returns the offsets stored now.

        Errors: RecordsFailed, with nothing written; RetriableError, perhaps with everything written; DatabaseError.
        """
        try:
            ends = self._write_at_last(rows)
        except RecordsFailed:
            self._look_again()
            raise
        except RetriableError as error:
            if isinstance(error, TableChanged):
                self.tables.forget()
            self._count_failure()
            if self.is_here and self.options.max_retries is not None and self._failures > self.options.max_retries:
                raise DatabaseError(f"{error} (given up after max.retries={self.options.max_retries})") from error
            raise
        self._failures = 0
        self.written |= ends  # the next chunk may find a database that has lost this one
        return ends

    def _count_failure(self) -> None:
        """Counts a failure; those of a bisection, which makes no pauses, count as one."""
        now = time.monotonic()
        if not self._failures or now >= self._counts_from:
            self._failures += 1
            self._counts_from = now + min(0.1 * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S)

    def _look_again(self) -> None:
        """Makes tables that refuse records be described again, now and then, since they may have been altered."""
        if time.monotonic() - self._looked > _LOOK_AGAIN_S:
            self._looked = time.monotonic()
            self.tables.forget()

    def forgo_offsets(self) -> None:
        """Writes at least once from now on."""
        self.offsets = None
        self.options = replace(self.options, offsets_table=None)

    def _write_at_last(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        """Writes, and tries again after a deadlock with a task that writes the same rows in another order."""
        for turn in range(_DEADLOCKS):
            try:
                with classifying(self.database):
                    return self._write(rows)
            except RolledBack:
                if turn == _DEADLOCKS - 1:
                    raise
                time.sleep(random.uniform(0, 0.02 * 2**turn))
        raise AssertionError("the last turn returns or raises")

    def _write(self, rows: pa.RecordBatch) -> dict[TopicPartition, int]:
        for name, part in _split(rows, "table"):
            self._kinds(name, part)  # DDL would commit what is in a transaction, or wait for it
        # The commit's errors are classified, too: it may check constraints.
        with self.database.connect() as connection, classifying(self.database), begun(connection):
            if self.offsets is None:
                self._load(connection, rows)
                return {}
            ends, rows = self._not_stored_yet(connection, rows)
            self._load(connection, rows)
            self.offsets.store(connection, ends)
        return ends

    # -- exactly once --------------------------------------------------------------------------------------------------

    def _not_stored_yet(
        self, connection: Connection, rows: pa.RecordBatch
    ) -> tuple[dict[TopicPartition, int], pa.RecordBatch]:
        """The last offset of each partition with these rows, and the rows that have not been written yet.

        Errors: FencedError; DatabaseError for records from before what the task found stored when it began, and for a
        database that has lost what was written.
        """
        assert self.offsets is not None
        spans = _spans(rows)
        stored, ends = self.offsets.lock(connection, spans), {}
        for partition, (first, last) in spans.items():
            fence, now = self.fences.get(partition), stored.get(partition)
            if fence is None:
                raise self.offsets.fenced(partition)
            self.offsets.check_fence(partition, fence, None if now is None else now.epoch)
            assert now is not None
            self.offsets.check_kept(partition, self.written.get(partition), now.offset)
            if fence.offset is not None and first <= fence.offset:
                raise DatabaseError(
                    f"{self.options.offsets_table} has {partition.topic}-{partition.partition} written up to offset "
                    f"{fence.offset}, but record {first} comes: if the topic was deleted and made again, stop the "
                    "connector and reset its offsets (DELETE /connectors/<name>/offsets)"
                )
            ends[partition] = last if now.offset is None else max(last, now.offset)
            if now.offset is not None and first <= now.offset:
                rows = rows.filter(pc.invert(_upto(rows, partition, now.offset)))
        return ends, rows

    # -- the rows in their order ---------------------------------------------------------------------------------------

    def _load(self, connection: Connection, rows: pa.RecordBatch) -> None:
        used: set[str | None] = set()
        for name, of_table in _split(rows, "table"):
            for part in self._left(of_table):
                kinds = self._kinds(name, part)
                for kind, some in self._in_order(part, list(kinds.values())):
                    # Layouts of the same columns share a stage.
                    load(connection, self.sql, kind.target, kind.layout, some, again=kind.target.stage in used)
                    used.add(kind.target.stage)

    def _left(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """One table's rows that have a lasting effect: the last one that empties it, alone, and all rows after that."""
        emptying = [number for number, layout in self.layouts.items() if layout.operation is Operation.TRUNCATE]
        found = np.flatnonzero(np.isin(rows["layout"].to_numpy(), emptying))
        if len(found):
            last = int(found[-1])
            yield rows.slice(last, 1)
            rows = rows.slice(last + 1)
        yield from self._of_like_keys(rows)

    def _of_like_keys(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """One table's rows, split where the columns of their keys change: only the table knows which keys of different
        columns are one row."""
        encoded = rows["layout"].dictionary_encode()
        layouts = [self.layouts[number] for number in encoded.dictionary.to_pylist()]
        columns = [sorted(cell.name.lower() for cell in layout.key) for layout in layouts]
        ends = [len(rows)] if len(rows) else []
        if any(finds_rows(layout, self.options) for layout in layouts):
            alike = np.array([columns.index(one) for one in columns])[encoded.indices.to_numpy()]
            ends = [*(np.flatnonzero(np.diff(alike)) + 1).tolist(), *ends]
        for begin, end in pairwise([0, *ends]):
            yield rows.slice(begin, end - begin)

    def _kinds(self, name: str, rows: pa.RecordBatch) -> dict[int, _Kind]:
        """The kinds of these rows of one table, by the numbers of `_kind_numbers`."""
        found = {}
        for number, first in zip(*np.unique(_kind_numbers(rows), return_index=True), strict=True):
            layout = self.layouts[rows["layout"][int(first)].as_py()]
            shape = rows["shape"][int(first)].as_py() if layout.members else None
            members = tuple(shape.split(SEPARATOR)) if shape else ()
            found[int(number)] = _Kind(self.tables.target(name, layout, members), layout)
        return found

    def _in_order(self, rows: pa.RecordBatch, kinds: list[_Kind]) -> Iterator[tuple[_Kind, pa.RecordBatch]]:
        """The rows in parts, in the order in which these are written."""
        exact = all(kind.target.exact for kind in kinds)
        if len(kinds) == 1 and (exact or not finds_rows(kinds[0].layout, self.options)):
            yield kinds[0], self._as_loaded(rows, kinds[0].layout, None)
            return
        numbers = _kind_numbers(rows)
        keys = self._keys(rows, numbers, kinds, _exactly)
        deletes = np.isin(numbers, [n for n, kind in enumerate(kinds) if kind.layout.operation is Operation.DELETE])
        if deletes.any() and all(finds_rows(kind.layout, self.options) for kind in kinds):
            kept = not_deleted(keys, deletes)
            if len(kept) < len(rows):
                rows, numbers, keys = rows.take(pa.array(kept)), numbers[kept], keys[kept]
        steps = numbers
        if not exact:  # keys that may be one row go in waves of their own
            steps = numbered([pa.array(numbers), pa.array(keys)], len(rows))
            keys = self._keys(rows, numbers, kinds, _roughly)
        wave = waves(keys, steps)
        for turn in range(int(wave.max(initial=-1)) + 1):
            for number, kind in enumerate(kinds):
                chosen = np.flatnonzero((wave == turn) & (numbers == number))
                if len(chosen):
                    yield kind, self._as_loaded(rows.take(pa.array(chosen)), kind.layout, keys[chosen])

    def _as_loaded(self, rows: pa.RecordBatch, layout: RowLayout, keys: Numbers | None) -> pa.RecordBatch:
        """The last row of each key, sorted by key, where rows are found by their keys; else all rows."""
        if not finds_rows(layout, self.options):
            return rows
        names = [cell.arrow for cell in layout.key]
        if keys is None:
            keys = numbered([rows[name] for name in names], len(rows))
        last = last_of_each(keys)
        return by_key(rows if len(last) == len(rows) else rows.take(pa.array(last)), names)

    def _keys(
        self, rows: pa.RecordBatch, numbers: Numbers, kinds: list[_Kind], comparable: Callable[[pa.Array], pa.Array]
    ) -> Numbers:
        """Equal numbers for rows that must keep their order."""
        if not all(kind.layout.key for kind in kinds):
            return np.arange(len(rows))
        # Each layout has the key's columns in an order of its own.
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


def _exactly(column: pa.Array) -> pa.Array:
    """The values as bytes."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())


def _roughly(column: pa.Array) -> pa.Array:
    """The values as bytes, which are equal where a database may ignore case, accents or endings."""
    if not pa.types.is_string(column.type):
        return _exactly(column)
    plain = pc.utf8_upper(column)
    if not pc.all(pc.string_is_ascii(plain)).as_py():
        plain = pc.replace_substring_regex(pc.utf8_normalize(plain, "NFKD"), r"[\p{M}\p{C}]+", "")
        for letter, alike in _ALIKE.items():
            plain = pc.replace_substring(plain, letter, alike)
        plain = pc.utf8_upper(plain)
    else:  # the same as among others
        plain = pc.replace_substring_regex(plain, "[[:cntrl:]]+", "")
    plain = pc.replace_substring_regex(plain, "S+", "S")  # as ß is to some
    return _exactly(pc.utf8_rtrim_whitespace(plain))


def _found(name: str, *made_of: Any) -> Sink:
    return _LIVE.get(name) or Sink(name, *made_of)


def _kind_numbers(rows: pa.RecordBatch) -> Numbers:
    """Equal numbers for rows of one layout and, of values without schema, the same members."""
    shape = rows["shape"]
    return numbered([rows["layout"]] if shape.null_count == len(shape) else [rows["layout"], shape], len(rows))


def _split(rows: pa.RecordBatch, name: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows that have an effect, by the value of a column, each value's in order.

    The values come sorted: two transactions that take several tables in different orders may deadlock.
    """
    assert not rows["layout"].null_count, "a record is neither written, nor skipped, nor refused"
    effective = pc.not_equal(rows["layout"], PASSED)
    if not pc.all(effective).as_py():
        rows = rows.filter(effective)
    values = pc.unique(rows[name])
    for value in sorted(values.to_pylist()):
        yield value, rows if len(values) == 1 else rows.filter(pc.equal(rows[name], value))


def _spans(rows: pa.RecordBatch) -> dict[TopicPartition, tuple[int, int]]:
    """The first and the last offset of each partition."""
    origin = pa.Table.from_batches([rows.select(["origin_topic", "origin_partition", "origin_offset"])])
    grouped = origin.group_by(["origin_topic", "origin_partition"]).aggregate(
        [("origin_offset", "min"), ("origin_offset", "max")]
    )
    return {
        TopicPartition(row["origin_topic"], row["origin_partition"]): (
            row["origin_offset_min"],
            row["origin_offset_max"],
        )
        for row in grouped.to_pylist()
    }


def _upto(rows: pa.RecordBatch, partition: TopicPartition, offset: int) -> pa.Array:
    of_it = pc.and_(
        pc.equal(rows["origin_topic"], partition.topic), pc.equal(rows["origin_partition"], partition.partition)
    )
    return pc.and_(of_it, pc.less_equal(rows["origin_offset"], offset))
