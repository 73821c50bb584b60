"""The file source: the kit, and what only it does; over the local disk, without Spark."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.hdfs.source import progress, task
from headrace.connectors.hdfs.source.connector import HdfsSourceConnector, S3SourceConnector
from headrace.plugins.contracts import Connector, Limit, PartitionResult, Plan
from headrace.plugins.testkit import LARGE, SMALL, SourceContract, SourceDrive, SourceRig

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}


class FolderRig(SourceRig):
    def __init__(self, root: Path, **settings: str) -> None:
        self.root, self.settings, self._number = root, settings, 0
        self.worker: Mapping[str, Any] = {"file.allowed.paths": [str(root)]}

    def connector(self) -> Connector:
        return HdfsSourceConnector()

    def config(self) -> dict[str, str]:
        given = {"connector.class": "HdfsSource", "store.url": f"file://{self.root}", "path": "in"}
        return {**given, "file.min.age.ms": "0", "poll.interval.ms": "0", **self.settings}

    def put(self, values: Sequence[str]) -> None:
        self._number += 1
        self.file(f"t/{self._number:03}.txt", "".join(f"{value}\n" for value in values).encode())

    def file(self, name: str, data: bytes) -> Path:
        path = self.root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp")
        unfinished.write_bytes(data)
        unfinished.rename(path)
        return path


@pytest.fixture
def rig(tmp_path: Path) -> FolderRig:
    return FolderRig(tmp_path)


class Walk(SourceDrive):
    """Stores also what splits without rows move, as the worker does."""

    def batch(self, limit: Limit = LARGE) -> list[tuple[str, Any]] | None:
        """A whole batch: topic and value of each row, and `problem: …` for files that cannot be read."""
        plan = self.plan(limit)
        if plan is None:
            return None
        return self.finish(plan)

    def finish(self, plan: Plan) -> list[tuple[str, Any]]:
        made, reached, reader = [], [], self.reader(plan)
        for number, split in enumerate(plan.splits):
            rows = [row for batch in reader.read(number) for row in batch.to_pylist()]
            offset = rows[-1]["source_offset"] if rows else split.offset_if_empty
            reached.append(PartitionResult(source_partition=split.partition, source_offset=offset))
            topic = self.task._shape(split.shape)[0]
            made += [(topic, f"problem: {row['problem']}" if row["problem"] else row["value"]) for row in rows]
        self.task.delivered(reached)
        for one in reached:
            self.stored[json.dumps(one.source_partition, sort_keys=True)] = json.dumps(one.source_offset)
        return made

    def all(self, limit: Limit = LARGE) -> list[tuple[str, Any]]:
        made: list[tuple[str, Any]] = []
        while (batch := self.batch(limit)) is not None:
            made += batch
        return made


@pytest.fixture
def walk(rig: FolderRig) -> Iterator[Walk]:
    walk = Walk(rig)
    yield walk
    walk.task.stop()


def avro(path: Path, numbers: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, ORDER, [{"n": number} for number in numbers])


def parquet(path: Path, rows: int, group: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": range(rows), "text": ["x" * 200] * rows}), path, row_group_size=group)


class TestTheKit(SourceContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> FolderRig:
        return FolderRig(tmp_path)


def test_formats_and_topics_by_names(rig: FolderRig, walk: Walk) -> None:
    rig.file("logs/partition=0/logs+0+0000000000+0000000001.txt", b"one\ntwo")
    rig.file("zipped/a.json.gz", gzip.compress(b'{"a":1}\n\n[2]\n'))
    avro(rig.root / "in/orders/b.avro", [1, 2])
    parquet(rig.root / "in/tables/c.parquet", 2, 10)
    rig.file("other/readme.md", b"no format")
    rig.file("loose.txt", b"no topic")
    found = walk.all()
    assert sorted(found, key=str) == sorted(
        [
            ("logs", "one"),
            ("logs", "two"),
            ("zipped", '{"a":1}'),
            ("zipped", "[2]"),
            ("orders", {"n": 1}),
            ("orders", {"n": 2}),
            ("tables", {"n": 0, "text": "x" * 200}),
            ("tables", {"n": 1, "text": "x" * 200}),
        ],
        key=str,
    )
    assert set(walk.task.topics()) == {"logs", "zipped", "orders", "tables"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"a/x.txt", "a/b/y.txt"}),
        ({"files": "*.txt"}, {"a/x.txt", "a/b/y.txt"}),
        ({"files": "a/*.txt"}, {"a/x.txt"}),
        ({"files": "**/b/?.txt"}, {"a/b/y.txt"}),
        ({"files": "*", "format.class": "text"}, {"a/x.txt", "a/b/y.txt", "a/z.log"}),
        ({"path": "in/a", "topic": "t"}, {"a/x.txt", "a/b/y.txt"}),
        ({"path": "", "topic": "t"}, {"a/x.txt", "a/b/y.txt"}),
    ],
)
def test_which_files_are_read(tmp_path: Path, settings: dict[str, str], expected: set[str]) -> None:
    rig = FolderRig(tmp_path, **settings)
    hidden = ("a/.x.txt", "a/_b/y.txt", "+tmp/a/x.txt", "a/x.txt.tmp", "a/x.txt._COPYING_")
    for name in ("a/x.txt", "a/b/y.txt", "a/z.log", *hidden):
        rig.file(name, name.encode())
    walk = Walk(rig)
    assert {value for _, value in walk.all()} == expected
    walk.task.stop()


def test_a_file_that_changed_just_now_waits(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path, **{"file.min.age.ms": "3600000"})
    path = rig.file("t/a.txt", b"a")
    walk = Walk(rig)
    assert walk.all() == []
    os.utime(path, (1, 1))
    assert walk.all() == [("t", "a")]


def test_files_with_older_times_and_names_come_too(rig: FolderRig, walk: Walk) -> None:
    rig.file("t/m.txt", b"m")
    assert walk.all() == [("t", "m")]
    os.utime(rig.file("t/a.txt", b"a"), (1, 1))
    assert walk.all() == [("t", "a")]
    walk.restart()
    assert walk.all() == []


def test_an_idle_task_looks_at_nothing(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path, **{"poll.interval.ms": "3600000"})
    walk = Walk(rig)
    assert walk.all() == []
    assert walk.task.partitions() == []
    rig.file("t/a.txt", b"a")
    assert walk.all() == []
    walk.task.stop()


def test_a_large_parquet_file_is_read_in_pieces_once(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path, **{"split.bytes": "1048576"})
    rows, path = 40_000, tmp_path / "in/t/a.parquet"
    path.parent.mkdir(parents=True)
    table = pa.table({"n": range(rows), "text": [os.urandom(50).hex() for _ in range(rows)]})
    pq.write_table(table, path, row_group_size=2_000)
    walk = Walk(rig)
    plan = walk.plan()
    assert plan is not None
    assert 3 <= len(plan.splits) <= 5
    first = walk.finish(plan)
    assert sorted(value["n"] for _, value in first) == list(range(rows))
    walk.restart()
    assert walk.all() == []


def test_a_piece_goes_on_after_a_crash_where_it_was(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path, **{"split.bytes": "1048576"})
    rows, path = 20_000, tmp_path / "in/t/a.parquet"
    path.parent.mkdir(parents=True)
    table = pa.table({"n": range(rows), "text": [os.urandom(50).hex() for _ in range(rows)]})
    pq.write_table(table, path, row_group_size=1_000)
    walk, numbers = Walk(rig), []
    while (batch := walk.batch(Limit(3_000, 1 << 20))) is not None:
        numbers += [value["n"] for _, value in batch]
        walk.restart()
    assert sorted(numbers) == list(range(rows))


def test_a_million_files_would_be_a_few_offsets(rig: FolderRig, walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SLOTS", 16)
    monkeypatch.setattr(progress, "_FEW", 4)
    monkeypatch.setattr(progress, "SEGMENT", 40)
    monkeypatch.setattr(task, "MOST_FILES", 8)
    walk.restart()
    names = [f"t/{number:04}.txt" for number in range(200)]
    for name in names[:150]:
        rig.file(name, name.encode())
    assert [value for _, value in walk.all()] == names[:150]
    assert len([key for key in walk.stored if "slot" in key]) <= 16
    assert len(walk.stored) <= 16 + 5
    walk.restart()
    assert walk.all() == []
    for name in names[150:]:
        rig.file(name, name.encode())
    assert [value for _, value in walk.all(SMALL)] == names[150:]


def test_a_stop_within_a_batch_forgets_no_file(rig: FolderRig, walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SLOTS", 8)
    monkeypatch.setattr(progress, "_FEW", 4)
    monkeypatch.setattr(task, "MOST_FILES", 4)
    walk.restart()
    names = [f"t/{number:02}.txt" for number in range(24)]
    for name in names:
        rig.file(name, name.encode())
    found = []
    for _ in range(40):
        plan = walk.plan()
        if plan is None:
            break
        # Only the first split gets anywhere, and splits without rows move nothing: as when the task is stopped.
        rows = [row for batch in walk.reader(plan).read(0) for row in batch.to_pylist()]
        if rows:
            found += [row["value"] for row in rows]
            walk.stored[json.dumps(plan.splits[0].partition)] = json.dumps(rows[-1]["source_offset"])
        walk.task.undelivered()
        walk.restart()
        found += [value for _, value in walk.batch() or []]
    assert sorted(found) == names


def test_broken_changed_and_gone_files(rig: FolderRig, walk: Walk) -> None:
    rig.file("t/a.avro", b"no avro")
    avro(rig.root / "in/t/b.avro", [1])
    whole = (rig.root / "in/t/b.avro").read_bytes()
    rig.file("t/c.avro", whole[:-1] + b"?")
    gone = rig.file("t/d.txt", b"d\ne\n")
    found = walk.batch(Limit(4, LARGE.bytes))
    assert found is not None
    told = [value for _, value in found]
    assert told[1] == {"n": 1}
    assert [text.split(":")[0] for text in (told[0], told[2])] == ["problem", "problem"]
    assert "in/t/a.avro cannot be read: The file is not an Avro container file" in told[0]
    assert "in/t/c.avro cannot be read after 0 rows: The Avro file is broken" in told[2]
    assert told[3] == "d"
    gone.unlink()
    assert walk.all() == [("t", "problem: in/t/d.txt is gone after 1 of its rows were read")]
    changed = rig.file("t/e.txt", b"1\n2\n3\n")
    assert walk.batch(Limit(1, LARGE.bytes)) == [("t", "1")]
    changed.write_bytes(b"1\n2\n3\n4\n")
    (told_now,) = walk.all()
    assert told_now[1] == ("problem: in/t/e.txt cannot be read after 1 rows: it changed meanwhile, from 6 to 8 bytes")
    rig.file("t/f.txt", b"")
    assert walk.all() == []
    walk.restart()
    assert walk.all() == []


def test_a_reader_works_elsewhere(rig: FolderRig, walk: Walk) -> None:
    avro(rig.root / "in/t/b.avro", [1, 2])
    plan = walk.plan()
    assert plan is not None
    reader = pickle.loads(pickle.dumps(walk.task.reader(plan)))
    assert [row["value"] for batch in reader.read(0) for row in batch.to_pylist()] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"store.url": "file:///data/${topic}"}, "store.url"),
        ({"store.url": "ftp://host/x"}, "store.url"),
        ({"store.url": ""}, "store.url"),
    ],
)
def test_configs_that_are_refused(settings: dict[str, str], key: str) -> None:
    problems = HdfsSourceConnector().validate({"connector.class": "HdfsSource", **settings})
    assert [problem.key for problem in problems] == [key]


def test_offsets_can_be_forgotten_and_not_be_set() -> None:
    connector = S3SourceConnector()
    assert connector.check_offsets({}, {"offsets": [{"partition": {"slot": 1}, "offset": None}]})
    with pytest.raises(ValueError, match="can be forgotten"):
        connector.check_offsets({}, {"offsets": [{"partition": {"slot": 1}, "offset": {"rows": 1}}]})
