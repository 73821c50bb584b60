"""Runs a user's function over the rows of a frame, group by group; everything here is picklable."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

GROUP: Final = "_python"
"""Column with the number of a row's group."""


class RowGroup(NamedTuple):
    """Rows that the function gets together."""

    number: int
    value: int
    key: int | None
    several: bool
    """True if the group has only one schema of keys."""
    fields: tuple[str, ...]
    is_struct: bool
    metadata: Mapping[str, str | None]
    """Frame column of each of the record's own columns; None: there is none, and it is null."""
    gives: spark.StructType
    """Type of the function's rows."""

    @property
    def column(self) -> str:
        """Column of the function's results: `struct<keep, row>`."""
        return f"{GROUP}_{self.number}"


@lru_cache(maxsize=64)
def loaded(reference: str) -> Callable[..., Any]:
    """Import the function. Errors: whatever the import raises; TypeError if it is not a function of this module."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if part.startswith("__"):  # from any object such names lead to every class of the process
            raise TypeError(f"{part} is Python's own, and no function of {module}")
        found = getattr(found, part)
        if isinstance(found, ModuleType):  # `module` being allowed does not allow its imports
            raise TypeError(f"{found.__name__} is a module: name it before the colon")
    if not callable(found):
        raise TypeError(f"{reference} is no function")
    return found  # type: ignore[no-any-return]


def home_of(function: Callable[..., Any]) -> str:
    """Return the module that defines a function, not the one that imports it; for a partial its function's."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", None) or type(function).__module__)


@dataclass(frozen=True)
class Batches:
    """Runs the function over the rows of a frame; picklable."""

    reference: str
    settings: Mapping[str, str]
    groups: tuple[RowGroup, ...]
    gives: pa.Schema

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the function's results for each of their groups."""
        numbers = rows[GROUP]
        made = [self._of(group, rows, pc.fill_null(pc.equal(numbers, group.number), False)) for group in self.groups]
        arrays = [*(rows.column(name) for name in self.gives.names[: -len(self.groups)]), *made]
        return pa.RecordBatch.from_arrays(arrays, names=self.gives.names)

    def _of(self, group: RowGroup, rows: pa.RecordBatch, mask: pa.Array) -> pa.Array:
        kind = self.gives.field(group.column).type
        count = pc.sum(mask).as_py() or 0
        if not count:
            return pa.nulls(rows.num_rows, kind)
        if count == rows.num_rows:
            return self._called(group, rows, kind)
        made = self._called(group, rows.filter(mask), kind)
        at = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
        return made.take(pc.if_else(mask, at, pa.scalar(None, pa.int64())))

    def _called(self, group: RowGroup, rows: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
        given = self._answer(_batch(group, rows))
        result, keep = given if isinstance(given, tuple) else (given, None)
        self._check(result, keep, rows.num_rows)
        row = kind.field("row").type
        columns = [self._column(result, field) for field in row]
        made = pa.StructArray.from_arrays(columns, fields=list(row)) if columns else pa.array([{}] * len(result), row)
        keep = pa.repeat(True, rows.num_rows) if keep is None else pc.fill_null(_array(keep).cast(pa.bool_()), False)
        return pa.StructArray.from_arrays([keep, made], fields=list(kind))

    def _answer(self, batch: pa.RecordBatch) -> Any:
        try:
            function = loaded(self.reference)
            return function(batch, dict(self.settings)) if _takes_settings(function) else function(batch)
        except SystemExit as error:  # would end the task's thread silently
            raise RuntimeError(f"{self.reference} wants to end the process: SystemExit: {error}") from error

    def _check(self, result: Any, keep: Any, count: int) -> None:
        if not isinstance(result, pa.RecordBatch):
            wanted = "a pyarrow.RecordBatch, or one and a boolean array"
            raise TypeError(f"{self.reference} gave a {type(result).__name__}; it has to give {wanted}")
        lengths = [result.num_rows] if keep is None else [result.num_rows, len(keep)]
        if lengths != [count] * len(lengths):
            raise ValueError(f"{self.reference} made {lengths} rows of {count}: it has to give as many as it gets, and "
                             "leaves rows out by the boolean array beside them")  # fmt: skip

    def _column(self, result: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name not in result.schema.names:
            raise ValueError(f"{self.reference} gave no column {field.name}, which its schema promises; "
                             f"it gave {', '.join(result.schema.names)}")  # fmt: skip
        column = result.column(field.name)
        try:
            return column if column.type == field.type else column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"{self.reference} gave {field.name} as {column.type}, which its schema says to be "
                             f"{field.type}: {error}") from error  # fmt: skip


def _takes_settings(function: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds for one in inspect.signature(function).parameters.values()) >= 2


def _batch(group: RowGroup, rows: pa.RecordBatch) -> pa.RecordBatch:
    value = rows.column(f"value_{group.value}")
    batch = pa.RecordBatch.from_struct_array(value) if group.is_struct else pa.record_batch({"value": value})
    for name, column in group.metadata.items():
        own = pa.nulls(rows.num_rows, pa.string()) if column is None else rows.column(column)
        batch = batch.append_column(name, own)
    return batch


def _array(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return values if isinstance(values, pa.Array) else pa.array(values)
