"""The tables of one task: loaded, made, evolved and changed through the library.

A commit is made on a version of the table whose marks (`marks`) are those that its rows began from, and Delta refuses
it if these marks are moved meanwhile. So a former owner of a partition never commits records again, and an answer that
was lost is found in the marks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from headrace.connectors.lake.delta.changes import last_rows
from headrace.connectors.lake.delta.library import ConflictError, deltalake, translated
from headrace.connectors.lake.delta.marks import Marks
from headrace.connectors.lake.delta.places import local_path
from headrace.connectors.lake.delta.settings import DeltaOptions
from headrace.connectors.lake.delta.shapes import IS_DELETE, TableShape
from headrace.connectors.lake.delta.types import columns_of, merged_fields, names_twice, wrong_names
from headrace.connectors.lake.errors import LakeError
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.schema import Schema

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

Done = TypeVar("Done")
log = logging.getLogger(__name__)

_TRIES: Final = 20
_NESTED: Final = (pa.types.is_struct, pa.types.is_list, pa.types.is_map)


@dataclass(frozen=True)
class Change:
    """The rows of one commit to one table."""

    shape: TableShape
    rows: Sequence[pa.RecordBatch]
    """In the records' order; their columns are `TableShape.held`."""
    begins: Mapping[TopicPartition, int | None]
    """The marks that the table must still have; None: no mark."""
    ends: Mapping[TopicPartition, int]
    """The marks that it gets."""


