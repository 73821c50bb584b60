"""The columns that name a row of a table, for upserts and deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files.arrow_schema import arrow_schema, column_at, paths, selected
from headrace.connectors.lake.iceberg.files.transforms import storage
from headrace.connectors.lake.iceberg.schemas import Field, Struct
from headrace.connectors.lake.iceberg.tables import TableState

ORDER: Final = "order"
"""The column of places in `Keys.flat`."""
_FLOATS: Final = ("float", "double")


@dataclass(frozen=True)
class Keys:
    """The key columns of a table, in the schema's order."""

    fields: tuple[tuple[Field, ...], ...]
    """Each with the structs around it."""
    struct: Struct
    """The schema with these columns only, for deletes."""

    @classmethod
    def of(cls, state: TableState, names: Sequence[str]) -> Keys:
        """Return the columns at these paths. Errors: LakeError if they cannot name rows."""
        if state.format_version < 2:
            raise LakeError(
                f"The table {state.name} has format version {state.format_version}, which has no deletes; upgrade it "
                "to version 2 (its property format-version)"
            )
        by_path = {".".join(one.name for one in path): path for path in paths(state.schema)}
        for name in names:
            if name not in by_path:
                raise LakeError(f"The table {state.name} has no column {name} for a key; name other key columns")
            kind = by_path[name][-1].type
            if not isinstance(kind, str) or kind in _FLOATS:
                shown = kind if isinstance(kind, str) else "nested"
                raise LakeError(
                    f"The column {name} of {state.name} is {shown}, which cannot be a key; name other key columns"
                )
        fields = tuple(path for name, path in by_path.items() if name in names)
        return cls(fields, selected(state.schema, [path[-1].id for path in fields]))

    @property
    def ids(self) -> tuple[int, ...]:
        """Their ids."""
        return tuple(path[-1].id for path in self.fields)

    @cached_property
    def columns(self) -> pa.Schema:
        """The Arrow columns of deletes."""
        return arrow_schema(self.struct)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns of `flat`."""
        return [f"key{number}" for number in range(len(self.fields))]

    def flat(self, rows: pa.RecordBatch | pa.Table, order: np.ndarray) -> pa.Table:
        """Return the key columns of rows, UUIDs as bytes, and their places in the order of arrival."""
        columns = [storage_of(column_at(rows, path)) for path in self.fields]
        return pa.table([*columns, pa.array(order, pa.int64())], names=[*self.names, ORDER])

    def last(self, flat: pa.Table) -> pa.Table:
        """Return each key once, with the last of its places; nulls are equal."""
        found = flat.group_by(self.names, use_threads=False).aggregate([(ORDER, "max")])
        return found.select([*self.names, f"{ORDER}_max"]).rename_columns([*self.names, ORDER])

    def nested(self, flat: pa.Table) -> pa.Table:
        """Return the rows of deletes of columns as in `flat`."""
        by_id = dict(zip(self.ids, flat.select(self.names).columns, strict=True))
        arrays = [
            self._column(one, kind.type, by_id) for one, kind in zip(self.struct.fields, self.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.columns)

    def _column(self, of: Field, kind: pa.DataType, by_id: dict[int, pa.ChunkedArray]) -> pa.Array:
        if isinstance(of.type, Struct):
            children = [self._column(one, inner.type, by_id) for one, inner in zip(of.type.fields, kind, strict=True)]
            return pa.StructArray.from_arrays(children, fields=list(kind))
        array = by_id[of.id].combine_chunks()
        return pa.ExtensionArray.from_storage(kind, array) if isinstance(kind, pa.ExtensionType) else array.cast(kind)


def storage_of(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the bytes of UUIDs, other columns as they are."""
    if not isinstance(column, pa.ChunkedArray):
        return storage(column)
    if isinstance(column.type, pa.ExtensionType):
        return pa.chunked_array([one.storage for one in column.chunks], column.type.storage_type)
    return column
