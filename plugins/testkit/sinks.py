"""Tests that any sink must pass."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.contracts import ArrowWriter, Connector, Place, SinkTask
from headrace.plugins.records import Records
from headrace.plugins.testkit.driving import HOSTILE, PLAIN, start_task


class SinkRig(ABC):
    """The outside system of a sink under test, empty at first."""

    worker: Mapping[str, Any] = {}
    """Worker settings that the task may read."""
    hostile: Sequence[str] = HOSTILE

    @abstractmethod
    def connector(self) -> Connector:
        """Return a new connector object."""

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's config."""

    @abstractmethod
    def rows(self, values: Sequence[str]) -> pa.RecordBatch:
        """Return these values as the task's `columns` would pass them to a writer."""

    @abstractmethod
    def contents(self) -> list[str]:
        """Return the values in the outside system, in its order."""


class SinkDrive:
    """Drives a sink's task as the worker does."""

    def __init__(self, rig: SinkRig) -> None:
        self.rig = rig
        self._attempts = 0
        self.task = self._started()

    def restart(self) -> None:
        """Start another task in place of a crashed one."""
        self.task = self._started()

    def writer(self) -> ArrowWriter:
        """Return a writer as the worker would run it: pickled unless in the worker process."""
        self._attempts += 1
        writer = self.task.writer(f"attempt-{self._attempts}")
        return writer if self.task.place is Place.WORKER_PROCESS else pickle.loads(pickle.dumps(writer))

    def run(self, values: Sequence[str], upto: str = "commit") -> None:
        """Write a batch of these values as two record batches, up to and including the step `upto`."""
        writer = self.writer()
        half = len(values) // 2
        writer.write(self.rig.rows(values[:half]))
        if upto == "half":
            return
        writer.write(self.rig.rows(values[half:]))
        if upto == "write":
            return
        if upto == "abort":
            writer.abort()
            return
        part = writer.finish()
        if upto == "commit":
            self.task.commit([part])

    def _started(self) -> SinkTask:
        task = start_task(self.rig.connector(), self.rig.config(), self.rig.worker)
        assert isinstance(task, SinkTask)
        return task


class SinkContract:
    """Tests that any sink must pass."""

    @pytest.fixture
    def rig(self) -> SinkRig:
        """Override: the outside system."""
        raise NotImplementedError("override the fixture `rig`")

    @pytest.fixture
    def drive(self, rig: SinkRig) -> Iterator[SinkDrive]:
        """Yield a driver of the sink's task."""
        drive = SinkDrive(rig)
        yield drive
        drive.task.stop()

    def test_rows_stand_there_in_order_once_committed(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN[:7])
        assert rig.contents() == list(PLAIN[:7])
        drive.run(PLAIN[7:])
        assert rig.contents() == list(PLAIN)

    def test_an_empty_batch_changes_nothing(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN[:3])
        drive.run(())
        assert rig.contents() == list(PLAIN[:3])

    def test_the_same_batch_twice(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN)
        drive.run(PLAIN)
        assert list(dict.fromkeys(rig.contents())) == list(PLAIN)

    @pytest.mark.parametrize("step", ["half", "write", "abort", "finish", "commit"])
    @pytest.mark.parametrize("restart", [True, False], ids=["crash", "retry"])
    def test_ending_at_any_step_loses_nothing(self, rig: SinkRig, step: str, restart: bool) -> None:
        drive = SinkDrive(rig)
        drive.run(PLAIN[:4])
        drive.run(PLAIN[4:12], upto=step)
        if restart:
            drive.restart()
        drive.run(PLAIN[4:12])
        drive.run(PLAIN[12:])
        assert list(dict.fromkeys(rig.contents())) == list(PLAIN)
        drive.task.stop()

    def test_several_writers_of_one_batch(self, rig: SinkRig, drive: SinkDrive) -> None:
        one, other = drive.writer(), drive.writer()
        for values in zip(PLAIN[:10], PLAIN[10:], strict=True):
            one.write(rig.rows(values[:1]))
            other.write(rig.rows(values[1:]))
        drive.task.commit([one.finish(), other.finish()])
        contents = rig.contents()
        assert [value for value in contents if value in PLAIN[:10]] == list(PLAIN[:10])
        assert [value for value in contents if value in PLAIN[10:]] == list(PLAIN[10:])

    def test_hostile_values_arrive_as_they_are(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(rig.hostile)
        assert rig.contents() == list(rig.hostile)


class SinkOnSparkContract:
    """Tests that any sink must pass on Spark; needs the fixtures `rig`, `spark` and `records`."""

    @pytest.fixture
    def records(self, spark: SparkSession) -> Records:
        """Override: records with the values `rig.hostile`, as converters would make them for the sink."""
        raise NotImplementedError("override the fixture `records`")

    @pytest.mark.spark
    def test_its_projection_is_what_its_writer_takes(self, rig: SinkRig, records: Records) -> None:
        drive = SinkDrive(rig)
        good = records.frame.where(F.col("error").isNull() & ~F.col("drop"))
        rows = good.select(*drive.task.columns(records)).toArrow()
        assert rows.schema.names == rig.rows(PLAIN).schema.names
        writer = drive.writer()
        for batch in rows.to_batches():
            writer.write(batch)
        drive.task.commit([writer.finish()])
        assert rig.contents() == list(rig.hostile)
        drive.task.stop()
