"""A catalog and its tables, through Iceberg's Java library in Spark's driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.connectors.lake.iceberg.parts import TableCommit
from headrace.connectors.lake.iceberg.schemas import Changes, Struct
from headrace.connectors.lake.iceberg.tables import Marks, TableState


class Catalog(Protocol):
    """The tables of one catalog, for one task of one connector; thread-safe.

    Errors of all methods: RetriableError if the catalog or its store does not answer or Spark does not run;
    LakeError if it refuses.
    """

    def load(self, table: str) -> TableState | None:
        """Return the table now; None if there is none."""

    def create(
        self,
        table: str,
        schema: Struct,
        partition_by: Sequence[str],
        identifier: Sequence[str],
        properties: Mapping[str, str],
    ) -> TableState:
        """Create the table and its namespaces, or return it if another has done so; ids in `schema` do not count.

        Identifier columns are required. `partition_by` has the terms of configs, such as `day(ts)`.
        Errors: ConfigError for a wrong term, or an identifier that is no column.
        """

    def evolve(self, table: str, changes: Changes) -> TableState:
        """Make these changes as far as they are not made yet. Errors: LakeError if they contradict the table."""

    def marks(self, table: str, topic_ids: Mapping[str, str]) -> Marks:
        """Return this connector's marks in the table's branch, for these topics with these ids."""

    def set_marks(self, table: str, topic_ids: Mapping[str, str], marks: Marks | None) -> None:
        """Set this connector's marks of these topics for an operator, to exactly these; None: forget all of them."""

    def commit(self, commits: Sequence[TableCommit], topic_ids: Mapping[str, str]) -> Mapping[str, bool]:
        """Upload the files, and change the tables, several at once; return by table: False if its marks have moved.

        False, too, if another table has its name by now. A table is changed whole or not at all; the error of one table
        is raised after all others have ended. The local files are deleted. An answer that was lost is looked for in
        the table. What a killed process has uploaded in vain is deleted, once its commit cannot succeed any more.
        """

    def close(self) -> None:
        """Release the connections of the catalog."""
