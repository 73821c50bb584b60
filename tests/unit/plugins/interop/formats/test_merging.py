"""Small files merged to one: the same values in the same order, in files as large ones are, in bounded memory."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.plugins.errors import DataError
from headrace.plugins.interop.formats import parquet
from headrace.plugins.interop.formats.avro import BLOCK_BYTES
from headrace.plugins.interop.formats.format import VALUE, Format
from headrace.plugins.interop.formats.lines import BytesFormat
from headrace.plugins.interop.formats.parquet_types import parquet_fields
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIME, TIMESTAMP, Field, Schema, SchemaType
from tests.open_files import open_below
from tests.unit.plugins.interop.formats.schemas import structs
from tests.unit.plugins.interop.formats.test_files import FORMATS, POINT, payload

T = SchemaType
PARQUET, AVRO = FormatSettings(FileFormat.PARQUET), FormatSettings(FileFormat.AVRO)


def written(settings: FormatSettings, folder: Path, counts: list[int], schema: Schema = POINT) -> list[str]:
    """Files of so many rows, numbered over all of them."""
    made, begin = [], 0
    for count in counts:
        writer = format_of(settings).file(str(folder / f"{begin}-{count}"), schema)
        writer.write(payload(settings, count, begin))
        writer.close()
        made.append(writer.local)
        begin += count
    return made


def opened(files: list[str]) -> Iterator[pa.NativeFile]:
    for one in files:
        with pa.OSFile(one) as file:
            yield file


def layouts(form: Format, files: list[str]) -> set[Any]:
    return {form.layout(file) for file in opened(files)}


def values(form: Format, local: str) -> list[Any]:
    with pa.OSFile(local) as file:
        schema = form.schema_of(file)
    with pa.OSFile(local) as file:
        return [value for batch in form.read(file, schema) for value in batch[VALUE].to_pylist()]


@pytest.mark.parametrize("settings", FORMATS, ids=lambda one: f"{one.format}{'-gz' * one.gzip}")
def test_values_keep_their_order(settings: FormatSettings, tmp_path: Path) -> None:
    form, small = format_of(settings), written(settings, tmp_path, [3, 1, 500])
    (layout,) = layouts(form, small)
    assert layout is not None
    form.merge(opened(small), str(tmp_path / "merged"))
    (whole,) = written(settings, tmp_path, [504])
    assert values(form, str(tmp_path / "merged")) == values(form, whole)
    assert layouts(form, [str(tmp_path / "merged"), *small]) == {layout}, "so that it can be merged again"


def test_files_that_do_not_end_with_todays_separator_are_not_glued(tmp_path: Path) -> None:
    def kind(data: bytes, form: Format) -> Any:
        (tmp_path / "file").write_bytes(data)
        return next(iter(layouts(form, [str(tmp_path / "file")])))

    lines, now = format_of(FormatSettings(FileFormat.TEXT)), BytesFormat(separator=b"||")
    assert kind(b"1\n2\n", lines) == kind(b"\n", lines) is not None
    assert kind(b"1\n2", lines) is None
    assert kind(b"1||2||", now) is not None
    for old in (b"1\n2\n", b"1|2|", b"|", b""):
        assert kind(old, now) is None


def test_gzip_streams_in_a_row_are_read_by_others(tmp_path: Path) -> None:
    settings = FormatSettings(FileFormat.TEXT, gzip=True)
    form, small = format_of(settings), written(settings, tmp_path, [2, 2])
    form.merge(opened(small), str(tmp_path / "merged"))
    assert gzip.decompress((tmp_path / "merged").read_bytes()) == b"0\n1\n2\n3\n"


def test_small_row_groups_become_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, small = format_of(PARQUET), written(PARQUET, tmp_path, [100] * 20)
    form.merge(opened(small), str(tmp_path / "merged"))
    assert pq.ParquetFile(tmp_path / "merged").num_row_groups == 1
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 10_000)
    form.merge(opened(small), str(tmp_path / "bounded"))
    found = pq.ParquetFile(tmp_path / "bounded")
    assert 2 < found.num_row_groups < 10, "memory is bounded"
    assert found.read()["x"].to_pylist() == list(range(2000))


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_small_blocks_become_large_ones_of_todays_codec(codec: str, tmp_path: Path) -> None:
    form = format_of(FormatSettings(FileFormat.AVRO, avro_codec=codec))
    small = written(AVRO, tmp_path, [100] * 100)
    form.merge(opened(small), str(tmp_path / "merged"))
    with open(tmp_path / "merged", "rb") as file:
        found = fastavro.block_reader(file)
        blocks = [(block.num_records, [row["x"] for row in block]) for block in found]
        assert found.codec == codec
    assert [x for _, block in blocks for x in block] == list(range(10_000))
    size = sum(Path(one).stat().st_size for one in small)
    assert len(blocks) <= size / BLOCK_BYTES + 1


@pytest.mark.parametrize("settings", [PARQUET, AVRO], ids=["parquet", "avro"])
def test_other_schemas_are_other_layouts(settings: FormatSettings, tmp_path: Path) -> None:
    form = format_of(settings)
    wider = Schema(T.STRUCT, name="Point", fields=(*POINT.fields, Field("n", Schema(T.INT32, optional=True))))
    for name, schema in (("a", POINT), ("b", wider)):
        form.file(str(tmp_path / name), schema).close()
    assert len(layouts(form, [str(tmp_path / "a"), str(tmp_path / "b")])) == 2


@given(schema=structs().filter(lambda one: format_of(PARQUET).refusal(one) is None))
def test_a_parquet_file_keeps_its_columns_whatever_they_are(
    schema: Schema, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, form = tmp_path_factory.mktemp("files"), format_of(PARQUET)
    files = [str(folder / "a"), str(folder / "b")]
    for one in files:
        form.file(one, schema).close()
    form.merge(opened(files), str(folder / "merged"))
    (layout,) = layouts(form, [*files, str(folder / "merged")])
    assert layout is not None


def test_nested_values_stay_as_they_are(tmp_path: Path) -> None:
    fields = {
        "list": Schema(T.ARRAY, value_schema=Schema(T.STRING, optional=True)),
        "map": Schema(T.MAP, optional=True, key_schema=STRING, value_schema=Schema(T.INT64)),
        "decimal": Schema(T.BYTES, optional=True, name=DECIMAL, version=1, parameters={"scale": "2"}),
        "date": Schema(T.INT32, name=DATE),
        "time": Schema(T.INT32, optional=True, name=TIME),
        "timestamp": Schema(T.INT64, name=TIMESTAMP),
        "inner": Schema(T.STRUCT, optional=True, name="I", fields=(Field("b", Schema(T.BYTES)),)),
    }
    schema = Schema(T.STRUCT, name="R", fields=tuple(Field(name, of) for name, of in fields.items()))
    date, moment = dt.date(2026, 9, 21), dt.datetime(2026, 9, 21, 1, 2, 3, tzinfo=dt.UTC)
    rows = [
        dict(zip(fields, (["a", None], [("k", 1)], Decimal("1.25"), date, 5, moment, {"b": b"x"}), strict=True)),
        dict(zip(fields, ([], None, None, date, None, moment, None), strict=True)),
    ]
    form, small = format_of(PARQUET), [str(tmp_path / "a"), str(tmp_path / "b")]
    for one, row in zip(small, rows, strict=True):
        writer = form.file(one, schema)
        writer.write(pa.array([row], pa.struct(parquet_fields(schema))))
        writer.close()
    form.merge(opened(small), str(tmp_path / "merged"))
    merged = pq.ParquetFile(tmp_path / "merged")
    assert merged.read().to_pylist() == rows
    before = pq.ParquetFile(small[0])
    assert merged.schema.equals(before.schema)
    assert merged.metadata.metadata == before.metadata.metadata


def test_parquet_files_of_others_are_left_alone(tmp_path: Path) -> None:
    form = format_of(PARQUET)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "pyarrow")
    (own,) = written(PARQUET, tmp_path, [1])
    old = pq.ParquetFile(own)
    lists = pa.schema([pa.field("l", pa.list_(pa.field("array", pa.int32())))])
    with pq.ParquetWriter(tmp_path / "old", lists, store_schema=False, use_compliant_nested_type=False) as writer:
        writer.write_table(lists.empty_table())
        writer.add_key_value_metadata({parquet.AVRO_KEY.decode(): old.metadata.metadata[parquet.AVRO_KEY].decode()})
    assert layouts(form, [str(tmp_path / "pyarrow"), str(tmp_path / "old")]) == {None}


@pytest.mark.parametrize("settings", [PARQUET, AVRO], ids=["parquet", "avro"])
def test_a_broken_file_is_told(settings: FormatSettings, tmp_path: Path) -> None:
    form, small = format_of(settings), written(settings, tmp_path, [100, 100])
    cut = Path(small[1]).read_bytes()[:-40]
    Path(small[1]).write_bytes(cut)
    with pytest.raises(DataError, match="broken"):
        form.merge(opened(small), str(tmp_path / "merged"))
    assert open_below(tmp_path) == []
