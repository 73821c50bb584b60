"""Spool folders on Spark: rows become records with keys, timestamps and headers."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.connectors.spool.connector import SpoolDirCsvSourceConnector
from headrace.connectors.spool.schemas import parsed
from headrace.plugins.source_rows import records_of
from headrace.plugins.testkit import SourceDrive, SourceOnSparkContract, frame_of
from tests.unit.connectors.spool.folders import Folder, schema

pytestmark = pytest.mark.spark


class TestTheKitOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Folder:
        return Folder(tmp_path)


@pytest.mark.parametrize(("mode", "at"), [("PROCESS_TIME", None), ("FILE_TIME", 86_400_500), ("FIELD", 60_000)])
def test_parts_of_records(spark: SparkSession, tmp_path: Path, mode: str, at: int | None) -> None:
    value, key = schema(n="INT32", at="Timestamp"), schema(n="INT32")
    settings = {"value_schema": value, "key_schema": key, "timestamp_mode": mode, "timestamp_field": "at"}
    rig = Folder(tmp_path, SpoolDirCsvSourceConnector, **settings)
    path = rig.file("a.b.csv", b"1,1970-01-01T00:01:00\n2,1970-01-01T00:01:00\n")
    os.utime(path, (86_400.5, 86_400.5))
    drive = SourceDrive(rig)
    plan = drive.planned()
    records = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape)
    assert (records.keys, records.values) == ((parsed(key),), (parsed(value),))
    row = records.frame.collect()[1]
    assert (row.topic, row.timestamp, row.key_0.asDict()) == ("t", at, {"n": 2})
    assert row.value_0.asDict()["at"].astimezone(dt.UTC) == dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC)
    assert {one.key: one.value.decode() for one in row.headers} == {
        "file.name": "a.b.csv",
        "file.name.without.extension": "a.b",
        "file.path": str(path),
        "file.parent.dir.name": "in",
        "file.length": str(path.stat().st_size),
        "file.offset": "2",
        "file.last.modified": "1970-01-02T00:00:00.500Z",
        "file.relative.path": "a.b.csv",
    }
    drive.end()


def test_without_keys_and_headers(spark: SparkSession, tmp_path: Path) -> None:
    rig = Folder(tmp_path, metadata_location="NONE")
    rig.file("a.txt", b"one\n")
    drive = SourceDrive(rig)
    plan = drive.planned()
    (row,) = records_of(drive.task, frame_of(spark, drive, plan), plan.splits[0].shape).frame.collect()
    assert (row.value_0, row.headers, row.key_schema) == ("one", None, None)
    drive.end()
