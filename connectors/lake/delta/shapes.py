"""A table as its writers need it: picklable, without the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headrace.connectors.lake.delta.types import optional
from headrace.plugins.offsets import TopicPartition

IS_DELETE: Final = "__headrace_delete"
"""The column of rows for upserts beside the table's: true for deletes."""


@dataclass(frozen=True)
class TableShape:
    """A table's columns, and what of this task's partitions it has."""

    path: str
    columns: pa.Schema
    ids: tuple[str, ...]
    """The columns of the key; none if rows are appended."""
    marks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """By partition: the offset after the last record that it has."""
    layouts: frozenset[int] = frozenset()
    """The numbers of the schemas whose fields it has as far as it ever will."""

    @property
    def held(self) -> pa.Schema:
        """The columns of rows that wait for a commit."""
        fields = [pa.field(one.name, optional(one.type)) for one in self.columns]
        if self.ids:
            fields.append(pa.field(IS_DELETE, pa.bool_()))
        return pa.schema(fields)