class Tables:
    """The tables that one task has met; for one thread at a time."""

    def __init__(self, options: DeltaOptions, marks: Marks, check: Callable[[str], None]) -> None:
        self._options = options
        self._marks = marks
        self._check = check
        """Refuses paths and hosts outside of the allowed ones. Errors: ConfigError."""
        self._loaded: dict[str, DeltaTable] = {}
        self.shapes: dict[str, TableShape] = {}

    def marks(self, path: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the marks in the table as it is now; none if there is no table. Errors: RetriableError, LakeError."""
        table = self._load(path)
        if table is None:
            return {}
        with translated(path):
            return self._marks.read(table, partitions)

    def shape(self, path: str, layout: int, schema: Schema, partitions: Sequence[TopicPartition]) -> TableShape:
        """Return the table, made or evolved for values of this schema by the settings, with these partitions' marks.

        Errors: RetriableError, LakeError.
        """
        known = self.shapes.get(path)
        if known is not None and layout in known.layouts:
            return known
        wanted = columns_of(schema)
        columns = self._until_done(path, lambda: self._fitting(path, wanted))
        self._check_keys(path, columns)
        layouts = known.layouts if known is not None and known.columns == columns else frozenset[int]()
        shape = TableShape(path, columns, self._options.ids, self.marks(path, partitions), layouts | {layout})
        self.shapes[path] = shape
        return shape

    def there(self, path: str, partitions: Sequence[TopicPartition]) -> TableShape | None:
        """Return the table as it is; None if there is none. Errors: RetriableError, LakeError."""
        if path not in self.shapes and (table := self._load(path)) is not None:
            columns = _columns(table)
            self._check_keys(path, columns)
            self.shapes[path] = TableShape(path, columns, self._options.ids, self.marks(path, partitions))
        return self.shapes.get(path)

    def planned(self, path: str, schema: Schema, there: pa.Schema | None) -> tuple[pa.Schema | None, pa.Schema]:
        """Return the columns that the table has, and those that it would get; None: there is no table.

        `there` are those of earlier plans. Errors: as `shape`.
        """
        if there is None and (table := self._load(path)) is not None:
            there = _columns(table)
        columns = self._planned(path, there, columns_of(schema))
        self._check_keys(path, columns)
        return there, columns

    def commit(self, path: str, change: Change) -> bool:
        """Change the table whole or not at all; False if its marks have moved. Errors: RetriableError, LakeError."""
        return self._until_done(path, lambda: self._commit(path, change))

    def set_marks(self, path: str, marks: Mapping[TopicPartition, int | None]) -> None:
        """Set marks for an operator; a missing table has none. Errors: RetriableError, LakeError."""

        def move() -> None:
            table = self._load(path)
            if table is not None:
                with translated(path):
                    _commit_nothing(table, self._marks.operator_properties(marks))

        self._until_done(path, move)

    def moved(self, path: str, ends: Mapping[TopicPartition, int]) -> None:
        """Note marks that this task has set."""
        if (shape := self.shapes.get(path)) is not None:
            self.shapes[path] = replace(shape, marks={**shape.marks, **ends})

    def forget(self) -> None:
        """Load all tables anew."""
        self._loaded.clear()
        self.shapes.clear()

    def _until_done(self, path: str, work: Callable[[], Done]) -> Done:
        """Work until no other commit comes first. Errors: RetriableError."""
        for _ in range(_TRIES):
            try:
                return work()
            except ConflictError as error:
                log.debug("%s: %s It is tried again", path, error)
        raise RetriableError(f"Other writers of the Delta table {path} came first {_TRIES} times; it is tried again")

    # -- tables --------------------------------------------------------------------------------------------------------

    def _load(self, path: str) -> DeltaTable | None:
        library = deltalake()
        table = self._loaded.pop(path, None)  # one that could not be brought up to date is opened anew
        with translated(path):
            if table is not None:
                table.update_incremental()
            else:
                self._check(path)
                try:
                    table = library.DeltaTable(path, storage_options=dict(self._options.storage))
                except library.exceptions.TableNotFoundError:
                    return None
        self._loaded[path] = table
        return table

    def _fitting(self, path: str, wanted: pa.Schema) -> pa.Schema:
        """Make or evolve the table, and return its columns. Errors: ConflictError; as `shape`."""
        table = self._load(path)
        there = None if table is None else _columns(table)
        columns = self._planned(path, there, wanted)
        if columns == there:
            return there
        with translated(path):
            if table is None:
                self._create(path, columns)
                log.info("The Delta table %s was made", path)
                return self._fitting(path, wanted)  # another may have made it first, for other values
            deltalake().write_deltalake(table, columns.empty_table(), mode="append", schema_mode="merge")
            table.update_incremental()
            log.info("The Delta table %s has new columns", path)
        return _columns(table)

    def _planned(self, path: str, there: pa.Schema | None, wanted: pa.Schema) -> pa.Schema:
        """The columns of the table once it is made or evolved by the settings. Errors: LakeError."""
        options = self._options
        if there is None and not options.creates:
            raise LakeError(f"There is no Delta table {path}. Make it, or set auto.create=true.")
        for key, names in (("id.columns", options.ids), ("partition.by", options.partition_by)):
            if there is None and (missing := [one for one in names if one not in wanted.names]):
                text = f"{key} names {', '.join(missing)}, which the records lack. Name fields of theirs."
                raise LakeError(f"The Delta table {path} cannot be made: {text}")
        columns = wanted if there is None else pa.schema(merged_fields(list(there), list(wanted)))
        wrong = list(names_twice(list(wanted)))  # also if the table has one of them: it would get either's values
        if there is not None and columns != there and not options.evolves and not wrong:
            log.warning("%s lacks columns for some fields, which are left out: auto.evolve is false", path)
            return there
        if columns != there:
            wrong += wrong_names(list(columns))
        if wrong:
            text = f"columns named {', '.join(map(repr, dict.fromkeys(wrong)))}. Rename these fields"
            raise LakeError(f"The Delta table {path} cannot have {text}, such as by ReplaceField.")
        return columns

    def _create(self, path: str, columns: pa.Schema) -> DeltaTable:
        library, options = deltalake(), self._options
        if (local := local_path(path)) is not None:
            Path(local).mkdir(parents=True, exist_ok=True)
        self._loaded[path] = library.DeltaTable.create(
            path,
            columns,
            mode="ignore",
            partition_by=list(options.partition_by) or None,
            configuration=dict(options.properties) or None,
            storage_options=dict(options.storage),
        )
        return self._loaded[path]

    def _check_keys(self, path: str, columns: pa.Schema) -> None:
        for name in self._options.ids:
            at = columns.get_field_index(name)
            if at < 0:
                raise LakeError(f"The Delta table {path} has no column {name}, which id.columns names. Name another.")
            if any(one(columns.field(at).type) for one in _NESTED):
                raise LakeError(f"The column {name} of {path} holds no plain values, so id.columns may not name it.")

    # -- commits -------------------------------------------------------------------------------------------------------

    def _commit(self, path: str, change: Change) -> bool:
        table = self._load(path)
        if table is None:
            raise LakeError(f"The Delta table {path} is gone. Restore it, or restart the task, which makes it anew.")
        with translated(path):
            now = self._marks.read(table, change.ends)
            if now == change.ends:
                log.info("%s has the rows already: the answer of an earlier commit was lost", path)
                return True
            if now != {one: offset for one, offset in change.begins.items() if offset is not None}:
                return False
            if _columns(table) != change.shape.columns:
                raise RetriableError(f"The columns of {path} have changed; records since its last commit come again")
            if self._write(table, change):
                return True
            # Such as deletes of rows that are not there, for which a merge makes no version.
            _commit_nothing(table, self._marks.properties(change.ends))
        return True

    def _write(self, table: DeltaTable, change: Change) -> bool:
        """Make a version with the rows; False if they change nothing."""
        before, properties = table.version(), self._marks.properties(change.ends)
        if not change.shape.ids:
            rows = pa.RecordBatchReader.from_batches(change.shape.held, iter(change.rows))
            deltalake().write_deltalake(table, rows, mode="append", commit_properties=properties)
            return True
        names = {name: _quoted(name) for name in change.shape.columns.names}
        values = {name: f"s.{name}" for name in names.values()}
        (
            table.merge(
                last_rows(change.rows, change.shape),
                " AND ".join(f"t.{names[one]} = s.{names[one]}" for one in change.shape.ids),
                source_alias="s",
                target_alias="t",
                # So that the bounds of the keys tell which files need not be read.
                streamed_exec=False,
                commit_properties=properties,
            )
            .when_matched_delete(f"s.{IS_DELETE}")
            .when_matched_update(values)
            .when_not_matched_insert(values, f"NOT s.{IS_DELETE}")
            .execute()
        )
        return table.version() != before


def _commit_nothing(table: DeltaTable, properties: CommitProperties) -> None:
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def _columns(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
