"""A sink of files without Kafka: backlogs that no job can end, local disks that are full, ends of files."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.connectors.hdfs.sink.partition_files import PartitionFiles
from headrace.connectors.hdfs.sink.rotation import Rules
from headrace.connectors.hdfs.sink.side_files import SideFiles, SideFormat
from headrace.connectors.hdfs.sink.spec import Begin
from headrace.connectors.hdfs.sink.task import FileSinkTask
from headrace.connectors.hdfs.sink.writer import local_folder
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.contracts import TaskContext, TopicPartition
from headrace.plugins.errors import RetriableError
from headrace.plugins.schema import Schema, SchemaType
from headrace.plugins.stopping import StopToken

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = {"connector.class": "HdfsSink", "format.class": "json", "topics": "t"}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """The folder that the task writes to."""
    return LocalStore(StoreSettings(f"file://{tmp_path}/store"))


@pytest.fixture
def task(tmp_path: Path) -> FileSinkTask:
    """With files of 100 records; it has a partition."""
    made = FileSinkTask()
    config = {**CONFIG, "store.url": f"file://{tmp_path}/store", "flush.size": "100"}
    made.start(config, TaskContext("c", 0, StopToken(), {"file.allowed.paths": [str(tmp_path)]}))
    made._spec.layouts.append(None)
    made.open([P0])
    return made


def rows(first: int, last: int) -> pa.RecordBatch:
    offsets = list(range(first, last + 1))
    columns = {
        "topic": ["t"] * len(offsets),
        "origin_topic": ["t"] * len(offsets),
        "origin_partition": pa.array([0] * len(offsets), pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "error": pa.nulls(len(offsets), pa.string()),
        "layout": pa.array([0] * len(offsets), pa.int32()),
        "directory": pa.array([0] * len(offsets), pa.int32()),
        "value_0": pa.array([b"%d\n" % offset for offset in offsets], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_job_that_ended_no_file_is_not_begun_again(task: FileSinkTask) -> None:
    ranges, ends = {P0: (0, 100), P1: (0, 20)}, {P0: 160, P1: 20}
    assert task.job_ranges(ranges, ends) == {P0: (0, 100)}
    task.commit([])  # a compacted topic: fewer records than offsets
    assert not task.job_ranges(ranges, ends), "the same job would end none for ever"
    assert task.job_ranges({P0: (60, 160), P1: (0, 20)}, ends) == {P0: (60, 160)}


@pytest.mark.parametrize(
    ("ranges", "ends", "expected"),
    [
        ({P0: (0, 250), P1: (50, 120)}, {P0: 250, P1: 120}, {P0: (0, 200)}),
        ({P0: (10, 60)}, {P0: 500}, {P0: (10, 110)}),  # a file has more records than a job would
        ({P0: (10, 60)}, {P0: 60}, {}),
    ],
)
def test_by_count_a_job_reads_whole_files(
    task: FileSinkTask, ranges: dict[Any, Any], ends: dict[Any, Any], expected: dict[Any, Any]
) -> None:
    assert task.job_ranges(ranges, ends) == expected


def test_where_size_ends_files_too_a_job_reads_all(task: FileSinkTask) -> None:
    task._spec = replace(task._spec, rules=Rules(replace(task._spec.rules.settings, rotate_bytes=1_000_000)))
    ranges = {P0: (0, 50), P1: (50, 120)}
    assert task.job_ranges(ranges, {P0: 50, P1: 120}) == ranges


def test_a_full_local_disk_is_waited_for_when_the_clock_ends_a_file(
    task: FileSinkTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = task.writer("1")
    writer.write(rows(0, 9))
    assert task.commit([writer.finish()]) == {P0: 0}
    (files,) = task._files._partitions.values()
    assert files._rotation is not None
    files._rotation.ends_at = 0
    (file,) = files.writers

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file, "close", full)
    with pytest.raises(RetriableError, match="Make room there"):
        task.writer("2").finish()


@pytest.mark.parametrize(("changes", "files"), [({}, 0), ({"rotate_interval_ms": 1_000}, 3)])
def test_another_directory_ends_files_only_with_an_interval_of_records_time(
    task: FileSinkTask, changes: dict[str, Any], files: int
) -> None:
    rules = replace(task._spec.rules.settings, on_partition_change=True, **changes)
    spec = replace(task._spec, rules=Rules(rules))
    some = rows(0, 3).set_column(6, "directory", pa.array([1, 2, 1, 2]))
    if changes:
        some = some.append_column("time", pa.array([0, 0, 0, 0]))
    of = PartitionFiles(spec, P0, tempfile.mkdtemp(dir=os.path.dirname(spec.store.url[7:])), Begin(0))
    of.add(some)
    assert len(of.closed) == files


def test_a_key_of_another_schema_ends_files_with_those_beside_them(task: FileSinkTask, store: LocalStore) -> None:
    as_lines = SideFormat.of(FormatSettings(FileFormat.JSON))
    beside = SideFiles(as_lines, as_lines, [None, Schema(SchemaType.STRING)])
    columns = {
        "key_layout": pa.array([0, 0, 1, 1], pa.int32()),
        "key_0": pa.array([b"1\n", b"2\n", None, None]),
        "key_1": pa.array([None, None, b'"c"\n', b'"d"\n']),
        "headers": pa.array([b"h0\n", b"h1\n", b"h2\n", b"h3\n"]),
    }
    some = rows(0, 3)
    for name, values in columns.items():
        some = some.append_column(name, values)
    above = os.path.dirname(store.url[7:])
    of = PartitionFiles(replace(task._spec, beside=beside), P0, tempfile.mkdtemp(dir=above), Begin(0))
    of.add(some)
    of.end(None)
    found = [[Path(path).read_text() for path in file.locals] for file in of.closed]
    assert found == [["0\n1\n", "1\n2\n", "h0\nh1\n"], ["2\n3\n", '"c"\n"d"\n', "h2\nh3\n"]]
    assert [path.rpartition("/")[2] for path in of.closed[1].beside.values()] == [
        "t+0+0000000002+0000000003.keys.json",
        "t+0+0000000002+0000000003.headers.json",
    ]
    of.drop()
    assert not any(os.path.exists(path) for file in of.closed for path in file.locals)


def test_what_an_upload_that_failed_has_staged_is_deleted(
    task: FileSinkTask, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, real = [], LocalStore.upload

    def upload(self: LocalStore, local: str, path: str) -> None:
        tries.append(path)
        real(self, local, path)
        if len(tries) % 2 == 0:
            raise RetriableError("the disk is full")

    monkeypatch.setattr(LocalStore, "upload", upload)
    for attempt in "12":
        writer = task.writer(attempt)
        writer.write(rows(0, 199))
        with pytest.raises(RetriableError, match="full"):
            writer.finish()
        writer.abort()
    assert len(tries) == 4
    assert [one.path for one in store.entries("topics/+tmp/t/0") if one.is_folder] == []


def test_what_was_staged_in_vain_is_deleted(task: FileSinkTask, store: LocalStore) -> None:
    writer = task.writer("1")
    writer.write(rows(0, 199))
    staged = writer.finish()
    assert [one.path for one in store.entries("topics/+tmp/t/0") if one.is_folder]
    task.discard([staged, b""])
    assert [one.path for one in store.entries("topics/+tmp/t/0") if one.is_folder] == []


def test_files_are_not_trusted_to_another_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with local_folder() as mine:
        assert Path(mine).parent == tmp_path / f"headrace-files-{os.getuid()}"
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    (tmp_path / f"headrace-files-{other}").mkdir()
    with pytest.raises(PermissionError, match="belongs to another user; remove it, or set TMPDIR"):
        local_folder()
