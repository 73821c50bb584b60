"""Files of a spool folder: the kit, order, offsets, and what becomes of files."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import time
import zlib
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.spool.connector import (
    SpoolDirCsvSourceConnector,
    SpoolDirJsonSourceConnector,
    SpoolDirLineDelimitedSourceConnector,
    SpoolDirLineDelimitedSourceTask,
)
from headrace.connectors.spool.errors import SpoolError
from headrace.plugins.contracts import Limit, PartitionResult, TaskContext
from headrace.plugins.errors import RetriableError
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import LARGE, SMALL, SourceContract
from headrace.plugins.testkit.driving import start_tasks
from tests.unit.connectors.spool.folders import Folder, Walk, schema


class TestLinesByTheKit(SourceContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Folder:
        return Folder(tmp_path, cleanup_policy="NONE")


class _Csv(Folder):
    def put(self, values: list[str]) -> None:  # type: ignore[override]
        self._number += 1
        rows = "".join('"{}"\n'.format(value.replace('"', '""')) for value in values)
        self.file(f"{self._number:03}.csv", rows.encode())

    def value(self, row: dict[str, dict[str, str]]) -> str:  # type: ignore[override]
        return row["value"]["text"]


class TestCsvByTheKit(SourceContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Folder:
        settings = {"value_schema": schema(text="STRING"), "csv_escape_char": "0", "cleanup_policy": "NONE"}
        return _Csv(tmp_path, SpoolDirCsvSourceConnector, **settings)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_file_is_moved_once_its_offset_is_stored_and_not_before(folder: Folder) -> None:
    folder.file("a.txt", b"one\ntwo\n")
    walk = Walk(folder)
    assert [row["value"] for row in walk.batch(stores=False) or ()] == ["one", "two"]
    assert walk.batch() is None
    assert (folder.names("in"), folder.names("done")) == (["a.txt"], [])
    walk.progress.committed([_reached(walk)])
    assert (folder.names("in"), folder.names("done")) == ([], ["a.txt"])


def _reached(walk: Walk) -> PartitionResult:
    (partition, offset), *_ = walk.stored.items()
    return PartitionResult(source_partition=json.loads(partition), source_offset=json.loads(offset))


def test_a_worker_killed_before_the_move_moves_the_file_when_it_comes_back(folder: Folder) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.batch(stores=False)
    walk.restart()
    assert walk.values() == []
    assert (folder.names("in"), folder.names("done")) == ([], ["a.txt"])


def test_a_preview_moves_no_file_that_a_worker_left_behind_its_offset(folder: Folder) -> None:
    path = folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.batch(stores=False)
    task = SpoolDirLineDelimitedSourceTask()
    task.start_preview(folder.config(), TaskContext("preview", 0, StopToken(), folder.worker))
    after = [walk.stored.get(json.dumps(dict(one))) for one in task.partitions()]
    assert after != [None]
    assert task.plan([None if one is None else json.loads(one) for one in after], LARGE) is None
    assert list(task.partitions()) == []
    assert path.read_bytes() == b"one\n"


def test_links_that_lead_nowhere_hide_no_file(folder: Folder) -> None:
    (folder.root / "in/a.txt").symlink_to("a.txt")
    (folder.root / "in/b.txt").symlink_to("gone")
    folder.file("c.txt", b"one\n")
    assert Walk(folder).values() == ["one"]


def test_the_offset_of_a_file_that_has_left_is_forgotten(folder: Folder) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.values() == ["one"]
    assert walk.stored == {}


def test_a_file_that_is_dropped_again_is_another_file(folder: Folder) -> None:
    walk = Walk(folder)
    for _ in range(3):
        folder.file("a.txt", b"same\n")
        assert walk.values() == ["same"]
    assert folder.names("done") == ["a.txt", "a.txt.1", "a.txt.2"]


def test_a_file_moved_back_is_read_again(folder: Folder) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.values() == ["one"]
    os.rename(folder.root / "done/a.txt", folder.root / "in/a.txt")
    assert walk.values() == ["one"]


def test_a_file_replaced_before_its_move_is_read_and_not_moved_unread(folder: Folder) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.batch(stores=False)
    folder.file("a.txt", b"two\n")
    walk.progress.committed([_reached(walk)])
    assert folder.names("done") == []
    assert walk.values() == ["two"]
    assert folder.names("done") == ["a.txt"]


def test_a_file_that_was_replaced_half_read_is_read_from_its_start(folder: Folder) -> None:
    folder.file("a.txt", b"1\n2\n3\n")
    walk = Walk(folder)
    assert [row["value"] for row in walk.batch(Limit(2, 1 << 20)) or ()] == ["1", "2"]
    folder.file("a.txt", b"7\n8\n9\n")
    assert walk.batch() in (None, [])  # it changed while it was read, so it has to rest for a moment
    made: list[str] = []
    deadline = time.monotonic() + 60
    while not made and time.monotonic() < deadline:
        made = walk.values()
    assert made == ["7", "8", "9"]


def test_policies(tmp_path: Path) -> None:
    for policy in ("NONE", "DELETE", "MOVEBYDATE"):
        root = tmp_path / policy
        root.mkdir()
        folder = Folder(root, cleanup_policy=policy)
        path = folder.file("a.txt", b"one\n")
        os.utime(path, (86_400 * 10.5, 86_400 * 10.5))
        walk = Walk(folder)
        assert walk.values() == ["one"]
        assert walk.values() == []
        assert folder.names("in") == (["a.txt"] if policy == "NONE" else [])
        assert folder.names("done") == (["1970-01-11/a.txt"] if policy == "MOVEBYDATE" else [])


def test_order_age_patterns_and_flags(tmp_path: Path) -> None:
    folder = Folder(tmp_path, files_sort_attributes="LengthDesc,NameDesc", input_file_pattern=r"\w+\.txt")
    for name, data in {"a.txt": b"a\n", "b.txt": b"b\n", "c.txt": b"ccc\n", "d.csv": b"d\n"}.items():
        folder.file(name, data)
    folder.file("a.txt.PROCESSING", b"")
    assert Walk(folder).values() == ["ccc", "b", "a"]
    assert folder.names("in") == ["a.txt.PROCESSING", "d.csv"]


def test_a_young_file_waits(tmp_path: Path) -> None:
    folder = Folder(tmp_path, file_minimum_age_ms="60000")
    path = folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.values() == []
    os.utime(path, (time.time() - 61, time.time() - 61))
    assert walk.values() == ["one"]


def test_folders_below(tmp_path: Path) -> None:
    settings = {"input_path_walk_recursively": "true", "cleanup_policy_maintain_relative_path": "true"}
    folder = Folder(tmp_path, **settings)
    folder.file("x/a.txt", b"one\n")
    folder.file("y/a.txt", b"two\n")
    assert Walk(folder).values() == ["one", "two"]
    assert folder.names("done") == ["x/a.txt", "y/a.txt"]


def test_tasks_share_files_by_their_names(folder: Folder) -> None:
    names = [f"{number}.txt" for number in range(20)]
    for name in names:
        folder.file(name, b"x\n")
    tasks = start_tasks(folder.connector(), folder.config(), folder.worker, 3)
    shares = [[one["fileName"] for one in started.task.partitions()] for started in tasks]
    assert shares == [sorted(n for n in names if zlib.adler32(n.encode()) % 3 == task) for task in range(3)]


def test_many_small_files_come_in_few_batches_and_in_order(folder: Folder) -> None:
    for number in range(1000):
        folder.file(f"{number:04}.txt", f"{number}\n".encode())
    walk, plans, made = Walk(folder), 0, []
    while (rows := walk.batch()) is not None:
        plans += bool(rows)
        made += [int(row["value"]) for row in rows]
    assert made == list(range(1000))
    assert plans <= 8
    assert len(folder.names("done")) == 1000


def test_files_that_are_small_only_while_they_are_compressed_come_within_the_limit(folder: Folder) -> None:
    for number in range(20):
        folder.file(f"{number:02}.txt.gz", gzip.compress(f"{number:02}{'x' * 1000}\n".encode() * 200))
    walk, found = Walk(folder), []
    while rows := walk.batch(Limit(20_000, 1 << 20)):
        assert sum(len(row["value"]) for row in rows) < 2 << 20
        found += [row["value"][:2] for row in rows]
    assert found == [f"{number:02}" for number in range(20) for _ in range(200)]
    assert len(folder.names("done")) == 20


def test_a_bad_file_halts_after_the_rows_before(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, value_schema=schema(n="INT32"))
    folder.file("a.csv", b"1\n2\nx\n4\n")
    folder.file("b.csv", b"5\n")
    walk = Walk(folder)
    assert [row["value"]["n"] for row in walk.batch() or ()] == [1, 2]
    with pytest.raises(SpoolError, match=r"a\.csv cannot be read: the field n is no INT32: 'x' \(in record 3\)"):
        walk.all()
    assert folder.names("bad") == ["a.csv"]
    walk.restart()
    assert walk.values() == [{"n": 5}]


def test_a_bad_file_is_passed_over_where_nothing_halts(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, value_schema=schema(n="INT32"), halt_on_error="false")
    folder.file("a.csv", b"1\n2\nx\n4\n")
    folder.file("b.csv", b"5\n")
    folder.file("c.csv", b"y\n")
    folder.file("d.csv", b"6\n")
    assert [value["n"] for value in Walk(folder).values()] == [1, 2, 5, 6]
    assert (folder.names("bad"), folder.names("done")) == (["a.csv", "c.csv"], ["b.csv", "d.csv"])


def test_an_empty_file_is_put_away(folder: Folder) -> None:
    folder.file("a.txt", b"")
    folder.file("b.txt", b"one\n")
    assert Walk(folder).values() == ["one"]
    assert folder.names("done") == ["a.txt", "b.txt"]


def test_an_offset_of_the_original_is_gone_on_from(folder: Folder) -> None:
    folder.file("a.txt", b"1\n2\n3\n")
    walk = Walk(folder)
    walk.stored['{"fileName": "a.txt"}'] = '{"offset": 2}'
    assert walk.values() == ["3"]


def test_a_file_written_to_while_it_is_read_comes_again_as_a_whole(folder: Folder) -> None:
    path = folder.file("a.txt", b"1\n2\n")
    walk = Walk(folder)
    assert walk.batch(Limit(1, 1 << 20), stores=False)
    with path.open("ab") as file:
        file.write(b"3\n")
    made: list[str] = []
    deadline = time.monotonic() + 60
    while not made and time.monotonic() < deadline:
        made = walk.values()
    assert made == ["1", "2", "3"]


def test_folders_have_to_be_there(folder: Folder) -> None:
    (folder.root / "done").rmdir()
    with pytest.raises(ConfigError, match=r"finished\.path"):
        Walk(folder)


def test_folders_outside_of_the_allowed_paths_are_refused(folder: Folder) -> None:
    connector = folder.connector()
    connector.worker = {"file.allowed.paths": [str(folder.root / "in")]}
    assert "file.allowed.paths" in str(connector.validate(folder.config())[0])


def test_a_link_out_of_the_allowed_paths_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    folder = Folder(tmp_path / "root")
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    (folder.root / "in/a.txt").symlink_to(secret)
    walk = Walk(folder)
    with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
        walk.values()


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_generated_schemas_need_a_file(tmp_path: Path, suffix: str) -> None:
    connector = SpoolDirCsvSourceConnector if suffix == "csv" else SpoolDirJsonSourceConnector
    folder = Folder(tmp_path, connector, schema_generation_enabled="true", csv_first_row_as_header="true")
    with pytest.raises(SpoolError, match="no file"):
        Walk(folder)


def test_a_plan_of_small_limits_goes_on_in_the_file(folder: Folder) -> None:
    folder.file("a.txt", b"".join(b"%d\n" % number for number in range(50)))
    assert Walk(folder).values(SMALL) == [str(number) for number in range(50)]


def test_offsets_are_checked() -> None:
    check = SpoolDirLineDelimitedSourceConnector().check_offsets
    assert check({}, {"offsets": [{"partition": {"fileName": "a"}, "offset": {"offset": 3}}]})
    assert check({}, {"offsets": [{"partition": {"fileName": "a"}, "offset": None}]})
    for partition, offset in (({"file": "a"}, {"offset": 1}), ({"fileName": "a"}, {"offset": -1})):
        with pytest.raises(ValueError, match="spool folder"):
            check({}, {"offsets": [{"partition": partition, "offset": offset}]})


def test_the_workers_own_files_and_names_that_are_no_text_are_left_out(folder: Folder) -> None:
    own = folder.file("worker.properties", b"password=x\n")
    folder.worker = {**folder.worker, "the worker's own files": (str(own),)}
    with open(os.fsencode(folder.root / "in") + b"/\xff.txt", "wb") as file:
        file.write(b"no\n")
    folder.file("a.txt", b"one\n")
    assert Walk(folder).values() == ["one"]
    assert len(os.listdir(folder.root / "in")) == 2


def test_a_folder_of_many_files_that_stay_costs_few_looks(tmp_path: Path) -> None:
    folder = Folder(tmp_path, cleanup_policy="NONE")
    for number in range(600):
        folder.file(f"{number:04}.txt", b"x\n")
    walk = Walk(folder)
    assert len(walk.values()) == 600
    walk.restart()
    for _ in range(5):
        assert walk.batch() is None


def test_a_plan_forgets_only_what_it_was_asked_about(folder: Folder) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)
    assert walk.batch()
    assert folder.names("done") == ["a.txt"]
    folder.file("a.txt", b"two\n")
    assert walk.values() == ["two"]
    assert walk.stored == {}


def test_a_file_replaced_while_it_is_moved_is_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.file("a.txt", b"one\n")
    walk, rename = Walk(folder), os.rename

    def replaced(path: str, target: str) -> None:
        monkeypatch.undo()
        folder.file("a.txt", b"two\n")
        rename(path, target)

    assert walk.batch(stores=False)
    monkeypatch.setattr(os, "rename", replaced)
    with pytest.raises(RetriableError, match="replaced while it was moved"):
        walk.progress.committed([_reached(walk)])
    assert walk.values() == ["two"]
    assert folder.names("done") == ["a.txt"]


def test_a_file_is_copied_to_another_file_system_as_a_whole(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def apart(path: str, target: str) -> None:
        if os.path.dirname(path) != os.path.dirname(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(path, target)

    folder.file("a.txt", b"one\n")
    monkeypatch.setattr(os, "rename", apart)
    assert Walk(folder).values() == ["one"]
    assert (folder.names("in"), folder.names("done")) == ([], ["a.txt"])
    assert (folder.root / "done/a.txt").read_bytes() == b"one\n"


def test_a_file_replaced_while_it_is_copied_to_another_file_system_is_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.file("a.txt", b"one\n")
    walk, rename, copy = Walk(folder), os.rename, shutil.copy2

    def apart(path: str, target: str) -> None:
        if os.path.dirname(path) != os.path.dirname(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(path, target)

    def replaced(path: str, target: str, **given: bool) -> None:
        copy(path, target, **given)
        monkeypatch.undo()
        folder.file("a.txt", b"two\n")

    assert walk.batch(stores=False)
    monkeypatch.setattr(os, "rename", apart)
    monkeypatch.setattr(shutil, "copy2", replaced)
    with pytest.raises(RetriableError, match="replaced while it was moved"):
        walk.progress.committed([_reached(walk)])
    assert folder.names("done") == []
    assert walk.values() == ["two"]


def test_a_link_is_moved_to_another_file_system_and_not_what_it_leads_to(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = folder.root / "secret"
    secret.write_text("secret")
    (folder.root / "in/a.z").symlink_to(secret)  # not served, so that it is moved unread
    rename = os.rename

    def apart(path: str, target: str) -> None:
        if os.path.dirname(path) != os.path.dirname(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(path, target)

    monkeypatch.setattr(os, "rename", apart)
    with pytest.raises(SpoolError, match=r"cannot be decompressed"):
        Walk(folder).values()
    assert (folder.root / "bad/a.z").readlink() == secret
    assert folder.names("in") == []


def test_a_file_that_cannot_be_opened_is_tried_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.file("a.txt", b"one\n")
    walk = Walk(folder)

    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("headrace.connectors.spool.reader.open_allowed", refused)
        with pytest.raises(RetriableError, match=r"a\.txt cannot be read: .*denied"):
            walk.batch()
    assert walk.values() == ["one"]
