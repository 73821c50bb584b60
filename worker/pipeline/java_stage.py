"""The Java stage of a connector that runs in the worker, and the programs before and after it.

    sink:    decode, transforms -> (Java host) -> transforms, the sink's columns
    source:  records, transforms -> (Java host) -> transforms, encode

A batch goes through two programs, with one crossing and its way back between them; rows out are rows in, in order. Rows
that failed or were filtered before do not cross, and are put back beside the others.

Decided: such batches run inline only, because a host runs beside its worker and not beside Spark's executors, and a job
that is cut in two would have to keep its rows in between; loses: Spark's cluster for these connectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.config.plugin_path import JavaStage
from headrace.plugins.contracts import SinkTask, SourceTask, TaskContext
from headrace.plugins.offsets import SourcePartition
from headrace.plugins.records import Records
from headrace.plugins.source_rows import numbered_type, records_of
from headrace.worker.deadletters.source_records import KeptRecords, unkept
from headrace.worker.pipeline.partition_gate import CONTROL, stop_of
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.shape_programs import ShapePrograms
from headrace.worker.pipeline.transforms import Transforms

_CONTROL: Final = spark.StructType(
    [
        spark.StructField("_topic", spark.StringType()),
        spark.StructField("_partition", spark.IntegerType()),
        spark.StructField("_offset", spark.LongType()),
        spark.StructField("_stop", spark.StringType()),
        spark.StructField("_drop", spark.BooleanType()),
    ]
)
_ORIGIN: Final = ("_topic", "_partition", "_offset")
_CARRIED: Final = "carried "
"""Prefix of a source's columns that do not cross."""


class RunningStage(Protocol):
    """The transforms and converters of one task in the host; for its own thread, except `end_waits` and `stop`."""

    def start(self, stage: JavaStage, context: TaskContext, is_source: bool) -> None:
        """Make and configure its plugins. Errors: those of the host and of the plugins."""

    def columns(self, records: Records) -> Sequence[Column]:
        """The columns that cross; the records' frame has `_topic`, `_partition` and `_offset`, of their origin."""

    def apply(self, rows: pa.RecordBatch, source: SourcePartition | None = None) -> tuple[str, pa.RecordBatch]:
        """Run the rows through the stage; return the name of the result's shape (no blanks), and the result.

        `source`: the partition of a source's rows.

        Errors: those of the host; StoppedError once the task has to end.
        """

    def row_type(self, shape: str) -> spark.StructType:
        """The type of the columns that `apply` makes."""

    def records(self, frame: DataFrame, shape: str) -> Records:
        """The records of a frame with these columns and any others."""

    def end_waits(self) -> None:
        """End a wait for another try, and let none begin; does not block, and any thread may call."""

    def stop(self) -> None:
        """Stop its plugins; any thread may call."""


def running_stage() -> RunningStage:
    """Make a stage for a task, not yet started.

    It comes from an entry point, because the worker does not import connectors.
    """
    (entry,) = entry_points(group="headrace.java_host", name="stage")
    made: RunningStage = entry.load()()
    return made


