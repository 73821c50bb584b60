"""The columns that a sink's files are written from, by expressions.

| column | |
|---|---|
| `topic` | the record's topic, which names its folder |
| `origin_topic`, `origin_partition`, `offset` | the record's origin, which names its file |
| `error` | the reason why it cannot be written; null for a good row |
| `layout` | the number of its value's schema among all that the task has met; null if it has no value |
| `directory` | the partitioner's input for a path |
| `time` | ms since 1970, if records' time ends rotations |
| `value_<layout>` | the format's input; null for rows of other layouts |
| `key_layout`, `key_<layout>`, `headers` | the same for the files beside it (`side_files`) |
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.hdfs.sink.spec import FileSpec
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema

_NO_VALUE = "The record has no value, which no file can hold; behavior.on.null.values=ignore passes such records over"


class SinkColumns:
    """The expressions of one task; numbers the schemas it meets."""

    def __init__(self, spec: FileSpec) -> None:
        self._spec = spec

    def columns(self, records: Records) -> list[Column]:
        """The columns of these records."""
        spec, text, none = self._spec, F.lit(None).cast("string"), F.lit(None).cast("int")
        errors, layouts, payloads = [], [], []
        for index, schema in enumerate(records.values):
            value, number = records.value(index), self._number(schema)
            is_mine = (F.col("value_schema") == index) & value.isNotNull()
            layouts.append((is_mine, F.lit(number)))
            if (refusal := spec.format.refusal(schema)) is not None:
                errors.append(F.when(is_mine, F.lit(refusal)))
                continue
            payloads.append(F.when(is_mine, spec.format.payload(value, schema)).alias(f"value_{number}"))
            if (error := spec.format.error(value, schema)) is not None:
                errors.append(F.when(is_mine, error))
        layout = reduce(lambda rest, case: F.when(case[0], case[1]).otherwise(rest), layouts, none)
        if not spec.ignores_nulls:
            errors.append(F.when(layout.isNull(), F.lit(_NO_VALUE)))
        errors.append(F.when(layout.isNotNull(), spec.partitioner.error(records)))
        errors += [F.when(layout.isNotNull(), error) for error in spec.beside.errors(records)]
        is_timed = spec.rules.settings.rotate_interval_ms is not None
        time = spec.partitioner.time(records) if is_timed else None
        return [
            F.col("topic"),
            F.col("_topic").alias("origin_topic"),
            F.col("_partition").alias("origin_partition"),
            F.col("_offset").alias("offset"),
            F.coalesce(*errors, text).alias("error"),
            layout.alias("layout"),
            spec.partitioner.column(records).alias("directory"),
            *([] if time is None else [time.alias("time")]),
            *payloads,
            *spec.beside.columns(records),
        ]

    def _number(self, schema: Schema | None) -> int:
        layouts: list[Any] = self._spec.layouts
        if schema not in layouts:
            layouts.append(schema)
        return layouts.index(schema)
