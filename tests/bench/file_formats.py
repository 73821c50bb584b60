"""`python -m tests.bench.file_formats [ROWS]`: rates of the formats of files on one core, beside pyarrow's and Spark's.

Rows of eight fields: numbers, texts, a decimal, a timestamp, a list. The best of three.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.plugins.interop.formats.format import Format
from headrace.plugins.schema import DECIMAL, STRING, TIMESTAMP, Field, Schema, SchemaType, spark_type
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_jars import driver_jars

T = SchemaType
ROW = Schema(
    T.STRUCT,
    name="Row",
    fields=(
        Field("id", Schema(T.INT64)),
        Field("user", STRING),
        Field("amount", Schema(T.FLOAT64, optional=True)),
        Field("price", Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
        Field("at", Schema(T.INT64, name=TIMESTAMP, version=1)),
        Field("tags", Schema(T.ARRAY, value_schema=STRING)),
        Field("ok", Schema(T.BOOLEAN)),
        Field("note", Schema(T.STRING, optional=True)),
    ),
)
FORMATS = [
    FormatSettings(FileFormat.PARQUET),
    FormatSettings(FileFormat.PARQUET, parquet_codec="zstd"),
    *(FormatSettings(FileFormat.AVRO, avro_codec=codec) for codec in ("null", "snappy", "deflate", "zstandard")),
    FormatSettings(FileFormat.JSON),
    FormatSettings(FileFormat.JSON, gzip=True),
    FormatSettings(FileFormat.TEXT),
]


def rows(session: SparkSession, count: int, folder: str) -> DataFrame:
    """The rows, kept as Parquet."""
    number = F.col("id")
    value = F.struct(
        number,
        F.concat(F.lit("user-"), (number % 5000).cast("string")),
        number * 1.5,
        (number / 100).cast("decimal(38,2)"),
        F.timestamp_millis(number + 1_700_000_000_000),
        F.array(F.lit("a"), F.concat(F.lit("t"), (number % 7).cast("string"))),
        number % 2 == 0,
        F.concat(F.lit("a note of some length for "), number.cast("string")),
    )
    session.range(count).select(value.cast(spark_type(ROW)).alias("v")).write.parquet(folder)
    return session.read.parquet(folder)


class Table:
    """Prints the rates."""

    def __init__(self, count: int) -> None:
        self._count = count

    def line(self, name: str, run: Callable[[], object], file: str | None = None) -> None:
        """The rate of `run`, in rows and in bytes of the file that it writes."""
        best = min(_seconds(run) for _ in range(3))
        size = (
            "" if file is None else f"{os.path.getsize(file) / best / 1e6:8.0f} MB/s {os.path.getsize(file):>12,} bytes"
        )
        print(f"{name:40} {self._count / best / 1e3:8.0f} krows/s {size}", flush=True)


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def write(made: Format, payload: pa.ChunkedArray, local: str) -> None:
    """A file of these values."""
    Path(local).unlink(missing_ok=True)
    writer = made.file(local, ROW)
    for chunk in payload.chunks:
        writer.write(chunk)
    writer.close()


def read(made: Format, local: str) -> int:
    """Read all values of a file; return their number."""
    with pa.OSFile(local) as file:
        schema = made.schema_of(file)
        return sum(batch.num_rows for batch in made.read(file, schema))


def noop(frame: DataFrame) -> None:
    """Evaluates all of it."""
    frame.write.format("noop").mode("overwrite").save()


def of_format(table: Table, frame: DataFrame, settings: FormatSettings, folder: str) -> None:
    """Expressions, writer and reader of one format."""
    made, local = format_of(settings), f"{folder}/file"
    codec = {FileFormat.PARQUET: settings.parquet_codec, FileFormat.AVRO: settings.avro_codec}.get(settings.format)
    name = f"{settings.format} {codec or ('gzip' if settings.gzip else '')}"
    chosen = frame.select(made.payload(F.col("v"), ROW).alias("p"))
    payload = chosen.toArrow()["p"]
    table.line(f"{name}: expressions, in Spark", lambda: noop(chosen))
    table.line(f"{name}: written from Arrow", lambda: write(made, payload, local), local)
    if settings.format is FileFormat.PARQUET:
        plain, beside = pa.Table.from_struct_array(payload), f"{local}-beside"
        table.line(f"{name}: by pyarrow alone", lambda: pq.write_table(plain, beside, compression=codec), beside)
    table.line(f"{name}: read to Arrow", lambda: read(made, local))


def by_spark(table: Table, frame: DataFrame, folder: str) -> None:
    """Measure what Spark needs from its own rows to its own files."""
    flat = frame.select("v.*")
    table.line("Spark: read only", lambda: noop(frame))
    for kind, codec in (("parquet", "snappy"), ("avro", "snappy"), ("avro", "uncompressed"), ("json", "none")):
        writer, to = flat.write.mode("overwrite").format(kind).option("compression", codec), f"{folder}/{kind}"
        table.line(f"Spark: {kind} {codec}, reading included", partial(writer.save, to))


def main(count: int) -> None:
    """Prints all."""
    spark = Spark({"spark.master": "local[1]"}, driver_jars())
    spark.start()
    assert spark.wait_ready(120), "Spark did not start; the log says why"
    with tempfile.TemporaryDirectory() as folder:
        frame, table = rows(spark.session(), count, f"{folder}/rows"), Table(count)
        for settings in FORMATS:
            of_format(table, frame, settings, folder)
        by_spark(table, frame, folder)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
