"""The partitions of rows: the values of a spec's fields, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.arrow_schema import column_at, paths
from headrace.connectors.lake.iceberg.files.transforms import Transform, storage, transform
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import PartitionSpec

Values = tuple[Any, ...]
"""A value for each field of a spec, as Iceberg's JSON of single values."""


@dataclass(frozen=True)
class Partitioning:
    """A spec over the columns of a table."""

    fields: tuple[tuple[tuple[Field, ...] | None, Transform], ...]
    """By field of the spec: the path of its source, None if it is always null, and its transform."""

    @classmethod
    def of(cls, spec: PartitionSpec, schema: Struct) -> Partitioning:
        """Return the partitioning. Errors: LakeError for a transform or a source that is not known."""
        by_id = {path[-1].id: path for path in paths(schema)}
        fields = []
        for one in spec.fields:
            source = None if one.transform == "void" else by_id.get(one.source_id)
            if source is None and one.transform != "void":
                raise LakeError(f"The table's partition field {one.name} has no column; give the table another spec")
            fields.append((source, transform(one.transform, one.name)))
        return cls(tuple(fields))

    def groups(self, rows: pa.Table) -> Iterator[tuple[Values, np.ndarray | None]]:
        """Yield each partition with the indexes of its rows, in order; None: all rows are of one partition."""
        columns = [_Coded.of(self._values(rows, path, made)) for path, made in self.fields]
        codes = np.zeros(len(rows), np.int64)
        for column in columns:
            codes = np.unique(codes * len(column.values) + column.codes, return_inverse=True)[1]
        firsts = np.unique(codes, return_index=True)[1]
        if len(firsts) <= 1:
            if len(rows):
                yield tuple(column.values[column.codes[0]] for column in columns), None
            return
        order = np.argsort(codes, kind="stable")
        bounds = np.flatnonzero(np.diff(codes[order])) + 1
        for places in np.split(order, bounds):
            yield tuple(column.values[column.codes[places[0]]] for column in columns), places

    @staticmethod
    def _values(rows: pa.Table, path: tuple[Field, ...] | None, made: Transform) -> pa.Array:
        if path is None:
            return pa.nulls(len(rows), pa.int32())
        column = column_at(rows, path)
        return made(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


@dataclass(frozen=True)
class _Coded:
    """A column's values, and their numbers by row."""

    values: Sequence[Any]
    codes: np.ndarray

    @classmethod
    def of(cls, array: pa.Array) -> _Coded:
        if pa.types.is_null(array.type) or array.null_count == len(array):
            return cls([None], np.zeros(len(array), np.int64))
        encoded = storage(array).dictionary_encode("encode")
        kind = array.type
        return cls([json_value(one, kind) for one in encoded.dictionary], encoded.indices.to_numpy().astype(np.int64))


def json_value(value: pa.Scalar, kind: pa.DataType) -> Any:
    """Return a value of this type as Iceberg's JSON of single values."""
    if not value.is_valid:
        return None
    if isinstance(kind, pa.UuidType):
        digits = value.as_py().hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if pa.types.is_timestamp(kind):
        return _timestamp(value, kind)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return value.cast(pa.string()).as_py()
    found = value.as_py()
    if isinstance(found, bytes):
        return found.hex()
    return str(found) if pa.types.is_decimal(kind) else found


def _timestamp(value: pa.Scalar, kind: pa.TimestampType) -> str:
    bare = pa.array([value.value], pa.int64()).view(pa.timestamp(kind.unit))
    text = pc.strftime(bare, format="%Y-%m-%dT%H:%M:%S")[0].as_py()
    return text if kind.tz is None else f"{text}+00:00"
