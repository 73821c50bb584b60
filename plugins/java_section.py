"""The part of a chain that runs in Java beside a connector that does not: what a worker asks of it.

It is found as the entry point `section` of the group `headrace.java_host`, because the worker and the room of the Java
hosts may not import each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from headrace.plugins.contracts import SourcePartition, TaskContext
from headrace.plugins.jars import JavaChain
from headrace.plugins.records import Records


class JavaSection(Protocol):
    """The transforms and converters of one task in the host; for its own thread, but for `end_waits` and `stop`."""

    def start(self, chain: JavaChain, context: TaskContext, is_source: bool) -> None:
        """Make and configure them. Errors: those of the host and of the plugins."""

    def columns(self, records: Records) -> Sequence[Column]:
        """The columns that cross; the records' frame has `_topic`, `_partition` and `_offset`, of where they were."""

    def apply(self, rows: pa.RecordBatch, source: SourcePartition | None = None) -> tuple[str, pa.RecordBatch]:
        """What becomes of each of these rows, and the name of the shape of that, which has no blanks.

        `source`: of a source's rows.

        Errors: those of the host; StoppedError once the task has to end.
        """

    def row_type(self, shape: str) -> StructType:
        """The columns that `apply` makes."""

    def records(self, frame: DataFrame, shape: str) -> Records:
        """The records of a frame with these columns, and all else that it has."""

    def end_waits(self) -> None:
        """End a wait for another try, and let none begin; waits for nothing, and any thread may call."""

    def stop(self) -> None:
        """End them; any thread may call."""
