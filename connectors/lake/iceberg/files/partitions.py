"""The partitions of rows: the values of a spec's fields, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.arrow_schema import column_at, paths
from headrace.connectors.lake.iceberg.files.transforms import Transform, storage, transform
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import PartitionSpec

Values = tuple[Any, ...]
"""A value for each field of a spec, as Iceberg's JSON of single values."""


_MOST_CODES: Final = 1 << 16


@dataclass(frozen=True)
class Groups:
    """Rows partition by partition."""

    rows: pa.Table
    values: list[Values]
    bounds: list[int]
    """The beginning of each partition, and the end of the last."""

    def __iter__(self) -> Iterator[tuple[Values, int, int]]:
        """Yield each partition with the bounds of its rows."""
        return zip(self.values, self.bounds[:-1], self.bounds[1:], strict=True)


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

    def grouped(self, rows: pa.Table) -> Groups:
        """Return the rows partition by partition, in order within each."""
        columns = [_Coded.of(self._values(rows, path, made)) for path, made in self.fields]
        codes, count = np.zeros(len(rows), np.int64), 1
        for column in columns:
            codes, count = codes * len(column.values) + column.codes, count * len(column.values)
            if count > _MOST_CODES:
                found, codes = np.unique(codes, return_inverse=True)
                count = len(found)
        if count == 1 or (codes == codes[0]).all():
            begins, order = np.zeros(1, np.int64), None
        else:
            # numpy sorts 16 bits by their digits, much faster than it compares
            order = np.argsort(codes.astype(np.uint16) if count <= _MOST_CODES else codes, kind="stable")
            begins = np.concatenate([[0], np.flatnonzero(np.diff(codes[order])) + 1])
        firsts = begins if order is None else order[begins]
        values = list(zip(*([column.values[code] for code in column.codes[firsts]] for column in columns), strict=True))
        ordered = rows if order is None else rows.combine_chunks().take(pa.array(order))
        return Groups(ordered, values or [()], np.append(begins, len(rows)).tolist())

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
        return _iso(value.value, kind.unit) + ("" if kind.tz is None else "+00:00")
    if pa.types.is_date(kind):
        return _iso(value.value, "D")
    if pa.types.is_time(kind):
        return value.cast(pa.string()).as_py()
    found = value.as_py()
    if isinstance(found, bytes):
        return found.hex()
    if isinstance(found, float) and not isfinite(found):
        raise LakeError(f"A row's value for a partition field is {found}, for which Iceberg's metadata has no form")
    return format(found, "f") if pa.types.is_decimal(kind) else found


def _iso(number: int, unit: str) -> str:
    """A date or time since 1970 as Java reads it: years of more than four digits have a sign."""
    text = str(np.array([number]).view(f"M8[{unit}]")[0])  # Arrow's texts end at the year 32767
    year, _, rest = text.removeprefix("-").partition("-")
    sign = "-" if text.startswith("-") else "+" if len(year) > 4 else ""
    return f"{sign}{year:0>4}-{rest}"
