"""The rows of a batch that go to one table, as its columns.

The table first learns all that the batch needs of it, so that its columns are the same for all of these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.iceberg.files.conform import conform
from headrace.connectors.lake.iceberg.files.json_rows import has_more, read_json
from headrace.connectors.lake.iceberg.files.targets import BY_KEY, NoTable, Table
from headrace.connectors.lake.iceberg.tables import Marks
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema

DELETE: Final = 2
"""The value of the column `op` of deletes; 0 appends, 1 upserts."""


class Tables(NamedTuple):
    """The ways to a table."""

    known: Callable[[str], Table | None]
    ask: Callable[[str, int, pa.DataType, bool], Table]
    """Returns the table for values of a layout; true: they have fields that it lacks."""


class Placed(NamedTuple):
    """Rows of a table, with their indexes in the batch, in order."""

    rows: pa.RecordBatch
    places: np.ndarray

    def without(self, left: np.ndarray) -> Placed:
        """Return the rows whose index is not true in `left`."""
        gone = left[self.places]
        return Placed(self.rows.filter(pa.array(~gone)), self.places[~gone]) if gone.any() else self

    def apart(self, batch_bytes: int) -> Placed:
        """Return the rows in memory of their own if they are a small part of a batch, which any column keeps whole."""
        if 2 * self.rows.nbytes > batch_bytes:
            return self
        columns = [pa.concat_arrays([column]) for column in self.rows.columns]
        return Placed(pa.RecordBatch.from_arrays(columns, schema=self.rows.schema), self.places)


@dataclass(frozen=True)
class TableRows:
    """Rows of one table."""

    table: Table
    rows: Placed
    deletes: Placed

    def without(self, left: np.ndarray) -> TableRows:
        """Return the rows whose index is not true in `left`."""
        return TableRows(self.table, self.rows.without(left), self.deletes.without(left))

    def apart(self, batch_bytes: int) -> TableRows:
        """Return the rows in memory of their own if they are a small part of a batch of so many bytes."""
        return TableRows(self.table, self.rows.apart(batch_bytes), self.deletes.apart(batch_bytes))


@dataclass(frozen=True)
class Kind:
    """Rows with values of one kind."""

    column: str
    schema: Schema | None
    layout: int
    is_delete: bool
    places: np.ndarray


Structs = list[tuple[np.ndarray, pa.Array]]
"""Structs with their indexes in the batch."""


@dataclass
class Batch:
    """The rows of one batch."""

    rows: pa.RecordBatch
    layouts: Sequence[Schema | None]
    key_layouts: Sequence[Schema | None]
    ignore_case: bool
    evolves: bool
    bad: dict[int, str] = field(default_factory=dict)
    """The reasons why rows cannot be written, by their indexes."""

    def __post_init__(self) -> None:
        self.offsets: np.ndarray = self.rows["offset"].to_numpy()
        self.partitions = dict(_by_partition(self.rows))
        self.numbers, self.key_numbers = self._numbers("layout"), self._numbers("key_layout")
        self.deletes = self._numbers("op") == DELETE
        errors = np.flatnonzero(self.rows["error"].is_valid().to_numpy(zero_copy_only=False))
        texts = self.rows["error"].take(pa.array(errors)).to_pylist()
        self.bad.update(zip(errors.tolist(), texts, strict=True))

    def is_bad(self) -> np.ndarray:
        """Return true for the rows that cannot be written."""
        made = np.zeros(len(self.rows), bool)
        made[list(self.bad)] = True
        return made

    def bad_and_after(self) -> np.ndarray:
        """Return true for the rows that cannot be written, and those of their partitions after them."""
        bad = self.is_bad()
        for places in self.partitions.values():
            failed = places[bad[places]]
            if len(failed):
                bad[places] = self.offsets[places] >= self.offsets[failed].min()
        return bad

    def of(self, name: str, places: np.ndarray, tables: Tables) -> TableRows | None:
        """Return the rows with these indexes as a table has them, but for those in `bad`; None: there are none.

        Errors: as `Targets.target`, but for NoTable; LakeError.
        """
        found = self._learn_all(name, self._kinds(places), tables)
        if not found:
            return None
        table = tables.known(name)
        assert table is not None, "it was asked for"
        rows, deletes = _Pieces(), _Pieces()
        for kind, known in found:
            if (why := self._keyless(kind, table)) is not None:
                self._refuse_all(kind.places, why)
                continue
            columns = table.keys.columns if kind.is_delete and table.keys is not None else table.columns
            structs = known[1] if known is not None and known[0] is table else self._structs(kind, columns)
            self._conform(kind, structs, columns, deletes if kind.is_delete else rows)
        keys = table.columns if table.keys is None else table.keys.columns
        made = TableRows(table, rows.in_order(table.columns), deletes.in_order(keys))
        return made.without(self._marked(table.target.marks))

    def _kinds(self, places: np.ndarray) -> list[Kind]:
        found, numbers, deletes = [], self.numbers[places], self.deletes[places]
        for layout in _distinct(numbers[numbers >= 0]):
            for is_delete in (False, True):
                some = places[(numbers == layout) & (deletes == is_delete)]
                found.append(Kind(f"value_{layout}", self.layouts[layout], layout, is_delete, some))
        by_key = places[deletes & (numbers < 0)]
        for layout in _distinct(self.key_numbers[by_key]):
            some = by_key[self.key_numbers[by_key] == layout]
            if layout >= 0:
                found.append(Kind(f"key_{layout}", self.key_layouts[layout], BY_KEY, True, some))
            else:
                self._refuse_all(some, "The record deletes a row, but has no key")
        return [kind for kind in found if len(kind.places)]

    def _learn_all(
        self, name: str, kinds: Sequence[Kind], tables: Tables
    ) -> list[tuple[Kind, tuple[Table, Structs] | None]]:
        """The kinds, each with what `_learn` returns; but for those that a missing table cannot be made of."""
        found, left = [], list[Kind]()
        for kind in kinds:
            try:
                found.append((kind, self._learn(name, kind, tables)))
            except NoTable:
                left.append(kind)  # the table may be made of others
        for kind in left:
            try:
                found.append((kind, self._learn(name, kind, tables)))
            except NoTable as error:
                for row in kind.places.tolist():
                    self.bad.setdefault(row, str(error))
        return found

    def _learn(self, name: str, kind: Kind, tables: Tables) -> tuple[Table, Structs] | None:
        """Let the table learn a kind of values; return what was read of JSON for its columns."""
        known = tables.known(name)
        if kind.schema is not None or kind.layout == BY_KEY or (known is not None and not self.evolves):
            tables.ask(name, kind.layout, self.rows[kind.column].type, False)
            return None
        made = read_json(self._values(kind), None if known is None else known.columns, True, self.ignore_case)
        more = known is None or has_more(made.fields, pa.struct(list(known.columns)), self.ignore_case)
        try:
            table = tables.ask(name, kind.layout, made.fields, more)
        except NoTable:
            self._refuse(kind, made.refused)
            raise
        if table is not known or kind.is_delete:
            return None
        self._refuse(kind, made.refused)
        return table, [(kind.places[some], structs) for some, structs in made.structs]

    def _keyless(self, kind: Kind, table: Table) -> str | None:
        """The reason why these rows have no place by the table's key; None: they have."""
        name, keys = table.target.state.name, table.keys
        if keys is None:
            why = f"The record deletes a row, but the table {name} has no key columns; name them in the config"
            return why if kind.is_delete else None
        fields = self.rows[kind.column].type
        if kind.schema is None or not pa.types.is_struct(fields):
            return None
        here = {one.name.lower() if self.ignore_case else one.name for one in fields}
        wanted = (path[0].name for path in keys.fields)
        lost = next((one for one in wanted if (one.lower() if self.ignore_case else one) not in here), None)
        return None if lost is None else f"It has no field {lost}, which is a part of the key of the table {name}"

    def _structs(self, kind: Kind, columns: pa.Schema) -> Structs:
        values = self._values(kind)
        if kind.schema is not None:
            return [(kind.places, values)]
        made = read_json(values, columns, False, self.ignore_case)
        self._refuse(kind, made.refused)
        return [(kind.places[some], structs) for some, structs in made.structs]

    def _conform(self, kind: Kind, structs: Structs, columns: pa.Schema, pieces: _Pieces) -> None:
        for places, values in structs:
            if not pa.types.is_struct(values.type):
                of = kind.column.partition("_")[0]
                self._refuse_all(places, f"The {of} is no struct, which the rows of a table are made of")
                continue
            made = conform(values, columns, kind.schema, self.ignore_case)
            self.bad.update((int(places[row]), why) for row, why in made.refused.items())
            places = places if made.kept is None else places[made.kept]
            if kind.layout == BY_KEY:
                lost = np.logical_and.reduce([_is_null(column) for column in made.rows.columns])
                self._refuse_all(places[lost], "The record deletes a row, but its key has none of the key's columns")
            pieces.add(made.rows, places)

    def _refuse(self, kind: Kind, refused: Mapping[int, str]) -> None:
        self.bad.update((int(kind.places[row]), why) for row, why in refused.items())

    def _refuse_all(self, places: np.ndarray, why: str) -> None:
        self.bad.update(dict.fromkeys(places.tolist(), why))

    def _values(self, kind: Kind) -> pa.Array:
        column = self.rows[kind.column]
        return column if len(kind.places) == len(column) else column.take(pa.array(kind.places))

    def _marked(self, marks: Marks) -> np.ndarray:
        """True for rows that the table has already."""
        made = np.zeros(len(self.rows), bool)
        for partition, places in self.partitions.items():
            if (mark := marks.get(partition)) is not None:
                made[places] = self.offsets[places] < mark
        return made

    def _numbers(self, column: str) -> np.ndarray:
        """A column of numbers, -1 for null or without the column."""
        if column not in self.rows.schema.names:
            return np.full(len(self.rows), -1, np.int64)
        return np.asarray(pc.fill_null(pc.cast(self.rows[column], pa.int64()), -1))


