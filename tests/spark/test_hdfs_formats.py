"""Formats of files against what others read of them: every Connect type, made by Spark's expressions."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.connectors.hdfs.beside import read_headers
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.connectors.hdfs.sink.side_files import SideFiles, SideFormat
from headrace.plugins.arrow_types import arrow_type_of_schema
from headrace.plugins.errors import DataError
from headrace.plugins.interop.avro.tree import UNION, AvroOptions
from headrace.plugins.interop.formats.avro import AvroFormat
from headrace.plugins.interop.formats.avro_schema import file_schema, required
from headrace.plugins.interop.formats.format import VALUE, Format
from headrace.plugins.interop.formats.lines import BytesFormat, JsonFormat, TextFormat
from headrace.plugins.interop.formats.parquet import ParquetFormat
from headrace.plugins.records import source_records
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType, spark_type
from tests.spark.avro_values import Generator, T, datum, in_order, spelled

pytestmark = pytest.mark.spark

OPTIONS = AvroOptions(enhanced=True, default_precision=38)


def payloads(
    spark: SparkSession, made: Format, schema: Schema | None, values: Sequence[Any]
) -> tuple[pa.Array, list[str | None]]:
    """Return what the format's expressions make of the values, and the errors."""
    frame = spark.createDataFrame(
        [(value,) for value in values], StructType([StructField("v", spark_type(schema))])
    ).coalesce(1)
    error = made.error(F.col("v"), schema)
    errors = F.lit(None).cast("string") if error is None else error
    table = frame.select(made.payload(F.col("v"), schema).alias("payload"), errors.alias("error")).toArrow()
    return table["payload"].combine_chunks(), table["error"].to_pylist()


def written(path: Path, made: Format, schema: Schema | None, payload: pa.Array) -> str:
    """A file of the payload, in several writes."""
    local = str(path / f"f{made.extension}")
    writer = made.file(local, schema)
    for begin in range(0, len(payload), 7):
        writer.write(payload.slice(begin, 7))
    writer.close()
    return local


def read(made: Format, local: str, skip: int = 0) -> tuple[Schema | None, list[Any]]:
    """The schema and the values as the format's reader gives them."""
    with pa.OSFile(local) as file:
        schema = made.schema_of(file)
    with pa.OSFile(local) as file:
        batches = list(made.read(file, schema, skip))
    for batch in batches:
        assert batch.schema == pa.schema([pa.field(VALUE, arrow_type_of_schema(schema))])
        batch.validate(full=True)
    return schema, [value for batch in batches for value in batch[VALUE].to_pylist()]


def structs(seed: int, rows: int = 20) -> tuple[Schema, list[Any]]:
    """A struct with all that a generator makes, and values of it."""
    made = Generator(seed)
    while True:
        schema = made.schema()
        if schema.type is T.STRUCT and schema.name != UNION and not empty(schema):
            return schema, [made.value(schema) for _ in range(rows)]


def empty(schema: Schema) -> bool:
    """True if there is a struct without fields."""
    inner = [schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields)]
    return (schema.type is T.STRUCT and not schema.fields) or any(empty(one) for one in inner if one)


SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_parquet_holds_all_that_connect_has(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    made = ParquetFormat(OPTIONS)
    schema, values = structs(seed)
    assert made.refusal(schema) is None
    payload, errors = payloads(spark, made, schema, values)
    assert errors == [None] * len(values)
    local = written(tmp_path, made, schema, payload)
    some = [spelled(schema, value) for value in values if value is not None]
    found, back = read(made, local)
    assert found is not None
    assert spark_type(found) == spark_type(schema)
    assert file_schema(found, OPTIONS).text == file_schema(required(schema), OPTIONS).text
    assert [spelled(schema, value) for value in back] == some
    assert [spelled(schema, value) for value in read(made, local, skip=5)[1]] == some[5:]
    assert [spelled(schema, row) for row in spark.read.parquet(local).collect()] == some
    by_pyarrow = pq.read_table(local)
    assert by_pyarrow.schema.field(0).nullable == schema.fields[0].schema.optional
    assert [spelled(schema, row) for row in by_pyarrow.to_pylist()] == some


def container(local: str) -> tuple[Any, list[Any]]:
    """The schema and the values of an Avro file as fastavro reads them, without logical types."""
    data = Path(local).read_bytes()
    reader = fastavro.reader(io.BytesIO(data.replace(b'"logicalType"', b'"logicalKind"')))  # as long as it was
    return json.loads(reader.metadata["avro.schema"].replace("logicalKind", "logicalType")), list(reader)


@pytest.mark.parametrize("seed", range(8))
def test_avro_holds_all_that_connect_has(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    made = AvroFormat(OPTIONS)
    generator = Generator(seed + 100)
    schema = generator.schema()
    values = [generator.value(schema) for _ in range(30)]
    payload, errors = payloads(spark, made, schema, values)
    assert errors == [None] * len(values)
    local = written(tmp_path, made, schema, payload)
    some = [value for value in values if value is not None]
    text, back = container(local)
    assert text == json.loads(file_schema(schema, OPTIONS).text)
    assert [in_order(one) for one in back] == [in_order(datum(schema, value)) for value in some]
    if has_union(schema):
        with pytest.raises(DataError, match="unions"):
            read(made, local)
        return
    found, ours = read(made, local)
    assert found is not None
    assert file_schema(found, OPTIONS).text == file_schema(schema, OPTIONS).text
    expected = [spelled(schema, value) for value in some]
    assert [spelled(schema, value) for value in ours] == expected
    assert [spelled(schema, value) for value in read(made, local, skip=11)[1]] == expected[11:]


def has_union(schema: Schema) -> bool:
    """True if a struct in it stands for a union."""
    inner = [schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields)]
    return schema.name == UNION or any(has_union(one) for one in inner if one)


ALL = Schema(
    T.STRUCT,
    name="a.b.All",
    version=3,
    doc="All types",
    parameters={"p": "q"},
    fields=(
        *(Field(f"f_{kind}", Schema(kind)) for kind in (T.INT8, T.INT16, T.INT32, T.INT64, T.FLOAT32, T.FLOAT64)),
        Field("yes", Schema(T.BOOLEAN, default=True)),
        Field("text", Schema(T.STRING, optional=True)),
        Field("given", Schema(T.STRING, default="here")),
        Field("data", Schema(T.BYTES)),
        Field("price", Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
        Field("day", Schema(T.INT32, optional=True, name=DATE, version=1)),
        Field("time", Schema(T.INT32, name=TIME, version=1)),
        Field("at", Schema(T.INT64, name=TIMESTAMP, version=1)),
        Field("list", Schema(T.ARRAY, value_schema=Schema(T.INT64, optional=True))),
        Field("map", Schema(T.MAP, key_schema=STRING, value_schema=Schema(T.FLOAT64))),
        Field("numbers", Schema(T.MAP, True, key_schema=Schema(T.INT32), value_schema=STRING)),
        Field("inner", Schema(T.STRUCT, True, fields=(Field("x", Schema(T.INT32)), Field("y", STRING)))),
    ),
)
AT = dt.datetime(2026, 9, 21, 14, 5, 6, 789000, tzinfo=dt.UTC)
ROW = (
    *(1, -2, 3, -(2**40), 0.5, 1e100),
    *(None, "é", None, b"\x00\xff", Decimal("-12.50"), dt.date(2026, 9, 21), 86_399_999, AT),
    *([1, None], {"a": 0.25}, {7: "seven"}, (1, "z")),
)
FULL = (*ROW[:6], True, ROW[7], "here", *ROW[9:])
SPARSE = (*FULL[:7], None, "there", *FULL[9:11], None, 0, AT, [], {}, None, None)


@pytest.mark.parametrize(
    "codec",
    ["null", "snappy", *(pytest.param(codec, marks=pytest.mark.long) for codec in ("deflate", "bzip2", "zstandard"))],
)
def test_avro_blocks_by_each_codec(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    made = AvroFormat(OPTIONS, codec)
    payload, errors = payloads(spark, made, ALL, [ROW, None, SPARSE])
    assert errors == [None] * 3
    whole = pa.concat_arrays([payload] * 3000)
    writer = made.file(str(tmp_path / "f.avro"), ALL)
    for begin in range(0, len(whole), 1000):
        writer.write(whole[begin : begin + 1000])
    waiting = writer.buffered_bytes
    writer.flush()
    assert waiting > 0
    assert writer.buffered_bytes == 0
    writer.close()
    assert writer.rows == 6000
    assert writer.bytes_written == (tmp_path / "f.avro").stat().st_size
    schema, back = read(made, writer.local)
    assert schema == ALL
    assert back == [spelled_out(FULL), spelled_out(SPARSE)] * 3000
    assert len(read(made, writer.local, skip=5999)[1]) == 1
    if codec in ("null", "deflate", "bzip2", "snappy"):
        rows = spark.read.format("avro").load(writer.local).select("f_int64", "text", "day", "at", "map").collect()
        assert len(rows) == 6000
        assert tuple(rows[0])[:3] == (-(2**40), "é", dt.date(2026, 9, 21))
    if codec in ("null", "deflate", "bzip2"):
        assert len(container(writer.local)[1]) == 6000


def spelled_out(row: Sequence[Any]) -> dict[str, Any]:
    """The row as Arrow gives it."""
    made = {field.name: value for field, value in zip(ALL.fields, row, strict=True)}
    for name in ("map", "numbers"):
        made[name] = None if made[name] is None else list(made[name].items())
    made["inner"] = None if made["inner"] is None else dict(zip("xy", made["inner"], strict=True))
    return made


@pytest.mark.long
def test_a_null_where_none_may_be_is_an_error_of_its_record(spark: SparkSession, tmp_path: Path) -> None:
    bad = (None, *FULL[1:])
    for made in (ParquetFormat(OPTIONS), AvroFormat(OPTIONS), JsonFormat()):
        payload, errors = payloads(spark, made, ALL, [FULL, bad, None])
        assert [error is None for error in errors] == [True, False, True]
        assert payload.is_valid().to_pylist() == [True, False, False]


def test_parquet_of_all_types_as_others_read_it(spark: SparkSession, tmp_path: Path) -> None:
    made = ParquetFormat(OPTIONS, "zstd", codec_in_name=True)
    payload, _ = payloads(spark, made, ALL, [ROW, None, SPARSE])
    local = written(tmp_path, made, ALL, payload)
    assert local.endswith(".zstd.parquet")
    assert read(made, local) == (ALL, [spelled_out(FULL), spelled_out(SPARSE)])
    table = pq.read_table(local)
    assert str(table.schema.field("price").type) == "decimal128(38, 2)"
    assert str(table.schema.field("day").type) == "date32[day]"
    assert str(table.schema.field("at").type) == "timestamp[ms, tz=UTC]"
    assert str(table.schema.field("list").type) == "list<element: int64>"
    assert not table.schema.field("f_int8").nullable
    row = spark.read.parquet(local).collect()[0]
    assert row.price == Decimal("-12.50")
    assert row.numbers == {7: "seven"}


def test_schemaless_values(spark: SparkSession, tmp_path: Path) -> None:
    texts = ['{"a":[1,2.5,"x"],"b":{"c":null}}', '"text"', "12", "true", None, "[]"]
    avro, json_lines = AvroFormat(OPTIONS), JsonFormat()
    payload, _ = payloads(spark, avro, None, texts)
    local = written(tmp_path, avro, None, payload)
    assert read(avro, local) == (None, [text for text in texts if text is not None])
    payload, _ = payloads(spark, json_lines, None, [*texts, '{\n "a":\r\n 1}'])
    local = written(tmp_path, json_lines, None, payload)
    assert Path(local).read_text().splitlines() == [*(t for t in texts if t is not None), '{  "a":   1}']
    assert ParquetFormat(OPTIONS).refusal(None)


@pytest.mark.parametrize("level", [None, 9])
def test_lines_of_json_and_text(spark: SparkSession, tmp_path: Path, level: int | None) -> None:
    schema = Schema(T.STRUCT, fields=(Field("n", Schema(T.INT64)), Field("d", ALL.fields[10].schema)))
    values = [(n, Decimal(n).scaleb(-2)) for n in range(20_000)]
    for made, first, last in (
        (JsonFormat(True, level), '{"n":0,"d":0.00}', '{"n":19999,"d":199.99}'),
        (JsonFormat(False, level), '{"n":0,"d":"AA=="}', '{"n":19999,"d":"Th8="}'),
        (TextFormat(level), "Struct{n=0,d=0.00}", "Struct{n=19999,d=199.99}"),
    ):
        payload, _ = payloads(spark, made, schema, values)
        local = written(tmp_path, made, schema, payload)
        data = Path(local).read_bytes() if level is None else gzip.decompress(Path(local).read_bytes())
        lines = data.decode().split("\n")
        assert (len(lines), lines[0], lines[-2], lines[-1]) == (20_001, first, last, "")
        assert read(made, local, skip=1)[1] == lines[1:-1]
        Path(local).unlink()


def test_bytes_with_a_separator(spark: SparkSession, tmp_path: Path) -> None:
    made = BytesFormat(".dat", b"||", 1)
    schema = Schema(T.BYTES)
    payload, _ = payloads(spark, made, schema, [b"a", b"\xff\n", b""])
    local = written(tmp_path, made, schema, payload)
    assert local.endswith(".dat.gz")
    assert gzip.decompress(Path(local).read_bytes()) == b"a||\xff\n||||"
    assert read(made, local)[1] == [b"a", b"\xff\n", b""]
    assert made.refusal(STRING)


@pytest.mark.parametrize("kind", [FileFormat.AVRO, FileFormat.JSON, FileFormat.PARQUET])
def test_keys_and_headers_that_no_file_beside_can_hold(spark: SparkSession, kind: FileFormat) -> None:
    rows = [("k", [("h", b"t")]), ("k", []), (None, None), ("k", [("h", b"\xff")])]
    frame = spark.createDataFrame(rows, "k string, h array<struct<key: string, value: binary>>")
    offsets = frame.select("*", F.lit(None).alias("source_offset"), F.lit(0).alias("split"))
    key, text = F.col("k"), Schema(SchemaType.STRING)
    made = source_records(offsets, F.lit("t"), F.lit("v"), text, key=key, key_schema=text, headers=F.col("h"))
    as_this = SideFormat.of(FormatSettings(kind))
    beside = SideFiles(as_this, as_this)
    found = made.frame.select(F.coalesce(*beside.errors(made)).alias("why"), *beside.columns(made)).collect()
    whys = [row.why and row.why.split(",")[0] for row in found]
    assert whys == [None, None, "The record has no key", "The value of a header is not UTF-8 text"]
    assert [row.key_layout for row in found] == [0, 0, None, 0]
    assert all(row.key_0 is not None and row.headers is not None for row in found[:2])


def test_a_broken_line_of_headers_has_none(spark: SparkSession) -> None:
    lines = [('{"headers":[{"key":"h","value":"t"}]}',), ('{"headers":[]}',), ("{broken",), ('{"other":1}',)]
    found = spark.createDataFrame(lines, "line string").select(read_headers(FileFormat.JSON, F.col("line")).alias("h"))
    assert [row.h and [(one.key, bytes(one.value)) for one in row.h] for row in found.collect()] == [
        [("h", b"t")], [], None, None,
    ]  # fmt: skip
