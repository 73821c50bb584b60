"""Rows of a source's readers: their declared type, their records, and the check against the declaration."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getattr_static
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.config.problems import ConfigError, Problem
from headrace.plugins.arrow_types import arrow_schema_of, struct_of
from headrace.plugins.contracts import SourceTask
from headrace.plugins.extensions import HeaderValues, RowsOfSeveralTypes
from headrace.plugins.records import HEADERS, Records, error, first_error
from headrace.plugins.schema import Schema

HeaderBytes = Callable[[Column, Schema | None], tuple[Column, Column]]
"""Type of `HeaderConverter.encode`."""

_LARGE: Final = {
    pa.large_string().id: pa.string().id,
    pa.large_binary().id: pa.binary().id,
    pa.large_list(pa.null()).id: pa.list_(pa.null()).id,
}
"""Arrow types that Spark reads as other types."""


def reader_type(task: SourceTask, shape: str) -> pa.Schema:
    """Return the columns that the task's readers yield for splits of this shape, `source_offset` last."""
    row_type = task.row_type_of(shape) if isinstance(task, RowsOfSeveralTypes) else task.row_type
    return row_type.append(pa.field("source_offset", task.offset_type))


def numbered_type(task: SourceTask, shape: str) -> StructType:
    """Return the columns of such rows with the number of their split, in Spark's types."""
    return struct_of(reader_type(task, shape).append(pa.field("split", pa.int32())))


def topic_of(task: SourceTask) -> str | None:
    """Return the topic that a static `records` expects in its frame; None if it expects none."""
    is_static = isinstance(getattr_static(task, "records", None), staticmethod)
    if not is_static or isinstance(task, RowsOfSeveralTypes) or "topic" in task.row_type.names:
        return None
    topics = task.topics()
    return topics[0] if len(topics) == 1 else None


def records_of(task: SourceTask, rows: DataFrame, shape: str, header_bytes: HeaderBytes | None = None) -> Records:
    """Make records of rows of this shape, with or without a column `topic`.

    `header_bytes`: the header converter; None if that is Java's.
    """
    if isinstance(task, RowsOfSeveralTypes):
        records = task.records_of(rows, shape)
    else:
        if "topic" not in rows.columns and (topic := topic_of(task)) is not None:
            rows = rows.withColumn("topic", F.lit(topic))
        records = task.records(rows)
    return _with_headers(records, task, header_bytes) if isinstance(task, HeaderValues) else records


def _with_headers(records: Records, task: HeaderValues, header_bytes: HeaderBytes | None) -> Records:
    """Append the task's headers; a value that the converter refuses fails its record. Errors: ConfigError."""
    if header_bytes is None:
        remedy = "Set a header.converter that comes with Headrace, such as SimpleHeaderConverter."
        why = "A header converter in Java does not write the headers of this source."
        raise ConfigError(Problem("header.converter", None, why, remedy))
    headers, refusals = [], []
    for name, (value, schema) in task.header_values(records).items():
        data, refused = header_bytes(value, schema)
        headers.append(F.struct(F.lit(name).alias("key"), data.alias("value")))
        refusals.append(error("HEADER_CONVERTER", type(task).__name__, F.when(data.isNull(), refused)))
    own = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
    added = {
        "headers": F.concat(own, F.array(*headers).cast(HEADERS)),
        "error": first_error([F.col("error"), *refusals]),
    }
    return records.with_frame(records.frame.withColumns(added))


class DeclaredRows:
    """Declared shape of a reader's rows; picklable."""

    def __init__(self, task: SourceTask, shape: str) -> None:
        self._owner = type(task).__name__
        self._member = f"row_type_of({shape!r})" if isinstance(task, RowsOfSeveralTypes) else "row_type"
        self._declared = reader_type(task, shape)
        self._carried = arrow_schema_of(struct_of(self._declared))
        self._accepted: pa.Schema | None = None
        self._is_carried = True
        """False: timestamps of the accepted rows have other units than Spark's."""

    def checked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, with timestamps in Spark's units.

        Errors: TypeError, naming the plugin's member, if they have another shape; ArrowInvalid for a timestamp that
        Spark's microseconds cannot hold.
        """
        if self._accepted is None or not rows.schema.equals(self._accepted):
            self._check(rows.schema)
            self._accepted = rows.schema
            self._is_carried = not any(_has_other_units(field.type) for field in rows.schema)
        return rows if self._is_carried else rows.cast(self._carried)

    def _check(self, given: pa.Schema) -> None:
        if _outline(given) != _outline(self._declared):
            raise TypeError(
                f"The reader of {self._owner} yields the columns ({_shown(given)}), but its {self._member} and "
                f"offset_type declare ({_shown(self._declared)})"
            )


def _has_other_units(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit != "us")
    return any(_has_other_units(kind.field(number).type) for number in range(kind.num_fields))


def _outline(schema: pa.Schema) -> list[tuple[str, int]]:
    return [(field.name, _LARGE.get(field.type.id, field.type.id)) for field in schema]


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
