"""Files as they grow: what waits in memory, what is on the disk, and what broken or foreign files are told to be."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats import parquet
from headrace.plugins.interop.formats.avro import BLOCK_BYTES
from headrace.plugins.interop.formats.format import VALUE, FileWriter, Format
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType
from tests.open_files import open_below

T = SchemaType
POINT = Schema(T.STRUCT, name="Point", fields=(Field("x", Schema(T.INT32)), Field("s", STRING)))
FORMATS = [
    FormatSettings(FileFormat.PARQUET),
    FormatSettings(FileFormat.AVRO, avro_codec="deflate"),
    FormatSettings(FileFormat.JSON),
    FormatSettings(FileFormat.JSON, gzip=True),
    FormatSettings(FileFormat.TEXT),
    FormatSettings(FileFormat.BYTES),
]


def points(rows: int, begin: int = 0) -> pa.Array:
    """Structs as Spark gives them."""
    xs = list(range(begin, begin + rows))
    return pa.StructArray.from_arrays([pa.array(xs, pa.int32()), pa.array([f"text {x}" for x in xs])], ["x", "s"])


def datums(array: pa.Array) -> pa.Array:
    """The same in Avro."""
    made = []
    for row in array.to_pylist():
        text = row["s"].encode()
        body = io.BytesIO()
        fastavro.schemaless_writer(body, "int", row["x"])
        made.append(body.getvalue() + bytes([2 * len(text)]) + text)
    return pa.array(made, pa.binary())


def payload(settings: FormatSettings, rows: int, begin: int = 0) -> pa.Array:
    """Make the array that the format's writer takes."""
    array = points(rows, begin)
    if settings.format is FileFormat.PARQUET:
        return array
    if settings.format is FileFormat.AVRO:
        return datums(array)
    return pa.array([f"{row['x']}\n".encode() for row in array.to_pylist()], pa.binary())


def count(made: Format, local: str) -> int:
    """The values in a file."""
    with pa.OSFile(local) as file:
        schema = made.schema_of(file)
    with pa.OSFile(local) as file:
        return sum(batch.num_rows for batch in made.read(file, schema))


@pytest.mark.parametrize("settings", FORMATS, ids=lambda one: f"{one.format}{'-gz' * one.gzip}")
class TestEachFormat:
    """Tests that hold for all of them."""

    def test_nothing_is_opened_before_there_is_something_to_write(
        self, settings: FormatSettings, tmp_path: Path
    ) -> None:
        made = format_of(settings)
        writers = [made.file(str(tmp_path / f"{n}"), POINT) for n in range(500)]
        for writer in writers:
            writer.write(payload(settings, 3))
        assert os.listdir(tmp_path) == []
        assert open_below(tmp_path) == []
        assert all(0 < writer.buffered_bytes < 1000 for writer in writers)

    def test_what_waits_is_on_the_disk_after_a_flush(self, settings: FormatSettings, tmp_path: Path) -> None:
        made = format_of(settings)
        writer = made.file(str(tmp_path / "file"), POINT)
        for begin in range(0, 300, 100):
            writer.write(payload(settings, 100, begin))
            waiting, expected = writer.buffered_bytes, writer.bytes_written
            writer.flush()
            assert waiting > 0
            assert expected > 0
            assert writer.buffered_bytes == 0
            assert writer.bytes_written <= (tmp_path / "file").stat().st_size
        writer.close()
        assert writer.rows == 300
        assert count(made, writer.local) == 300

    def test_a_file_of_nothing_is_whole(self, settings: FormatSettings, tmp_path: Path) -> None:
        made = format_of(settings)
        writer = made.file(str(tmp_path / "file"), POINT)
        writer.write(pa.nulls(3, payload(settings, 1).type))
        writer.close()
        assert writer.rows == 0
        assert count(made, writer.local) == 0

    def test_a_file_that_is_given_up_keeps_nothing_open(self, settings: FormatSettings, tmp_path: Path) -> None:
        writer = format_of(settings).file(str(tmp_path / "file"), POINT)
        writer.abort()
        writer = format_of(settings).file(str(tmp_path / "file"), POINT)
        writer.write(payload(settings, 100))
        writer.flush()
        writer.abort()
        assert open_below(tmp_path) == []

    def test_a_slice_is_all_that_is_kept_of_a_large_array(self, settings: FormatSettings, tmp_path: Path) -> None:
        whole = payload(settings, 50_000)
        writers = [format_of(settings).file(str(tmp_path / f"{n}"), POINT) for n in range(50)]
        for n, writer in enumerate(writers):
            writer.write(whole[n * 10 : n * 10 + 10])
        before = pa.total_allocated_bytes()
        size = whole.get_total_buffer_size()
        del whole
        assert before - pa.total_allocated_bytes() > 0.9 * size

    def test_a_full_disk_is_told(self, settings: FormatSettings, tmp_path: Path) -> None:
        writer = format_of(settings).file(str(tmp_path / "gone" / "file"), POINT)
        with pytest.raises(OSError, match="gone"):
            _fill(writer, settings)

    def test_a_file_is_given_up_that_a_full_disk_refused(self, settings: FormatSettings, tmp_path: Path) -> None:
        (tmp_path / "full").symlink_to("/dev/full")
        writer = format_of(settings).file(str(tmp_path / "full"), POINT)
        with pytest.raises(OSError, match=r"No space left|exists"):
            _fill(writer, settings)
        writer.abort()


