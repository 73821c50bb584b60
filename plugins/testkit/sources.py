"""Tests that any source must pass."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowReader, Connector, Limit, Place, Plan, SourceTask
from headrace.plugins.extensions import FrameReader
from headrace.plugins.offsets import SourceOffset
from headrace.plugins.source_rows import numbered_type, reader_type, records_of
from headrace.plugins.testkit.driving import HOSTILE, LARGE, PLAIN, SMALL, start_task


class SourceRig(ABC):
    """The outside system of a source under test, empty at first."""

    worker: Mapping[str, Any] = {}
    """Worker settings that the task may read."""
    hostile: Sequence[str] = HOSTILE
    replays_equal: bool = True
    """True if a split yields the same rows when it is read again."""

    @abstractmethod
    def connector(self) -> Connector:
        """Return a new connector object."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's config."""

    @abstractmethod
    def put(self, values: Sequence[str]) -> None:
        """Append these values to the outside system."""

    def value(self, row: Mapping[str, Any]) -> str:
        """Return the value from which the reader made this row."""
        return str(row["value"])


class SourceDrive:
    """Drives a source's task as the worker does, with offsets stored as JSON; `arrived` is what Kafka would have."""

    def __init__(self, rig: SourceRig) -> None:
        self.rig = rig
        self.stored: dict[str, str] = {}
        self.arrived: list[str] = []
        self.task = self._started()

    def restart(self) -> None:
        """Start another task in place of a crashed one."""
        self.task = self._started()

    def plan(self, limit: Limit = LARGE) -> Plan | None:
        """Return the task's next plan after the stored offsets."""
        after: list[SourceOffset | None] = []
        for partition in self.task.partitions():
            stored = self.stored.get(_json(partition))
            after.append(None if stored is None else json.loads(stored))
        return self.task.plan(after, limit)

    def reader(self, plan: Plan) -> ArrowReader:
        """Return a reader as the worker would run it: pickled unless in the worker process."""
        reader = self.task.reader(plan)
        return reader if self.task.place is Place.WORKER_PROCESS else pickle.loads(pickle.dumps(reader))

    def rows(self, plan: Plan) -> list[tuple[str, str, dict[str, Any]]]:
        """Read every row of the plan: its source partition as JSON, its value, its offset."""
        return [
            (_json(split.partition), self.rig.value(row), row["source_offset"])
            for number, split in enumerate(plan.splits)
            for batch in self.reader(plan).read(number)
            for row in batch.to_pylist()
        ]

    def store(self, rows: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        """Store the offsets of these rows."""
        self.stored |= {partition: _json(offset) for partition, _, offset in rows}

    def run(self, limit: Limit = LARGE) -> list[str]:
        """Read, deliver and store everything there is; return its values."""
        values: list[str] = []
        while (plan := self.plan(limit)) is not None:
            rows = self.rows(plan)
            assert rows, "a plan has no rows"
            values += [value for _, value, _ in rows]
            before = dict(self.stored)
            self.store(rows)
            assert self.stored != before, "a batch was read and its offset is the one before it"
        self.arrived += values
        return values

    def _started(self) -> SourceTask:
        task = start_task(self.rig.connector(), self.rig.config(), self.rig.worker)
        assert isinstance(task, SourceTask)
        return task


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
        drive.arrived += [value for _, value, _ in reached]
        if crash != "write":
            drive.store(reached)


class SourceContract:
    """Tests that any source must pass."""

    @pytest.fixture
    def rig(self) -> SourceRig:
        """Override: the outside system."""
        raise NotImplementedError("override the fixture `rig`")

    @pytest.fixture
    def drive(self, rig: SourceRig) -> Iterator[SourceDrive]:
        """Yield a driver of the source's task."""
        drive = SourceDrive(rig)
        yield drive
        drive.task.stop()

    def test_nothing_new_no_plan(self, rig: SourceRig, drive: SourceDrive) -> None:
        assert drive.plan() is None
        rig.put(PLAIN[:2])
        assert drive.run() == list(PLAIN[:2])
        assert drive.plan() is None
        assert drive.plan(SMALL) is None

    @pytest.mark.parametrize("limit", [LARGE, SMALL, Limit(1, 1)])
    def test_every_row_once_and_in_order(self, rig: SourceRig, drive: SourceDrive, limit: Limit) -> None:
        rig.put(PLAIN[:7])
        first = drive.run(limit)
        rig.put(PLAIN[7:])
        assert first + drive.run(limit) == list(PLAIN)

    def test_a_plan_is_small_json_with_one_split_a_partition(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        plan = drive.plan()
        assert plan is not None
        known = [_json(partition) for partition in drive.task.partitions()]
        planned = [_json(split.partition) for split in plan.splits]
        assert set(planned) <= set(known)
        assert len(set(planned)) == len(planned)
        text = json.dumps(asdict(plan), allow_nan=False)
        assert len(text) < 1 << 16
        assert json.loads(text)["splits"] == [asdict(split) for split in plan.splits]

    def test_rows_have_the_declared_shape(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        plan = drive.plan()
        assert plan is not None
        batch = next(drive.reader(plan).read(0))
        declared = reader_type(drive.task, plan.splits[0].shape)
        assert batch.schema.names == declared.names
        assert [str(f.type) for f in batch.schema] == [str(f.type) for f in declared]
        assert drive.rows(plan)[-1][2].keys() == {field.name for field in drive.task.offset_type}

    def test_no_row_up_to_a_stored_offset_is_needed_again(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN[:6])
        plan = drive.plan()
        assert plan is not None
        rows = drive.rows(plan)
        for number in range(len(rows)):
            again = SourceDrive(rig)
            again.store(rows[: number + 1])
            assert again.run() == [value for _, value, _ in rows[number + 1 :]]
            again.task.stop()

    def test_the_same_split_gives_the_same_rows_where_the_source_says_so(
        self, rig: SourceRig, drive: SourceDrive
    ) -> None:
        if not rig.replays_equal:
            pytest.skip("rows of this source may change")
        rig.put(PLAIN[:5])
        plan = drive.plan()
        assert plan is not None
        rows = drive.rows(plan)
        rig.put(PLAIN[5:])
        assert drive.rows(plan) == rows

    def test_what_comes_after_a_plan_is_of_the_next(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN[:5])
        plan = drive.plan()
        assert plan is not None
        rig.put(PLAIN[5:])
        rows = drive.rows(plan)
        drive.store(rows)
        assert [value for _, value, _ in rows] + drive.run() == list(PLAIN)

    def test_a_batch_that_failed_comes_again(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(PLAIN)
        for _ in range(2):
            plan = drive.plan(SMALL)
            assert plan is not None
            assert drive.rows(plan)[0][1] == PLAIN[0]
        assert drive.run(SMALL) == list(PLAIN)

    @pytest.mark.parametrize("batches", [0, 2])
    @pytest.mark.parametrize("step", SOURCE_STEPS)
    def test_a_crash_between_any_two_steps_loses_nothing(self, rig: SourceRig, step: str, batches: int) -> None:
        rig.put(PLAIN)
        drive = SourceDrive(rig)
        _until_crash(drive, step, batches)
        drive.restart()
        drive.run(SMALL)
        # Invariants 4 and 7: in order of first arrival, everything.
        assert list(dict.fromkeys(drive.arrived)) == list(PLAIN)
        drive.task.stop()

    def test_hostile_values_arrive_as_they_are(self, rig: SourceRig, drive: SourceDrive) -> None:
        rig.put(rig.hostile)
        assert drive.run() == list(rig.hostile)


class SourceOnSparkContract:
    """Tests that any source must pass on Spark; needs the fixtures `rig` and `spark`."""

    @pytest.mark.spark
    def test_its_rows_become_records(self, rig: SourceRig, spark: SparkSession) -> None:
        rig.put(rig.hostile)
        drive = SourceDrive(rig)
        plan = drive.plan()
        assert plan is not None
        records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape)
        assert {f"value_{index}" for index in range(len(records.values))} <= set(records.frame.columns)
        wanted = {"topic", "partition", "timestamp", "headers", "key_schema", "value_schema", "error", "drop"}
        assert wanted | {"source_offset", "split"} <= set(records.frame.columns)
        rows = records.frame.collect()
        assert [row["source_offset"].asDict() for row in rows] == [offset for _, _, offset in drive.rows(plan)]
        assert all(row["topic"] and row["error"] is None and row["drop"] is False for row in rows)
        drive.task.stop()


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


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)