class SinkStage:
    """Turns rows that `Decoding` makes for a stage into rows that `PartitionGate` takes; for the task's own thread."""

    def __init__(self, scope: TaskScope, task: SinkTask, java: RunningStage, after: Transforms) -> None:
        self._scope = scope
        self._task = task
        self._java = java
        self._after = after
        self._programs = ShapePrograms(
            scope, lambda shape: scope.program(self._row_type(shape), partial(self._finished, shape=shape))
        )

    def run(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Run the rest of the chain. Errors: those of the stage and of the program."""
        skipped = pc.or_(decoded["_drop"].fill_null(False), decoded["_stop"].is_valid())
        shape, rows = _crossed(self._java, decoded, CONTROL, skipped)
        return self._programs.of(shape).run(rows, self._scope.bounds)

    def _row_type(self, shape: str) -> spark.StructType:
        return spark.StructType([*self._java.row_type(shape).fields, *_CONTROL.fields])

    def _finished(self, rows: DataFrame, shape: str) -> DataFrame:
        records = self._java.records(rows, shape)
        drop = F.coalesce(F.col("drop"), F.lit(True))  # rows that did not cross are left alone
        frame = records.frame.withColumns({"drop": drop, "offset": F.col("_offset")})
        records = self._after.apply(records.with_frame(frame))
        known = F.lit(None).cast("binary")
        stop = F.coalesce(F.col("_stop"), stop_of(F.col("error"), known, known))
        control = [*map(F.col, CONTROL[:3]), F.col("drop").alias("_drop"), stop.alias("_stop")]
        return records.frame.select(*control, *self._task.columns(records))


class SourceStage:
    """Turns a source's rows into its records after the stage; for the task's own thread."""

    def __init__(
        self, scope: TaskScope, task: SourceTask, java: RunningStage, before: Transforms, kept: KeptRecords | None
    ) -> None:
        """`kept`: keeps the material of dead letters."""
        self._scope = scope
        self._task = task
        self._java = java
        self._before = before
        self._kept = kept
        self._carried: dict[str, tuple[spark.StructType, KeptRecords | None]] = {}
        self._programs = ShapePrograms(
            scope,
            lambda shape: scope.program(numbered_type(task, shape), partial(self._begun, shape=shape)),
            task.topics,
            lambda shape: self._carried.pop(shape, None),
        )

    def run(self, rows: pa.RecordBatch, shape: str, partition: SourcePartition | None) -> tuple[pa.RecordBatch, str]:
        """Return rows after the stage, and their shape's name. Errors: those of the stage and of the program."""
        begun = self._programs.of(shape).run(rows, self._scope.bounds)
        made, rows = crossed(self._java, begun, self._carried[shape][0], partition or {})
        return rows, f"{shape} {made}"

    def row_type(self, name: str) -> spark.StructType:
        """The type of rows of this shape, which the last batch had."""
        shape, _, made = name.rpartition(" ")
        return spark.StructType([*self._java.row_type(made).fields, *self._carried[shape][0].fields])

    def records(self, rows: DataFrame, name: str) -> tuple[Records, KeptRecords | None]:
        """The records of rows of this shape, and the keeper of their state before all transforms."""
        shape, _, made = name.rpartition(" ")
        carried, kept = self._carried[shape]
        return returned(self._java, rows, made, carried), kept

    def _begun(self, rows: DataFrame, shape: str) -> DataFrame:
        records, kept = records_of(self._task, rows, shape, self._before.header_bytes), self._kept
        if kept is None:
            records = unkept(records)
        else:
            kept, records = kept.keep(records)
        records = self._before.apply(records)
        frame, carried = crossing(self._java, records)
        self._carried[shape] = carried, kept
        return frame


def crossing(java: RunningStage, records: Records) -> tuple[DataFrame, spark.StructType]:
    """The columns that cross, beside renamed ones of those that do not; and the type of the latter."""
    frame = records.frame
    if not set(_ORIGIN).issubset(frame.columns):  # a source's records have none
        nowhere = {"_partition": F.lit(None).cast("int"), "_offset": F.lit(None).cast("long")}
        frame = frame.withColumns({"_topic": F.col("topic"), **nowhere})
    sides = (("key", len(records.keys)), ("value", len(records.values)))
    cross = {f"{side}_{number}" for side, count in sides for number in ("schema", *range(count))}
    cross |= {"topic", "partition", "timestamp", "headers", *_ORIGIN}
    carried = [F.col(f"`{name}`").alias(f"{_CARRIED}{name}") for name in frame.columns if name not in cross]
    return frame.select(*java.columns(records.with_frame(frame)), *carried), frame.select(*carried).schema


def returned(java: RunningStage, rows: DataFrame, shape: str, carried: spark.StructType) -> Records:
    """The records of rows that `crossed` made in this shape, with all columns that did not cross."""
    records = java.records(rows, shape)
    own = {"error", "drop", *carried.names}
    failed = F.coalesce(F.col(f"{_CARRIED}error"), F.col("error")).alias("error")
    drop = F.coalesce(F.col("drop"), F.col(f"{_CARRIED}drop")).alias("drop")
    back = {name: name.removeprefix(_CARRIED) for name in carried.names}
    frame = records.frame.select(
        *(F.col(f"`{name}`") for name in records.frame.columns if name not in own),
        *(failed, drop),
        *(F.col(f"`{name}`").alias(was) for name, was in back.items() if was not in own),
    )
    return records.with_frame(frame)


def crossed(
    java: RunningStage, rows: pa.RecordBatch, carried: spark.StructType, source: SourcePartition | None
) -> tuple[str, pa.RecordBatch]:
    """Run rows of `crossing` through the stage; those that failed or were filtered before do not cross."""
    skipped = pc.or_(rows[f"{_CARRIED}drop"].fill_null(False), rows[f"{_CARRIED}error"].is_valid())
    return _crossed(java, rows, carried.names, skipped, source)


def _crossed(
    java: RunningStage,
    rows: pa.RecordBatch,
    carried: Sequence[str],
    skipped: pa.Array,
    source: SourcePartition | None = None,
) -> tuple[str, pa.RecordBatch]:
    """Run the rows that are not skipped through the stage.

    Returns the shape, and the results beside the carried columns: nulls for skipped rows.
    """
    crossing = rows.select([name for name in rows.schema.names if name not in carried])
    if skipped.true_count:
        shape, made = java.apply(crossing.filter(pc.invert(skipped)), source)
        left_out = skipped.to_numpy(zero_copy_only=False)
        made = made.take(pa.array(np.cumsum(~left_out) - 1, pa.int64(), mask=left_out))
    else:
        shape, made = java.apply(crossing, source)
    columns = [*made.columns, *(rows[name] for name in carried)]
    return shape, pa.RecordBatch.from_arrays(columns, names=[*made.schema.names, *carried])