def _fill(writer: FileWriter, settings: FormatSettings) -> None:
    writer.write(payload(settings, 1000))
    writer.close()


def test_row_groups_are_of_a_size_and_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1 << 20)
    made = format_of(FormatSettings(FileFormat.PARQUET))
    writer, most = made.file(str(tmp_path / "file"), POINT), 0
    for begin in range(0, 200_000, 50):
        writer.write(points(50, begin))
        most = max(most, writer.buffered_bytes)
    writer.close()
    assert most < 1.1 * (1 << 20)
    metadata = pq.ParquetFile(writer.local).metadata
    assert metadata.num_rows == 200_000
    sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert 3 <= len(sizes) <= 6
    assert max(sizes[:-1]) < 1.2 * min(sizes[:-1])


def test_values_longer_than_a_block_and_of_no_length(tmp_path: Path) -> None:
    made = format_of(FormatSettings(FileFormat.AVRO, avro_codec="snappy"))
    texts = Schema(T.STRING)
    sizes = [0, 10, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 1, 0]
    values = ["x" * size for size in sizes]
    binary = []
    for value in values:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, "string", value)
        binary.append(body.getvalue())
    writer = made.file(str(tmp_path / "file"), texts)
    writer.write(pa.array(binary[:5], pa.binary()))
    writer.write(pa.array(binary[5:], pa.large_binary()))
    writer.close()
    for skip in range(len(values)):
        with pa.OSFile(writer.local) as file:
            found = [one for batch in made.read(file, texts, skip) for one in batch[VALUE].to_pylist()]
        assert found == values[skip:]


def test_names_tell_format_and_codec() -> None:
    found = {
        format_of(settings).extension
        for settings in (
            FormatSettings(FileFormat.AVRO, avro_codec="snappy"),
            FormatSettings(FileFormat.PARQUET, codec_in_name=True),
            FormatSettings(FileFormat.PARQUET, parquet_codec="gzip", codec_in_name=True),
            FormatSettings(FileFormat.PARQUET, parquet_codec="none", codec_in_name=True),
            FormatSettings(FileFormat.JSON),
            FormatSettings(FileFormat.JSON, gzip=True),
            FormatSettings(FileFormat.TEXT),
            FormatSettings(FileFormat.BYTES, bytes_extension=".x", gzip=True),
        )
    }
    assert found == {".avro", ".snappy.parquet", ".gz.parquet", ".parquet", ".json", ".json.gz", ".txt", ".x.gz"}


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "zstd", "brotli", "none"])
def test_parquet_by_each_codec(tmp_path: Path, codec: str) -> None:
    made = format_of(FormatSettings(FileFormat.PARQUET, parquet_codec=codec))
    writer = made.file(str(tmp_path / "file"), POINT)
    writer.write(points(1000))
    writer.close()
    column = pq.ParquetFile(writer.local).metadata.row_group(0).column(0)
    assert column.compression.lower() == {"none": "uncompressed"}.get(codec, codec)
    assert pq.read_table(writer.local).num_rows == 1000


@pytest.mark.parametrize(
    ("settings", "schema", "why"),
    [
        (FORMATS[0], None, "Parquet holds structs with a schema, but the value has no schema"),
        (FORMATS[0], STRING, "but the value is of type string"),
        (FORMATS[0], Schema(T.STRUCT, fields=(Field("a", Schema(T.STRUCT)),)), "structs without fields"),
        (FORMATS[0], Schema(T.STRUCT, fields=(Field("a-b", STRING),)), "Illegal character in: a-b (let a transform"),
        (FORMATS[1], Schema(T.STRUCT, fields=(Field("a-b", STRING),)), "Illegal character in: a-b (let a transform"),
        (FORMATS[1], Schema(T.BYTES, name=DECIMAL, parameters={"scale": "50"}), "Spark cannot hold"),
        (FORMATS[2], Schema(T.ARRAY), "JSON needs a schema"),
        (FORMATS[5], STRING, "Files of bytes hold bytes only"),
    ],
)
def test_what_a_format_cannot_hold_is_told(settings: FormatSettings, schema: Schema | None, why: str) -> None:
    assert why in (format_of(settings).refusal(schema) or "")


def test_an_optional_struct_is_columns(tmp_path: Path) -> None:
    made = format_of(FORMATS[0])
    schema = Schema(T.STRUCT, optional=True, name="Point", fields=POINT.fields)
    assert made.refusal(schema) is None
    writer = made.file(str(tmp_path / "file"), schema)
    writer.write(pa.concat_arrays([points(2), pa.nulls(1, points(1).type)]))
    writer.close()
    assert pq.read_table(writer.local).num_rows == 2
    with pa.OSFile(writer.local) as file:
        assert made.schema_of(file) == POINT


