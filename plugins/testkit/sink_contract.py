"""Tests that any sink must pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.plugins.record_api.record import Record
from headrace.plugins.record_api.sink import RecordSinkTask
from headrace.plugins.records import Records
from headrace.plugins.testkit.driving import EQUAL, PLAIN
from headrace.plugins.testkit.frames import frame_records
from headrace.plugins.testkit.promises import keeping, same
from headrace.plugins.testkit.sink_drive import SinkDrive, SinkRig


class WithRig:
    """The fixtures of contracts of sinks."""

    @pytest.fixture
    def rig(self) -> SinkRig:
        """Override: the outside system."""
        raise NotImplementedError("override the fixture `rig`")

    @pytest.fixture
    def drive(self, rig: SinkRig) -> Iterator[SinkDrive]:
        """Yield a driver of the sink's task."""
        drive = SinkDrive(rig)
        yield drive
        drive.end()


class SinkContract(WithRig):
    """Tests that any sink must pass."""

    def test_rows_stand_there_in_order_once_committed(self, rig: SinkRig, drive: SinkDrive) -> None:
        promise = "once a batch is committed, all its rows are outside, in order"
        drive.run(PLAIN[:7])
        same(rig.contents(), PLAIN[:7], promise)
        drive.run(PLAIN[7:])
        same(rig.contents(), PLAIN, promise)

    def test_an_empty_batch_changes_nothing(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN[:3])
        drive.run(())
        same(rig.contents(), PLAIN[:3], "a batch without rows changes nothing")

    def test_rows_of_equal_values_are_rows_of_their_own(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(EQUAL)
        same(rig.contents(), EQUAL, "rows of equal values are rows of their own")

    def test_many_rows_all_arrive(self, rig: SinkRig, drive: SinkDrive) -> None:
        values = [f"row {number}" for number in range(rig.many)]
        same(drive.put(values), [], "good rows are not named as bad")
        same(rig.contents(), values, "of a large batch each row is outside, however the sink pages it")

    def test_the_same_batch_twice(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN)
        drive.position = 0
        drive.run(PLAIN)
        same(list(dict.fromkeys(rig.contents())), PLAIN, "a batch that comes again does no harm")

    @pytest.mark.parametrize("step", ["half", "write", "abort", "finish", "commit"])
    @pytest.mark.parametrize("restart", [True, False], ids=["crash", "retry"])
    def test_ending_at_any_step_loses_nothing(self, rig: SinkRig, step: str, restart: bool) -> None:
        drive = SinkDrive(rig)
        drive.run(PLAIN[:4])
        drive.run(PLAIN[4:12], upto=step)
        if restart:
            drive.restart()
        drive.position = 4
        drive.run(PLAIN[4:12])
        drive.run(PLAIN[12:])
        promise = f"nothing is lost if a batch ends after the step `{step}` and comes again"
        same(list(dict.fromkeys(rig.contents())), PLAIN, promise)
        drive.end()

    def test_several_writers_of_one_batch(self, rig: SinkRig, drive: SinkDrive) -> None:
        one, other = drive.writer(), drive.writer()
        for number in range(10):
            one.write(drive.rows(PLAIN[number : number + 1], number))
            other.write(drive.rows(PLAIN[number + 10 : number + 11], number + 10))
        drive.task.commit([one.finish(), other.finish()])
        contents = rig.contents()
        for mine in (PLAIN[:10], PLAIN[10:]):
            same([value for value in contents if value in mine], mine, "each of several writers keeps its order")

    def test_hostile_values_arrive_as_they_are(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(rig.hostile)
        same(rig.contents(), rig.hostile, "values arrive as they are")


class RecordSinkContract(SinkContract):
    """Tests that any RecordSink must pass. `contents` gives None for a tombstone that is kept."""

    tombstones: Literal["kept", "delete", "refused"] = "kept"
    """`kept`: a value of its own; `delete`: it takes away what has its key; `refused`: each is named as bad."""

    def test_a_tombstone_is_a_record(self, rig: SinkRig, drive: SinkDrive) -> None:
        texts, keys = ["a", "b", None, "c"], ["k", "l", "k", "m"]
        records = [
            Record(None, key) if text is None else replace(rig.record(text, number), key=key)
            for number, (text, key) in enumerate(zip(texts, keys, strict=True))
        ]
        promise = f"a tombstone (a record without a value) is `{self.tombstones}`, as the contract's `tombstones` says"
        with keeping(promise):
            bad = drive.put(records)
        wanted = {"kept": texts, "delete": ["b", "c"], "refused": ["a", "b", "c"]}[self.tombstones]
        same(rig.contents(), wanted, promise)
        same(bad, records[2:3] if self.tombstones == "refused" else [], promise)

    def test_headers_and_timestamps_are_taken(self, rig: SinkRig, drive: SinkDrive) -> None:
        headers = [("h", b"\x00\xff"), ("h", b"again"), ("none", None)]
        records = [
            replace(rig.record(text, number), headers=headers if number % 2 else (), timestamp=number or None)
            for number, text in enumerate(PLAIN)
        ]
        with keeping("a record may have any headers and timestamp"):
            same(drive.put(records), [], "no record is bad for its headers or timestamp")
        same(rig.contents(), PLAIN, "headers and timestamps change no value")

    def test_records_of_several_schemas_may_come_together(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.mixes_schemas = True
        with keeping("records with and without a schema may come together"):
            same(drive.put(PLAIN), [], "no record is bad for having a schema, or none")
        same(rig.contents(), PLAIN, "records with and without a schema may come together")


class SinkFencingContract(WithRig):
    """Tests that a sink must pass which writes each record once, by offsets that it keeps with its data."""

    def test_a_former_owner_writes_nothing_any_more(self, rig: SinkRig, drive: SinkDrive) -> None:
        drive.run(PLAIN[:4])
        owner = SinkDrive(rig)
        for drive_now in (owner, drive):
            drive_now.position = 4
        owner.run(PLAIN[4:8])
        with contextlib.suppress(Exception):
            drive.run(PLAIN[4:8])
        owner.run(PLAIN[8:])
        same(rig.contents(), PLAIN, "a former owner of a partition is fenced: it writes nothing any more")
        owner.end()

    @pytest.mark.parametrize("step", ["half", "write", "finish", "commit"])
    def test_a_batch_that_comes_again_is_written_once(self, rig: SinkRig, drive: SinkDrive, step: str) -> None:
        drive.run(PLAIN, upto=step)
        drive.restart()
        drive.position = 0
        drive.run(PLAIN)
        same(rig.contents(), PLAIN, f"a batch that comes again after the step `{step}` is written once")


class SinkOnSparkContract:
    """Tests that any sink must pass on Spark; needs the fixtures `rig` and `spark`."""

    @pytest.fixture
    def records(self, spark: SparkSession, rig: SinkRig) -> Records:
        """Return records with the values `rig.hostile`, as a converter makes them; override it for other values."""
        return frame_records(spark, [rig.record(value, number) for number, value in enumerate(rig.hostile)])

    @pytest.mark.spark
    def test_its_projection_is_what_its_writer_takes(self, rig: SinkRig, records: Records) -> None:
        drive = SinkDrive(rig)
        good = records.frame.where(F.col("error").isNull() & ~F.col("drop"))
        rows = good.select(*drive.task.columns(records)).toArrow()
        if not isinstance(drive.task, RecordSinkTask):
            same(rows.schema.names, rig.rows(PLAIN).schema.names, "`columns` gives what the rig's `rows` are like")
        writer = drive.writer()
        for batch in rows.to_batches():
            writer.write(batch)
        drive.task.commit([writer.finish()])
        same(rig.contents(), rig.hostile, "values arrive as they are, from a converter on")
        drive.end()
