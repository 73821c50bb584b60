"""Tests that any source must pass."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import reduce
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import Limit, Place, Plan
from headrace.plugins.extensions import FrameReader
from headrace.plugins.schema import Schema
from headrace.plugins.source_rows import DeclaredRows, numbered_type, records_of
from headrace.plugins.testkit.driving import EQUAL, LARGE, PLAIN, SMALL, STOP_S, Started, start_tasks
from headrace.plugins.testkit.promises import holds, keeping, same
from headrace.plugins.testkit.source_drive import SourceDrive, SourceRig, to_json

SOURCE_STEPS: Final = ("plan", "reader", "half", "read", "write", "store")


def _until_crash(drive: SourceDrive, step: str, batches: int) -> None:
    """Drive `batches` whole batches, and one more up to and including `step`."""
    for number in range(batches + 1):
        crash = step if number == batches else None
        plan = drive.plan(SMALL)
        if plan is None or crash == "plan":
            return
        reader = drive.reader(plan)
        if crash == "reader":
            return
        if crash == "half":
            next(reader.read(0), None)
            return
        rows = drive.rows(plan)
        if crash == "read":
            return
        reached = rows[: max(1, len(rows) // 2)] if crash == "store" else rows
        drive.arrived += [row.value for row in reached]
        if crash is None:
            drive.deliver(plan, rows)
        elif crash == "store":
            drive.store(reached)


class WithRig:
    """The fixtures of contracts of sources."""

    @pytest.fixture
    def rig(self) -> SourceRig:
        """Override: the outside system."""
        raise NotImplementedError("override the fixture `rig`")

    @pytest.fixture
    def drive(self, rig: SourceRig) -> Iterator[SourceDrive]:
        """Yield a driver of the source's task."""
        drive = SourceDrive(rig)
        yield drive
        drive.end()


