"""The rows of a source's readers, for tasks with one type of rows and with several."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from headrace.plugins.contracts import RowsOfSeveralTypes, SourceTask
from headrace.plugins.records import Records


def reader_type(task: SourceTask, shape: str) -> StructType:
    """Return the columns that the task's readers yield for splits of this shape, `source_offset` last."""
    row_type = task.row_type_of(shape) if isinstance(task, RowsOfSeveralTypes) else task.row_type
    return StructType([*row_type.fields, StructField("source_offset", task.offset_type)])


def records_of(task: SourceTask, rows: DataFrame, shape: str) -> Records:
    """Make records of rows of this shape."""
    return task.records_of(rows, shape) if isinstance(task, RowsOfSeveralTypes) else task.records(rows)
