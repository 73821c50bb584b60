"""Appended rows: by partition, in order, in files of the target size, with bounded memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.files import append
from headrace.connectors.lake.iceberg.files.append import FileKind, PartitionedFiles
from headrace.connectors.lake.iceberg.files.arrow_schema import arrow_schema
from headrace.connectors.lake.iceberg.files.parquet_file import ParquetFile, ParquetOptions
from headrace.connectors.lake.iceberg.files.partitions import Partitioning
from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct
from headrace.connectors.lake.iceberg.tables import PartitionField, PartitionSpec

SCHEMA = Struct((Field(1, "id", "long", required=True), Field(2, "part", "int"), Field(3, "text", "string")))
BY_PART = PartitionSpec(3, (PartitionField(2, 1000, "part", "identity"),))


def kind(spec: PartitionSpec = BY_PART, **properties: str) -> FileKind:
    options = ParquetOptions.of({name.replace("_", "."): value for name, value in properties.items()})
    return FileKind(arrow_schema(SCHEMA), Partitioning.of(spec, SCHEMA), spec.id, options)


def batch(first: int, count: int, parts: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    columns: list[list[Any]] = [list(numbers), [one % parts for one in numbers], [f"text {one}" for one in numbers]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_schema(SCHEMA), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(SCHEMA))


def test_a_thousand_partitions_keep_their_order_over_flushes(tmp_path: Path) -> None:
    files = PartitionedFiles(kind(), str(tmp_path))
    for number in range(20):
        files.add(batch(number * 5000, 5000, 1000))
        if number % 4 == 3:
            before = files.buffered_bytes
            files.flush()
            assert files.buffered_bytes <= before * 0.6
    written = files.finish()
    assert sorted(file.partition for file in written) == [(part,) for part in range(1000)]
    assert {(file.spec_id, file.records) for file in written} == {(3, 100)}
    for file in written[::97]:
        rows = pq.read_table(file.local)
        assert rows["id"].to_pylist() == list(range(file.partition[0], 100_000, 1000))
        assert set(rows["part"].to_pylist()) == {file.partition[0]}
    assert not files.buffered_bytes
    assert not files.open_files


def test_open_files_hold_no_descriptors(tmp_path: Path) -> None:
    files = PartitionedFiles(kind(), str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3):
        files.add(batch(number * 3000, 3000, 300))
        files.flush()
    assert files.open_files > 100
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3
    files.drop()
    assert not list(tmp_path.iterdir())


def test_no_more_files_are_open_than_their_columns_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.lake.iceberg.files.append._MOST_COLUMNS", 30)
    files = PartitionedFiles(kind(), str(tmp_path))
    for number in range(2):
        files.add(batch(number * 1000, 1000, 25))
        files.flush()
        assert files.open_files <= 10
    found: dict[Any, list[int]] = {}
    for file in files.finish():
        found.setdefault(file.partition, []).extend(pq.read_table(file.local)["id"].to_pylist())
    assert found == {(part,): list(range(part, 2000, 25)) for part in range(25)}


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_, most = set[Any](), 0

    class Counted(ParquetFile):
        def __init__(self, *arguments: Any) -> None:
            nonlocal most
            super().__init__(*arguments)
            open_.add(self)
            most = max(most, len(open_))

        def close(self) -> None:
            super().close()
            open_.discard(self)

    monkeypatch.setattr(append, "ParquetFile", Counted)
    files = PartitionedFiles(kind(), str(tmp_path))
    files.add(batch(0, 3000, 300))
    assert len(files.finish()) == 300
    assert most == 1


def test_files_end_at_the_target_size(tmp_path: Path) -> None:
    options = ParquetOptions.of({"write.target-file-size-bytes": "20000", "write.parquet.compression-codec": "none"})
    files = PartitionedFiles(replace(kind(PartitionSpec(0)), options=options), str(tmp_path))
    files.add(batch(0, 10_000, 7))
    written = files.finish()
    assert len(written) > 3
    assert all(Path(file.local).stat().st_size < 80_000 for file in written)
    ids = [number for file in written for number in pq.read_table(file.local)["id"].to_pylist()]
    assert ids == list(range(10_000))


def test_a_tables_properties_are_followed(tmp_path: Path) -> None:
    files = PartitionedFiles(kind(PartitionSpec(0), **{"write_parquet_row-group-size-bytes": "50000"}), str(tmp_path))
    files.add(batch(0, 10_000, 7))
    (file,) = files.finish()
    metadata = pq.ParquetFile(file.local).metadata
    assert metadata.num_row_groups > 2
    column = metadata.row_group(0).column(0)
    assert (column.compression, column.statistics.min, column.statistics.null_count) == ("ZSTD", 0, 0)
    assert (
        ParquetOptions.of({"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "2"}).level
        == 2
    )
    for codec in ("snappy", "none"):  # have no levels
        files = PartitionedFiles(
            kind(**{"write_parquet_compression-level": "3", "write_parquet_compression-codec": codec}), str(tmp_path)
        )
        files.add(batch(0, 10, 1))
        assert files.finish()
    deletes = {"write.delete.parquet.compression-codec": "snappy", "write.target-file-size-bytes": "5"}
    assert ParquetOptions.of(deletes, is_delete=True).codec == "SNAPPY"
    assert ParquetOptions.of(deletes).codec == "ZSTD"
    for wrong in (
        {"write.format.default": "orc"},
        {"write.parquet.compression-codec": "lzo"},
        {"write.target-file-size-bytes": "big"},
        {"write.target-file-size-bytes": "0"},
        {"write.parquet.row-group-size-bytes": "-1"},
        {"write.parquet.compression-level": "99"},
    ):
        with pytest.raises(LakeError, match=next(iter(wrong))):
            ParquetOptions.of(wrong)


def test_ids_types_and_lists_are_icebergs(tmp_path: Path) -> None:
    numbers = ["boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(18,2)", "decimal(38,2)"]
    times = ["date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"]
    types = [*numbers, *times, "string", "binary", "uuid", "fixed[3]"]
    nested = (
        Field(100, "list", ListOf(101, Struct((Field(102, "x", "int", required=True),)))),
        Field(103, "map", MapOf(104, "string", 105, ListOf(106, "uuid"))),
        Field(107, "gone", "unknown"),
    )
    schema = Struct((*(Field(number, f"c{number}", one) for number, one in enumerate(types, 1)), *nested))
    columns = arrow_schema(schema)
    made = FileKind(columns, Partitioning(()), 0, ParquetOptions.of({}))
    files = PartitionedFiles(made, str(tmp_path))
    files.add(pa.RecordBatch.from_arrays([pa.nulls(2, one.type) for one in columns], schema=columns))
    (file,) = files.finish()
    told = str(pq.ParquetFile(file.local).schema).partition("\n")[2]
    for wanted in (
        "optional boolean field_id=1 c1;",
        "optional int32 field_id=6 c6 (Decimal(precision=9, scale=2));",
        "optional int64 field_id=7 c7 (Decimal(precision=18, scale=2));",
        "optional fixed_len_byte_array(16) field_id=8 c8 (Decimal(precision=38, scale=2));",
        "optional int32 field_id=9 c9 (Date);",
        "field_id=10 c10 (Time(isAdjustedToUTC=false, timeUnit=microseconds));",
        "field_id=11 c11 (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds,",
        "field_id=12 c12 (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds,",
        "field_id=14 c14 (Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds,",
        "optional fixed_len_byte_array(16) field_id=17 c17 (UUID);",
        "optional fixed_len_byte_array(3) field_id=18 c18;",
        "optional group field_id=101 element {",
        "required int32 field_id=102 x;",
        "required binary field_id=104 key (String);",
        "optional group field_id=105 value (List) {",
        "optional fixed_len_byte_array(16) field_id=106 element (UUID);",
    ):
        assert wanted in told, wanted
    assert "gone" not in told
    assert "INT96" not in told
    with pytest.raises(LakeError, match=r"column a\.v has the type variant"):
        arrow_schema(Struct((Field(1, "a", Struct((Field(2, "v", "variant"),))),)))
