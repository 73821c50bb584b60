"""Delta's own package for Spark reads the sink's tables, changes them, and the sink goes on beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.plugins.interop.jvm.jars import fetch
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.testkit import SinkDrive
from tests.unit.connectors.lake.delta_rig import DeltaRig, delta_rows, table_of

pytestmark = [pytest.mark.spark, pytest.mark.soak]

READ_AND_CHANGE = """
import json, sys
from pyspark.sql import SparkSession
jars, path = sys.argv[1:]
settings = {
    "spark.jars": jars,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = session.read.format("delta").load(path).orderBy("n").toJSON().collect()
session.sql(f"DELETE FROM delta.`{path}` WHERE n = 0")
session.sql(f"OPTIMIZE delta.`{path}`")
print(json.dumps([json.loads(row) for row in rows]))
"""


@pytest.mark.timeout(600)
def test_spark_reads_and_changes_a_table(tmp_path: Path) -> None:
    rig = DeltaRig(tmp_path, **{"write.mode": "upsert", "id.columns": "n"})
    drive = SinkDrive(rig)

    def write(*rows: tuple[int, str, bool]) -> None:
        writer = drive.writer()
        writer.write(delta_rows(rows))
        drive.task.commit([writer.finish()])

    write((0, "a", False), (1, "b", False), (2, "c", False))
    write((3, "d", False), (4, "e", False), (4, "e", True))
    odd = pa.table(
        {
            "n": [9],
            "local": pa.array([1_000_000], pa.timestamp("us")),
            "moment": pa.array([1_000_000], pa.timestamp("us", "UTC")),
            "nested": [{"list": [{"x": 1}]}],
        }
    )
    write_deltalake(str(rig.path), odd, mode="append", schema_mode="merge")
    command = [sys.executable, "-c", READ_AND_CHANGE, ",".join(map(str, fetch("delta"))), str(rig.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, last = json.loads(done.stdout.splitlines()[-1])
    assert [(row["n"], row["line"]) for row in lines] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert last == {
        "n": 9,
        "local": "1970-01-01T00:00:01.000",
        "moment": "1970-01-01T00:00:01.000Z",
        "nested": {"list": [{"x": 1}]},
    }
    assert drive.task.open([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 5}  # type: ignore[attr-defined]
    write((5, "f", False))
    assert table_of(rig.path)["n"].to_pylist() == [1, 2, 3, 5, 9]
