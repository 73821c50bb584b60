"""The rows of all tables of a task in this process, until they are committed.

    rows -> tables (`route`) -> columns (`conform`, `json_rows`) -> files of each table -> `finish`

| column | |
|---|---|
| `origin_topic`, `origin_partition`, `offset` | the record's origin |
| `error` | the reason why it cannot be written; null for a good row |
| `route` | the text that `Routes` gets; may be missing |
| `op` | 0: append, 1: upsert, 2: delete; may be missing |
| `layout` | the number of its value's schema in `FilesSpec.layouts`; null if it has no value |
| `value_<layout>` | the struct, or the JSON text of a value without a schema |
| `key_layout`, `key_<key_layout>` | the same of the keys of deletes without a value; may be missing |

A row without a value and without a delete is passed over, and so is one that its table has already.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.iceberg.files.rows import Batch, Tables
from headrace.connectors.lake.iceberg.files.table_files import AppendedFiles, TableFiles
from headrace.connectors.lake.iceberg.files.targets import Known, Routes, Table, Targets
from headrace.connectors.lake.iceberg.files.upsert import UpsertedFiles
from headrace.connectors.lake.iceberg.parts import LakePart, TablePart
from headrace.plugins.errors import RecordFailure, RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema
from headrace.plugins.scratch import local_disk

MEMORY_BYTES: Final = 64 << 20
"""The most memory of rows that wait, of all tables of a task."""
_MOST_OPEN: Final = 5_000
"""So many unfinished files, of all tables, make a commit due, because each takes some memory."""


@dataclass(frozen=True)
class FilesSpec:
    """The rules by which rows become files; picklable."""

    routes: Routes
    interval_s: float
    """The age of the oldest row that makes a commit due."""
    tolerates: bool = False
    """True if records that cannot be written are skipped."""
    ignore_case: bool = False
    evolves: bool = False
    """True if fields that a table lacks become columns of it."""
    layouts: list[Schema | None] = field(default_factory=list)
    """The value schemas by number; grows as schemas are met."""
    key_layouts: list[Schema | None] = field(default_factory=list)
    clock: Callable[[], float] = monotonic


class Files:
    """Rows that are held over batches; used by one thread at a time."""

    def __init__(self, spec: FilesSpec, targets: Targets, folder: str, known: Known | None = None) -> None:
        """Begin without rows; `folder` is on the local disk. With `known` it is for a job, which commits all it got."""
        self.spec = spec
        self._targets, self._is_job = targets, known is not None
        self._folder = os.path.join(folder, uuid4().hex)
        self._known: dict[str, Table] = dict(known.tables) if known is not None else {}
        self._met: set[tuple[str, int]] = set(known.met) if known is not None else set()
        self._tables: dict[str, TableFiles] = {}
        self._next: dict[TopicPartition, int] = {}
        self._taken: dict[TopicPartition, tuple[int, int]] = {}
        self._since: float | None = None

    @property
    def known(self) -> Known:
        """The tables as a job has to know them."""
        return Known(dict(self._known), frozenset(self._met))

    def forget(self) -> None:
        """Ask for all tables anew, because marks have moved or a table has changed."""
        self._known.clear()
        self._met.clear()

    def add(self, rows: pa.RecordBatch) -> list[RecordFailure]:
        """Take rows; return those that cannot be written.

        Unless they are tolerated, the rows of a partition after its first bad one are left.

        Errors: as `Targets.target`; RetriableError of the local disk, and for a table with another UUID or other keys
        than held rows were for; LakeError.
        """
        spec = self.spec
        batch = Batch(rows, spec.layouts, spec.key_layouts, spec.ignore_case, spec.evolves)
        new, tables = self._new(batch), Tables(self._known.get, self._ask)
        made = [batch.of(name, places, tables) for name, places in self._routed(batch, new)]
        left = batch.bad_and_after() if not spec.tolerates else batch.is_bad()
        with local_disk("rows of tables"):
            for one in filter(None, made):
                self._files_of(one.table).add(one.without(left).apart(rows.nbytes))
                self._bound_memory()
        self._note(batch, new & ~left)
        return [RecordFailure(row, why) for row, why in sorted(batch.bad.items())]

    def due_s(self) -> float | None:
        """Return the seconds until a commit is due; None: nothing is held."""
        if self._since is None:
            return None
        tables = self._tables.values()
        is_full = any(files.is_full for files in tables) or sum(files.open_files for files in tables) >= _MOST_OPEN
        return 0.0 if is_full else max(0.0, self._since + self.spec.interval_s - self.spec.clock())

    def finish(self, at_once: bool = False) -> LakePart:
        """Complete the files if a commit is due, or at once, and hand them over; else say what is held.

        Errors: RetriableError of the local disk, LakeError.
        """
        if not (at_once or self._is_job) and self.due_s() != 0:
            return LakePart((), {}, {one: first for one, (first, _) in self._taken.items()})
        parts = []
        with local_disk("rows of tables"):
            for name, files in self._tables.items():
                if done := files.finish():
                    parts.append(TablePart(name, files.table.target.state.uuid, done))
        taken, self._taken, self._since, self._tables = self._taken, {}, None, {}
        return LakePart(tuple(parts), taken, {})

    def drop(self) -> None:
        """Throw away all rows, and files that were handed over but are still there."""
        for files in self._tables.values():
            files.drop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._tables, self._next, self._taken, self._since = {}, {}, {}, None

    def _new(self, batch: Batch) -> np.ndarray:
        """True for rows that were not taken before."""
        new = np.ones(len(batch.rows), bool)
        for partition, places in batch.partitions.items():
            if (begin := self._next.get(partition)) is not None:
                new[places] = batch.offsets[places] >= begin
        return new

    def _routed(self, batch: Batch, new: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each table with the indexes of its rows."""
        wanted = new & ((batch.numbers >= 0) | batch.deletes) & ~batch.is_bad()
        if "route" not in batch.rows.schema.names:
            for name in self.spec.routes(None):
                yield name, np.flatnonzero(wanted)
            return
        encoded = batch.rows["route"].dictionary_encode("encode")
        codes, by_table = encoded.indices.to_numpy(), defaultdict[str, list[int]](list)
        for code, route in enumerate(encoded.dictionary.to_pylist()):
            for name in self.spec.routes(route):
                by_table[name].append(code)
        for name, mine in by_table.items():
            yield name, np.flatnonzero(wanted & np.isin(codes, mine))

    def _ask(self, name: str, layout: int, columns: pa.DataType, has_more: bool) -> Table:
        if has_more or name not in self._known or (name, layout) not in self._met:
            found = self._targets.target(name, layout, columns)
            if (known := self._known.get(name)) is None or known.target != found:
                self._known[name] = Table(found)
            self._met.add((name, layout))
        return self._known[name]

    def _note(self, batch: Batch, taken: np.ndarray) -> None:
        """Remember which offsets are held."""
        for partition, places in batch.partitions.items():
            offsets = batch.offsets[places[taken[places]]]
            if len(offsets):
                first, last = int(offsets.min()), int(offsets.max())
                self._taken[partition] = (self._taken.get(partition, (first, last))[0], last)
                self._next[partition] = last + 1
        if self._taken and self._since is None:
            self._since = self.spec.clock()

    def _files_of(self, table: Table) -> TableFiles:
        state = table.target.state
        found = self._tables.get(state.name)
        if found is None:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            kind = AppendedFiles if table.keys is None else UpsertedFiles
            found = self._tables[state.name] = kind(table, self._folder)
        elif (known := found.table.target).state.uuid != state.uuid or known.keys != table.target.keys:
            what = "was replaced" if known.state.uuid != state.uuid else "got other key columns"
            raise RetriableError(f"The table {state.name} {what} while rows for it were held; they are read again")
        elif found.table is not table:
            found.learn(table)
        return found

    def _bound_memory(self) -> None:
        while sum(files.buffered_bytes for files in self._tables.values()) > MEMORY_BYTES:
            max(self._tables.values(), key=lambda files: files.buffered_bytes).flush()
