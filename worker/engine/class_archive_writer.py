"""Writes the archive of the classes that Spark's driver loads (`class_archive`), once for each Java, Spark and jars.

python -m headrace.worker.engine.class_archive_writer [--strict]

With --strict, as when an image is built, it ends with 1 if there is no archive afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from headrace.worker.engine.class_archive import QUIET, path_for
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_conf import DEFAULTS
from headrace.worker.engine.driver_jars import driver_jars
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.engine.lane import INTERPRETED_ROWS

_KEPT: Final = 4
_START_S: Final = 600
"""The longest start of a driver without an archive: on a builder with a part of a core it took more than 120 s."""
STRICT: Final = "--strict"


def write(class_path: Sequence[Path]) -> None:
    """Write the archive if it is missing; that takes about 20 s, on a machine under load minutes."""
    archive = path_for(class_path)
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    new = archive.with_suffix(f".{os.getpid()}.new")
    key = "spark.driver.extraJavaOptions"
    spark = Spark({key: f"{DEFAULTS[key]} -XX:ArchiveClassesAtExit={new} {QUIET}"}, class_path)
    spark.start()
    try:
        if spark.wait_ready(_START_S):
            projections = ProjectionPool(spark)
            _exercise(spark, projections)
            projections.stop()
            spark.exit()
        if new.exists():
            new.replace(archive)
            _prune(archive.parent)
    finally:
        spark.stop()
        new.unlink(missing_ok=True)


def _prune(folder: Path) -> None:
    """Delete all archives except those used last: each checkout has its own, of 150 MB."""
    archives = sorted(folder.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        old.unlink(missing_ok=True)


def _exercise(spark: Spark, projections: ProjectionPool) -> None:
    """Load the classes that a worker loads: expressions inline, and a job with Python on both sides."""
    schema = StructType([StructField("text", StringType()), StructField("data", BinaryType())])
    text = F.col("data").cast("string")
    program = projections.compile(
        schema,
        lambda rows: rows.select(
            F.when(F.startswith(text, F.lit("{")), F.get_json_object(text, "$.a")).alias("a"),
            F.to_json(F.struct(F.regexp_extract("text", "(.)", 1).alias("b"))).cast("binary").alias("b"),
            F.hex(F.substring("data", 1, 2)).alias("c"),
        ),
    )
    rows = INTERPRETED_ROWS + 1
    program.run(pa.record_batch([["x"] * rows, [b"{}"] * rows], names=["text", "data"]))
    session = spark.session()
    session.range(2).mapInArrow(_same, "id long").select(F.col("id") + 1).mapInArrow(_same, "id long").collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.rename_columns(["id"])


def main(arguments: Sequence[str]) -> int:
    """Write the archive for the jars that a worker uses; without --strict a failure costs only time at later starts."""
    class_path = driver_jars()
    archive = path_for(class_path)
    why = "Spark's driver did not start, or its JVM wrote none; its log above says why"
    if not archive.exists():
        print("headrace: preparing Spark's classes for fast starts, once", file=sys.stderr)
        try:
            write(class_path)
        except Exception as error:
            why = str(error)
    if archive.exists():
        return 0
    print(f"headrace: no archive of Spark's classes at {archive}: {why}", file=sys.stderr)
    return 1 if STRICT in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