def test_parquet_of_another_program(tmp_path: Path) -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "n": pa.array([1], pa.uint32()),
            "at": pa.array([at], pa.timestamp("us")),
            "t": pa.array([5], pa.time32("ms")),
            "d": pa.array([dt.date(2026, 1, 2)]),
            "p": pa.array([Decimal("1.5")], pa.decimal128(5, 2)),
            "s": pa.array([{"a": [1]}]),
            "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        }
    )
    pq.write_table(table, tmp_path / "file")
    made = format_of(FORMATS[0])
    with pa.OSFile(str(tmp_path / "file")) as file:
        schema = made.schema_of(file)
        assert schema is not None
        names = [(field.schema.name or str(field.schema.type)).rpartition(".")[2] for field in schema.fields]
        assert names == ["int64", "Timestamp", "Time", "Date", "Decimal", "struct", "map"]
        (value,) = next(iter(made.read(file, schema)))[VALUE].to_pylist()
    assert value["at"] == at.replace(tzinfo=dt.UTC)
    assert (value["n"], value["t"], value["p"], value["s"]) == (1, 5, Decimal("1.50"), {"a": [1]})


def test_avro_of_another_program(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "u", "type": ["null", "long"]},
            {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}},
            {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "r", "type": ["null", {"type": "map", "values": "E"}]},
        ],
    }
    row: dict[str, Any] = {"e": "A", "f": b"ab", "u": 2**40, "p": Decimal("-1.234"), "us": 1_000_000, "r": {"k": "A"}}
    with open(tmp_path / "file", "wb") as out:
        fastavro.writer(out, schema, [row] * 10_000, codec="xz")
    made = format_of(FORMATS[1])
    with pa.OSFile(str(tmp_path / "file")) as file:
        found = made.schema_of(file)
    with pa.OSFile(str(tmp_path / "file")) as file:
        batches = list(made.read(file, found, 5))
    assert sum(batch.num_rows for batch in batches) == 9_995
    assert batches[0][VALUE][0].as_py() == {**row, "r": [("k", "A")]}


@pytest.mark.parametrize("settings", FORMATS[:2], ids=lambda one: str(one.format))
def test_broken_files_are_told(settings: FormatSettings, tmp_path: Path) -> None:
    made, path = format_of(settings), tmp_path / "file"
    writer = made.file(str(path), POINT)
    writer.write(payload(settings, 20_000))
    writer.close()
    data = path.read_bytes()
    for broken in (b"", b"hello world", data[:-20], data[: len(data) // 2]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"Parquet|Avro"):
            count(made, str(path))
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes(len(data[middle:-3000])) + data[-3000:])
    with pytest.raises(DataError, match=r"Parquet|Avro"):
        count(made, str(path))


def test_an_avro_block_of_less_than_no_rows_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as out:
        fastavro.writer(out, "long", [])
    empty = path.read_bytes()
    with path.open("wb") as out:
        fastavro.writer(out, "long", [1, 2], sync_marker=empty[-16:])
    path.write_bytes(empty + b"\x03\x00" + empty[-16:] + path.read_bytes()[len(empty) :])  # -2 rows, then 2
    with pytest.raises(DataError, match="less than no rows"):
        count(format_of(FORMATS[1]), str(path))


def test_lines_of_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    lines = [b'{"a": 1}', b"", b" 2 ", b'"\xff"']
    for data in (
        b"\r\n".join(lines),
        gzip.compress(b"\n".join(lines[:2])) + gzip.compress(b"\n" + b"\n".join(lines[2:])),
    ):
        path.write_bytes(data)
        for made, expected in (
            (format_of(FORMATS[2]), [{"a": 1}, 2, "\ufffd"]),
            (format_of(FORMATS[4]), ['{"a": 1}', "", " 2 ", '"\ufffd"']),
        ):
            with pa.OSFile(str(path)) as file:
                found = [one for batch in made.read(file, None) for one in batch[VALUE].to_pylist()]
            assert [json.loads(one) for one in found] == expected if made.extension == ".json" else found == expected


def test_a_broken_gzip_stream_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(os.urandom(10_000))[:5_000])
    with pytest.raises(DataError, match="gzip"), pa.OSFile(str(path)) as file:
        list(format_of(FORMATS[2]).read(file, None))


def test_a_column_of_dates_and_times_that_spark_reads() -> None:
    fields = [(DATE, T.INT32), (TIME, T.INT32), (TIMESTAMP, T.INT64)]
    schema = Schema(
        T.STRUCT, fields=tuple(Field(f"f{n}", Schema(kind, name=name)) for n, (name, kind) in enumerate(fields))
    )
    from headrace.plugins.interop.formats.parquet_types import parquet_fields

    assert [str(one.type) for one in parquet_fields(schema)] == ["date32[day]", "int32", "timestamp[ms, tz=UTC]"]
