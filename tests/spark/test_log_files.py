"""Rows of LogFiles as records."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.plugins.source_rows import records_of
from headrace.plugins.testkit import SourceDrive, SourceOnSparkContract, SourceRig, frame_of
from tests.log_rig import LogRig


class TestTheKitOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> SourceRig:
        return LogRig(tmp_path)


@pytest.mark.parametrize("value", ["text", "struct"])
def test_records(tmp_path: Path, spark: SparkSession, value: str) -> None:
    rig = LogRig(tmp_path, format="cri", record_value=value)
    rig.write("2026-11-28T10:00:00Z stdout F hello\n")
    drive = SourceDrive(rig)
    plan = drive.planned()
    records = records_of(drive.task, frame_of(spark, drive, plan), "")
    [row] = records.frame.collect()
    assert (row["key_0"], row["timestamp"]) == (str(rig.path), 1795860000000)
    headers = {one["key"]: bytes(one["value"]).decode() for one in row["headers"]}
    assert (headers["log.path"], headers["log.position"]) == (str(rig.path), "0")
    if value == "struct":
        assert (row["value_0"]["message"], row["value_0"]["stream"]) == ("hello", "stdout")
    else:
        assert row["value_0"] == "hello"
    drive.task.stop()


def test_lines_of_json_are_values(tmp_path: Path, spark: SparkSession) -> None:
    rig = LogRig(tmp_path, format="json", record_key="none", record_headers="false")
    rig.put(['{"a": [1, null]}', "null", "no json", "7"])
    drive = SourceDrive(rig)
    records = records_of(drive.task, frame_of(spark, drive, drive.planned()), "")
    assert records.values == (None,)
    rows = records.frame.collect()
    assert [row["value_0"] for row in rows] == ['{"a":[1,null]}', None, None, "7"]
    assert [row["error"] is None for row in rows] == [True, True, False, True]
    drive.task.stop()
