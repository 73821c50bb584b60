"""Tables as writers see them, and who knows them.

Inline the task loads, creates and evolves tables (`Targets`). A job has what the task knew (`Known`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa

from headrace.connectors.lake.iceberg.files.arrow_schema import arrow_schema
from headrace.connectors.lake.iceberg.files.keys import Keys
from headrace.connectors.lake.iceberg.tables import Marks, TableState
from headrace.plugins.errors import RecordsFailed

BY_KEY: Final = -1
"""The layout of deletes without a value, for `Targets.target`."""


class NoTable(Exception):
    """A missing table cannot be made of these values; the text says why."""


@dataclass(frozen=True)
class Target:
    """A table that rows go to."""

    state: TableState
    marks: Marks = field(default_factory=dict)
    """Rows before these offsets are in the table already."""
    keys: tuple[str, ...] = ()
    """The paths of the columns, by dots, that name a row for upserts and deletes; none: rows are appended."""


class Routes(Protocol):
    """The rule by which rows go to tables; picklable."""

    def __call__(self, route: str | None) -> Sequence[str]:
        """Return the tables for this text of the column `route`; called once for each text of a batch."""


class Targets(Protocol):
    """The tables of a task."""

    def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
        """Return the table as it is for values of this layout with these Arrow columns.

        Called for each new pair of table and layout, and again for values without a schema if they have fields that
        the table lacks. The types of such values are those of their JSON; fields that are null or empty have none.
        A layout of -1: deletes without a value.

        Errors: those of the catalog; NoTable; RecordsFailed in a job that does not know it.
        """


@dataclass(frozen=True)
class Table:
    """A target with its Arrow columns. Errors: LakeError for types that are not written, and wrong keys."""

    target: Target

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of its rows."""
        return arrow_schema(self.target.state.schema)

    @cached_property
    def keys(self) -> Keys | None:
        """The columns that name its rows; None: rows are appended."""
        return Keys.of(self.target.state, self.target.keys) if self.target.keys else None


@dataclass(frozen=True)
class Known:
    """The tables that a task knew when a job began; picklable."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    met: frozenset[tuple[str, int]] = frozenset()
    """The tables and layouts that go together."""


class UnknownTargets:
    """The tables of a job beyond those that its task knew."""

    def target(self, name: str, layout: int, columns: pa.DataType) -> Target:
        """Fail the job, so that the task learns the table, or its new fields, by the next batch."""
        raise RecordsFailed(f"The table {name} is not known yet for these records, or lacks some of their fields")
