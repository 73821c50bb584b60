"""The file connectors on Spark, and their texts against those of the JVM."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from headrace.connectors.file import FileStreamSinkConnector, FileStreamSourceConnector
from headrace.connectors.file.lines import repair
from headrace.plugins.contracts import Connector
from headrace.plugins.java_text import java_text
from headrace.plugins.records import ERROR, Records
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Field, Schema, SchemaType, spark_type
from headrace.plugins.testkit import HOSTILE, SinkOnSparkContract, SinkRig, SourceOnSparkContract, SourceRig

pytestmark = pytest.mark.spark


class SourceFile(SourceRig):
    def __init__(self, path: Path) -> None:
        self.path = path

    def connector(self) -> Connector:
        return FileStreamSourceConnector()

    def config(self) -> dict[str, str]:
        return {"topic": "t'\"$", "file": str(self.path)}

    def put(self, values: Sequence[str]) -> None:
        with self.path.open("ab") as file:
            file.write("".join(f"{value}\n" for value in values).encode())


class SinkFile(SinkRig):
    def __init__(self, path: Path) -> None:
        self.path = path

    def connector(self) -> Connector:
        return FileStreamSinkConnector()

    def config(self) -> dict[str, str]:
        return {"file": str(self.path)}

    def rows(self, values: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, pa.string())], names=["line"])

    def contents(self) -> list[str]:
        return self.path.read_bytes().decode().split("\n")[:-1]


class TestFileSourceOnSpark(SourceOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> SourceRig:
        return SourceFile(tmp_path / "in.txt")


class TestFileSinkOnSpark(SinkOnSparkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> SinkRig:
        return SinkFile(tmp_path / "out.txt")

    @pytest.fixture
    def records(self, spark: SparkSession) -> Records:
        return records_of(spark, [(0, value) for value in HOSTILE], [STRING])


def records_of(spark: SparkSession, rows: list[tuple[int | None, Any]], schemas: list[Schema | None]) -> Records:
    """Records whose value stands in the column of the schema that each row names."""
    frames = spark.createDataFrame(
        [(n, i, *(v if i == at else None for at in range(len(schemas)))) for n, (i, v) in enumerate(rows)],
        ", ".join(
            [
                "n int, value_schema int",
                *(f"value_{at} {spark_type(schema).simpleString()}" for at, schema in enumerate(schemas)),
            ]
        ),
    )
    frame = frames.repartition(1).sort("n").withColumns({"error": F.lit(None).cast(ERROR), "drop": F.lit(False)})
    return Records(frame, keys=(), values=tuple(schemas))


def texts(spark: SparkSession, schema: Schema | None, *values: Any) -> list[str]:
    """Return the `java_text` of these values."""
    kind: DataType = StringType() if schema is None else spark_type(schema)
    rows = [Row(n=n, v=value) for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, f"n int, v {kind.simpleString()}").sort("n")
    return [row[0] for row in frame.select(java_text(F.col("v"), schema)).collect()]


def of(type_: SchemaType, **more: Any) -> Schema:
    return Schema(type_, optional=True, **more)


DOUBLES = [0.0, -0.0, 1.0, 0.001, 0.00099, 1e7, 9999999.999, 1e10, 1e-5, 123.456, 5e-324, 1.7976931348623157e308]


def test_doubles_and_floats_are_those_of_java(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    generator = random.Random(3)
    doubles = DOUBLES + [generator.uniform(-1, 1) * 10 ** generator.randint(-20, 20) for _ in range(200)]
    assert texts(spark, of(SchemaType.FLOAT64), *doubles) == [jvm.java.lang.String.valueOf(d) for d in doubles]
    floats = [0.0, 1.0, 0.1, 3.4028234663852886e38, 1.401298464324817e-45, 16777216.0, 0.001, 123456.79]
    expected = [jvm.java.lang.Float.toString(jvm.java.lang.Float.parseFloat(repr(f))) for f in floats]
    assert texts(spark, of(SchemaType.FLOAT32), *floats) == expected
    assert texts(spark, of(SchemaType.FLOAT64), float("nan"), float("inf"), float("-inf"), None) == [
        "NaN",
        "Infinity",
        "-Infinity",
        "null",
    ]


def test_primitives(spark: SparkSession) -> None:
    assert texts(spark, of(SchemaType.BOOLEAN), True, False, None) == ["true", "false", "null"]
    assert texts(spark, of(SchemaType.INT8), -128, 127) == ["-128", "127"]
    assert texts(spark, of(SchemaType.INT64), -(2**63), 2**63 - 1) == [str(-(2**63)), str(2**63 - 1)]
    assert texts(spark, of(SchemaType.STRING), "", "a b", "null", None) == ["", "a b", "null", "null"]
    assert texts(spark, of(SchemaType.BYTES), b"\x00\xff", b"", None) == ["AP8=", "", "null"]


def test_long_bytes_stay_on_one_line(spark: SparkSession) -> None:
    (text,) = texts(spark, of(SchemaType.BYTES), b"x" * 300)
    assert text == "eHh4" * 100


def test_structs_maps_and_arrays_nest(spark: SparkSession) -> None:
    numbers = of(SchemaType.ARRAY, value_schema=of(SchemaType.INT32))
    ages = of(SchemaType.MAP, key_schema=STRING, value_schema=of(SchemaType.FLOAT64))
    inner = of(SchemaType.STRUCT, fields=(Field("a", of(SchemaType.INT32)), Field("b c", OPTIONAL_STRING)))
    outer = of(
        SchemaType.STRUCT,
        fields=(Field("x", OPTIONAL_STRING), Field("in", inner), Field("n", numbers), Field("m", ages)),
    )
    assert texts(spark, numbers, [1, None, 3], [], None) == ["[1, null, 3]", "[]", "null"]
    assert texts(spark, ages, {"a": 1.0, "b": None}, {}, None) == ["{a=1.0, b=null}", "{}", "null"]
    frame = spark.range(1).select(
        F.struct(
            F.lit(None).cast("string").alias("x"),
            F.struct(F.lit(1).alias("a"), F.lit("z").alias("b c")).alias("in"),
            F.array(F.lit(1), F.lit(2)).alias("n"),
            F.create_map(F.lit("k"), F.lit(1e10)).alias("m"),
        ).alias("v")
    )
    assert frame.select(java_text(F.col("v"), outer)).first()[0] == (  # type: ignore[index]
        "Struct{in=Struct{a=1,b c=z},n=[1, 2],m={k=1.0E10}}"
    )
    nothing = F.when(F.lit(False), F.col("v"))
    assert frame.select(java_text(nothing, outer)).first()[0] == "null"  # type: ignore[index]
    one = of(SchemaType.STRUCT, fields=(Field("v", outer),))
    assert frame.select(java_text(F.struct(nothing.alias("v")), one)).first()[0] == "Struct{}"  # type: ignore[index]


def test_schemaless_values_by_their_json_type(spark: SparkSession) -> None:
    given = ['"a\\"b\\u00fc\\n"', '""', " 12 ", "-1.50", "1e10", "true", "null", None, '{"a": [1]}', "[1, 2]", "1E999"]
    expected = ['a"bü\n', "", "12", "-1.5", "1.0E10", "true", "null", "null", '{"a": [1]}', "[1, 2]", "Infinity"]
    assert texts(spark, None, *given) == expected


def test_each_row_is_printed_by_its_own_schema(spark: SparkSession, tmp_path: Path) -> None:
    task = FileStreamSinkConnector.task()
    rows: list[tuple[int | None, Any]] = [(0, "a"), (1, 7), (None, None), (2, '"x"'), (1, None)]
    records = records_of(spark, rows, [STRING, of(SchemaType.INT32), None])
    lines = [row["line"] for row in records.frame.select(*task.columns(records)).collect()]  # type: ignore[union-attr]
    assert lines == ["a", "7", "null", "x", "null"]


def test_malformed_bytes_are_replaced_as_javas_decoder_does(spark: SparkSession) -> None:
    utf8 = spark.sparkContext._jvm.java.nio.charset.StandardCharsets.UTF_8  # type: ignore[union-attr]
    generator = random.Random(8)
    critical = bytes([0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE2, 0xED, 0xEF])
    critical += bytes([0xF0, 0xF1, 0xF4, 0xF5, 0xF8, 0xFC, 0xFF])
    for _ in range(400):
        data = bytes(generator.choices(critical, k=12))
        java = utf8.decode(spark.sparkContext._jvm.java.nio.ByteBuffer.wrap(bytearray(data))).toString()  # type: ignore[union-attr]
        assert repair(data).decode() == java, data.hex(" ")