class SourceContract(WithRig):
    """Tests that any source must pass."""

    def test_nothing_new_no_plan(self, rig: SourceRig, drive: SourceDrive) -> None:
        promise = "with nothing new outside, `plan` returns None"
        same(drive.plan(), None, promise)
        rig.put(PLAIN[:2])
        same(drive.run(), PLAIN[:2], "each row arrives once, in order")
        same(drive.plan(), None, promise)
        same(drive.plan(SMALL), None, promise)

    def test_a_preview_changes_nothing(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        shown = drive.previewed()
        if shown is not None:  # None: it cannot be read so, and says that
            holds(shown, "a preview shows rows that are there")
            same(shown, PLAIN[: len(shown)], "a preview shows the first rows, in order")
        same(drive.run(), PLAIN, "after a preview each row arrives once, in order")

    @pytest.mark.parametrize("limit", [LARGE, SMALL, Limit(1, 1)])
    def test_every_row_once_and_in_order(self, rig: SourceRig, drive: SourceDrive, limit: Limit) -> None:
        rig.put(PLAIN[:7])
        first = drive.run(limit)
        rig.put(PLAIN[7:])
        same(first + drive.run(limit), PLAIN, "each row arrives once, in order")

    def test_rows_of_equal_values_are_rows_of_their_own(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(EQUAL)
        same(drive.run(), EQUAL, "rows of equal values are rows of their own")

    def test_rows_without_a_value_arrive(self, rig: SourceRig, drive: SourceDrive) -> None:
        values = [None, "a", None, None, "b"] if rig.has_nulls else ["", "a", "", "", "b"]
        rig.put(values)
        same(drive.run(), values, "a row with a null or empty value is a row")

    def test_many_rows_all_arrive(self, rig: SourceRig, drive: SourceDrive) -> None:
        values = [f"row {number}" for number in range(rig.many)]
        rig.put(values)
        same(drive.run(), values, "of many rows each arrives, however the outside system pages them")

    @pytest.mark.parametrize(
        ("limit", "rows", "width"), [(Limit(20, LARGE.bytes), 400, 0), (Limit(LARGE.rows, 2 << 20), 1_000, 8_000)]
    )
    def test_a_plan_keeps_to_its_limit(
        self, rig: SourceRig, drive: SourceDrive, limit: Limit, rows: int, width: int
    ) -> None:
        values = [f"{number:05}".ljust(width, "x") for number in range(rows)]
        rig.put(values)
        plan = drive.planned(limit)
        read = [row.value for row in drive.rows(plan)]
        size = sum(map(len, read))
        promise = f"a plan with {limit} keeps to it (twice as much is let pass, for estimates)"
        found = f"the plan has {len(read)} rows of {size} bytes"
        holds(len(read) <= 2 * limit.rows, promise, found)
        holds(size <= 2 * limit.bytes or not rig.knows_sizes, promise, found)
        same(read, values[: len(read)], "a plan begins at the first row that is new")

    def test_a_plan_is_small_json_with_one_split_a_partition(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        plan = drive.planned()
        known = [to_json(partition) for partition in drive.task.partitions()]
        planned = [to_json(split.partition) for split in plan.splits]
        holds(set(planned) <= set(known), "a plan has partitions of `partitions()` only", f"{planned}", f"{known}")
        same(sorted(set(planned)), sorted(planned), "a plan has at most one split for each partition")
        text = json.dumps(asdict(plan), allow_nan=False)
        holds(len(text) < 1 << 16, "a plan is small: under 64 KiB of JSON", f"it has {len(text)} bytes")
        same(json.loads(text)["splits"], [asdict(split) for split in plan.splits], "a plan holds only JSON values")

    def test_rows_have_the_declared_shape(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        plan = drive.planned()
        promise = "batches have the columns of `row_type`, and `source_offset` of `offset_type`"
        with keeping(promise):
            DeclaredRows(drive.task, plan.splits[0].shape).checked(next(drive.reader(plan).read(0)))
        same(set(drive.rows(plan)[-1].offset), {field.name for field in drive.task.offset_type}, promise)

    def test_partitions_are_stable_and_each_has_one_task(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        drive.plan()
        known = sorted(map(to_json, drive.task.partitions()))
        same(sorted(map(to_json, drive.task.partitions())), known, "`partitions()` tells the same twice")
        for most in (2, 3):
            tasks = start_tasks(rig.connector(), rig.config(), rig.worker, most)
            shared = sorted(partition for one in tasks for partition in _partitions_of(one))
            for one in tasks:
                one.end()
            same(shared, known, f"with tasks.max={most} each partition belongs to one task, under the same name")

    def test_no_row_up_to_a_stored_offset_is_needed_again(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN[:6])
        rows = [] if rig.forgets else drive.rows(drive.planned())  # a queue has one reader at a time
        for number in range(6 if rig.forgets else len(rows)):
            again = SourceDrive(rig)
            if rig.forgets:
                rows = again.rows(again.planned())
                again.acknowledge(rows[: number + 1])
                again.restart()
            else:
                again.store(rows[: number + 1])
            promise = "an offset stands for its row: after it comes the next row, and no other"
            reached = len(rows[: number + 1])
            same(again.run(), PLAIN[reached:6], f"{promise} (went on after {again.stored})")
            again.end()
            if rig.forgets:
                rig.put(PLAIN[:6])

    def test_the_same_split_gives_the_same_rows_where_the_source_says_so(
        self, rig: SourceRig, drive: SourceDrive
    ) -> None:
        if not rig.replays_equal:
            pytest.skip("rows of this source may change")
        rig.put(PLAIN[:5])
        plan = drive.planned()
        rows = drive.rows(plan)
        rig.put(PLAIN[5:])
        same(drive.rows(plan), rows, "a split that is read again gives the same rows (else set `replays_equal`)")

    def test_what_comes_after_a_plan_is_of_the_next(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN[:5])
        plan = drive.planned()
        rig.put(PLAIN[5:])
        rows = drive.rows(plan)
        drive.deliver(plan, rows)
        same([row.value for row in rows] + drive.run(), PLAIN, "what comes while a plan is read arrives once, too")

    def test_a_batch_that_failed_comes_again(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        promise = "a batch that was not delivered comes again: only the stored offset counts"
        for _ in range(2):
            plan = drive.planned(SMALL)
            same(drive.rows(plan)[0].value, PLAIN[0], promise)
            drive.progress.undelivered()
        same(drive.run(SMALL), PLAIN, promise)

    @pytest.mark.parametrize("batches", [0, 2])
    @pytest.mark.parametrize("step", SOURCE_STEPS)
    def test_a_crash_between_any_two_steps_loses_nothing(self, rig: SourceRig, step: str, batches: int) -> None:
        rig.put(PLAIN)
        drive = SourceDrive(rig)
        _until_crash(drive, step, batches)
        drive.restart()
        drive.run(SMALL)
        # Invariants 4 and 7: in order of first arrival, everything.
        same(list(dict.fromkeys(drive.arrived)), PLAIN, f"nothing is lost in a crash after the step `{step}`")
        drive.end()

    def test_hostile_values_arrive_as_they_are(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(rig.hostile)
        same(drive.run(), rig.hostile, "values arrive as they are")

    def test_it_ends_within_a_second(self, rig: SourceRig) -> None:
        drive = SourceDrive(rig)
        rig.put(PLAIN)
        drive.plan(SMALL)
        ends_in_time(drive.end, "a task ends within a second")


def _partitions_of(started: Started) -> list[str]:
    partitions = started.task.partitions()
    started.task.plan([None for _ in partitions], SMALL)
    return [to_json(partition) for partition in started.task.partitions()]


def ends_in_time(end: Callable[[], None], promise: str) -> None:
    """Fail unless this ends within `STOP_S`."""
    began = time.monotonic()
    end()
    took = time.monotonic() - began
    holds(took < STOP_S, promise, f"it took {took:.1f} s")


class SourceOnSparkContract:
    """Tests that any source must pass on Spark; needs the fixtures `rig` and `spark`."""

    @pytest.mark.spark
    def test_its_rows_become_records(self, rig: SourceRig, spark: SparkSession) -> None:
        rig.put(rig.hostile)
        drive = SourceDrive(rig)
        plan = drive.planned()
        records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape, _as_text)
        columns = set(records.frame.columns)
        wanted = {"topic", "partition", "timestamp", "headers", "key_schema", "value_schema", "error", "drop"}
        wanted |= {f"value_{index}" for index in range(len(records.values))} | {"source_offset", "split"}
        same(sorted(wanted - columns), [], "`records` has the columns of Records")
        rows = records.frame.collect()
        offsets = [row.offset for row in drive.rows(plan)]
        same([row["source_offset"].asDict() for row in rows], offsets, "`records` keeps each row, in order")
        bad = [row for row in rows if not row["topic"] or row["error"] is not None or row["drop"]]
        same(bad, [], "`records` names a topic for each row, and fails none")
        drive.end()


def _as_text(value: Column, schema: Schema | None) -> tuple[Column, Column]:
    return value.cast("string").cast("binary"), F.lit(None).cast("string")


def frame_of(spark: SparkSession, drive: SourceDrive, plan: Plan) -> DataFrame:
    """Return the rows of a plan of one shape as the frame for `records_of`, read in a job if its place allows it."""
    shape = numbered_type(drive.task, plan.splits[0].shape)
    reader = drive.task.reader(plan)
    splits = len(plan.splits)

    def read(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in range(splits):
            for batch in reader.read(split):
                yield batch.append_column("split", pa.array([split] * batch.num_rows, pa.int32()))

    if isinstance(reader, FrameReader):
        frames = [reader.frame(spark, split).withColumn("split", F.lit(split)) for split in range(splits)]
        return reduce(DataFrame.union, frames)
    if drive.task.place is Place.WORKER_PROCESS:
        return spark.createDataFrame(pa.Table.from_batches(read(iter(()))), shape)
    return spark.range(1, numPartitions=1).mapInArrow(read, shape)