@dataclass
class _Pieces:
    """Rows of one table by kind."""

    rows: list[pa.RecordBatch] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch, places: np.ndarray) -> None:
        self.rows.append(rows)
        self.places.append(places)

    def in_order(self, columns: pa.Schema) -> Placed:
        """All rows in the batch's order."""
        if len(self.rows) == 1:
            return Placed(self.rows[0], self.places[0])
        if not self.rows:
            return Placed(pa.RecordBatch.from_pylist([], columns), np.empty(0, np.int64))
        places = np.concatenate(self.places)
        order = np.argsort(places, kind="stable")
        return Placed(pa.concat_batches(self.rows).take(pa.array(order)), places[order])


def _is_null(column: pa.Array) -> np.ndarray:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _distinct(numbers: np.ndarray) -> list[int]:
    """The numbers without repetitions, mostly one."""
    if len(numbers) and (numbers == numbers[0]).all():
        return [int(numbers[0])]
    return [int(one) for one in np.unique(numbers)]


def _by_partition(rows: pa.RecordBatch) -> Iterator[tuple[TopicPartition, np.ndarray]]:
    """Yield each partition with the indexes of its rows."""
    topics, partitions = rows["origin_topic"].dictionary_encode(), rows["origin_partition"].to_numpy()
    if len(topics.dictionary) == 1 and len(found := _distinct(partitions)) == 1:
        yield TopicPartition(topics.dictionary[0].as_py(), found[0]), np.arange(len(rows))
        return
    for topic, name in enumerate(topics.dictionary.to_pylist()):
        is_mine = topics.indices.to_numpy() == topic
        for partition in _distinct(partitions[is_mine]):
            yield TopicPartition(name, partition), np.flatnonzero(is_mine & (partitions == partition))
