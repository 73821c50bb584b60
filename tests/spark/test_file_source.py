"""The file source on Spark: rows of files become records, lines of JSON values without schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.plugins.schema import Field, Schema, SchemaType
from headrace.plugins.source_rows import records_of
from headrace.plugins.testkit import SourceDrive, SourceOnSparkContract, frame_of
from tests.unit.connectors.hdfs.source.test_source import FolderRig, avro

pytestmark = pytest.mark.spark


class TestTheKitOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> FolderRig:
        return FolderRig(tmp_path)


def collected(spark: SparkSession, rig: FolderRig) -> tuple[Any, list[Any]]:
    drive = SourceDrive(rig)
    plan = drive.plan()
    assert plan is not None
    records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape)
    rows = records.frame.collect()
    drive.task.stop()
    return records, rows


def test_lines_of_json(spark: SparkSession, tmp_path: Path) -> None:
    rig = FolderRig(tmp_path)
    lines = [
        '{"a": 1.50, "b":[1, {"c":"ü\\n"}]}',
        '"text"',
        "7",
        "true",
        " null ",
        "{broken",
        '{"a":1} rest',
        "-0.0",
        '{"a":1}} {"b":2}',
        '1,"x":2',
        "1,2",
    ]
    rig.file("t/a.json", "\n".join(lines).encode())
    records, rows = collected(spark, rig)
    assert records.values == (None,)
    assert [row.value_0 for row in rows] == [
        '{"a":1.5,"b":[1,{"c":"ü\\n"}]}', '"text"', "7", "true", None, None, None, "0.0", None, None, None,
    ]  # fmt: skip
    assert [row.error and row.error.message for row in rows] == [
        None, None, None, None, None, "The line is no JSON: {broken", 'The line is no JSON: {"a":1} rest', None,
        'The line is no JSON: {"a":1}} {"b":2}', 'The line is no JSON: 1,"x":2', "The line is no JSON: 1,2",
    ]  # fmt: skip


def test_structs_of_avro(spark: SparkSession, tmp_path: Path) -> None:
    rig = FolderRig(tmp_path)
    avro(tmp_path / "in/orders/a.avro", [1, 2])
    records, rows = collected(spark, rig)
    (schema,) = records.values
    assert schema.name == "Order"
    assert schema.fields == (Field("n", Schema(SchemaType.INT64)),)
    assert [(row.topic, row.value_0.n) for row in rows] == [("orders", 1), ("orders", 2)]


def test_a_file_that_cannot_be_read_is_a_failed_record(spark: SparkSession, tmp_path: Path) -> None:
    rig = FolderRig(tmp_path)
    rig.file("t/a.avro", b"no avro")
    _, (row,) = collected(spark, rig)
    assert row.error.message == "in/t/a.avro cannot be read: The file is not an Avro container file"
    assert (row.topic, row.source_offset.done) == ("t", True)
