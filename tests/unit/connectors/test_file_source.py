"""The file source: the kit, and what only files do."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.config.settings import ConfigError
from headrace.connectors.file import FileStreamSourceConnector, follow, reader
from headrace.connectors.file.errors import FileError
from headrace.plugins.contracts import Connector, Limit, Place
from headrace.plugins.testkit import HOSTILE, LARGE, SMALL, SourceContract, SourceDrive, SourceRig

APACHE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


class FileRig(SourceRig):
    hostile = (*HOSTILE, "x" * 3_000_000, "after a long line")

    def __init__(self, path: Path, terminator: str = "\n") -> None:
        self.path, self.terminator = path, terminator
        self.worker: Mapping[str, Any] = {"file.allowed.paths": [str(path.parent)]}

    def connector(self) -> Connector:
        return FileStreamSourceConnector()

    def config(self) -> dict[str, str]:
        return {"name": "c", "connector.class": APACHE, "topic": "t", "file": str(self.path)}

    def put(self, values: Any) -> None:
        self.write("".join(value + self.terminator for value in values).encode())

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


@pytest.fixture
def rig(tmp_path: Path) -> FileRig:
    return FileRig(tmp_path / "in.txt")


@pytest.fixture
def drive(rig: FileRig) -> Any:
    drive = SourceDrive(rig)
    yield drive
    drive.task.stop()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "ROTATION_QUIET_S", 0.0)


class TestFileSource(SourceContract):
    @pytest.fixture(params=["\n", "\r\n"])
    def rig(self, tmp_path: Path, request: pytest.FixtureRequest) -> SourceRig:
        return FileRig(tmp_path / "in.txt", request.param)


def offset(drive: SourceDrive) -> dict[str, Any]:
    return json.loads(next(iter(drive.stored.values())))


def test_offsets_count_bytes_and_lines(rig: FileRig, drive: SourceDrive) -> None:
    rig.write("grüße\nb\r\n\n".encode())
    assert drive.run() == ["grüße", "b", ""]
    assert list(drive.stored) == [json.dumps({"filename": str(rig.path)})]
    assert (offset(drive)["position"], offset(drive)["line"]) == (12, 3)


def test_an_unfinished_line_waits_for_its_end(rig: FileRig, drive: SourceDrive) -> None:
    rig.write(b"one\ntw")
    assert drive.run() == ["one"]
    assert drive.plan() is None
    rig.write(b"o")
    assert drive.plan() is None
    rig.write(b"\nthree\r")
    assert drive.run() == ["two"]
    rig.write(b"\nfour\r")
    assert drive.run() == ["three"]
    rig.write(b"five\n")
    assert drive.run() == ["four", "five"]


@pytest.mark.parametrize("limit", [LARGE, SMALL, Limit(1, 1)])
def test_lone_carriage_returns_end_lines(rig: FileRig, drive: SourceDrive, limit: Limit) -> None:
    rig.write(b"a\rb\r\rc\r\nd\n\re\n")
    assert drive.run(limit) == ["a", "b", "", "c", "d", "", "e"]


def test_invalid_utf8_is_replaced_and_counted_in_its_own_bytes(rig: FileRig, drive: SourceDrive) -> None:
    rig.write(b"ok\n\xff\xfe\n\xc3\n\xbc\nend\n")
    assert drive.run() == ["ok", "��", "�", "�", "end"]
    assert offset(drive)["position"] == 14


def test_a_missing_file_is_waited_for_and_said_once(
    rig: FileRig, drive: SourceDrive, caplog: pytest.LogCaptureFixture
) -> None:
    assert [drive.plan() for _ in range(5)] == [None] * 5
    assert [r.getMessage() for r in caplog.records if "waiting for it" in r.getMessage()] == [
        f"Couldn't find file {rig.path} for FileStreamSourceTask, waiting for it to be created"
    ]
    rig.put(["here"])
    assert drive.run() == ["here"]


def test_apaches_offset_is_carried_on(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two", "three"])
    drive.stored[json.dumps({"filename": str(rig.path)})] = '{"position": 4}'
    assert drive.run() == ["two", "three"]
    assert (offset(drive)["position"], offset(drive)["line"]) == (14, None)


@pytest.mark.parametrize("position", ["4", 4.0, True])
def test_a_position_of_another_type_is_refused(rig: FileRig, drive: SourceDrive, position: Any) -> None:
    rig.put(["one"])
    drive.stored[json.dumps({"filename": str(rig.path)})] = json.dumps({"position": position})
    with pytest.raises(FileError, match=r"^Offset position is the incorrect type$"):
        drive.plan()


@pytest.mark.parametrize("restart", [False, True])
def test_a_truncated_file_is_said_and_read_from_its_start(
    rig: FileRig, drive: SourceDrive, restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rig.put(["one", "two", "three"])
    drive.run()
    rig.path.write_bytes(b"new\n")
    if restart:
        drive.restart()
    assert drive.run() == ["new"]
    assert (offset(drive)["position"], offset(drive)["line"], offset(drive)["_generation"]) == (4, 1, 1)
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "replaced" in r.getMessage()]
    assert "position 14 (line 3)" in said
    assert "position 0 of 4" in said
    assert drive.plan() is None


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_was_overwritten_by_a_longer_one_is_noticed(
    rig: FileRig, drive: SourceDrive, restart: bool
) -> None:
    rig.put(["one", "two"])
    drive.run()
    new = [f"another {n}" for n in range(50)]
    rig.path.write_text("".join(f"{line}\n" for line in new))
    if restart:
        drive.restart()
    assert drive.run(SMALL) == new


@pytest.mark.parametrize("same", [True, False])
def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(rig: FileRig, drive: SourceDrive, same: bool) -> None:
    rig.put(["one", "two"])
    drive.run()
    rig.put(["three"])
    old = rig.path.rename(rig.path.with_suffix(".1"))
    new = ["one", "two", "three"] if same else ["four"]
    rig.put(new)
    with old.open("ab") as file:
        file.write(b"late\nunfinished")
    # A plan that failed in the middle of the turn comes again.
    seen = [value for _ in range(2) for _, value, _ in drive.rows(drive.plan(SMALL) or pytest.fail("no plan"))]
    assert seen[0] == "three"
    assert drive.run(SMALL) == ["three", "late", "unfinished", *new]
    assert offset(drive)["_generation"] == 1
    assert drive.plan() is None
    rig.put(["more"])
    drive.restart()
    assert drive.run() == ["more"]


def test_a_failed_batch_of_a_new_generation_comes_again(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two"])
    drive.run()
    rig.path.unlink()
    rig.put(["one", "two"])
    for _ in range(3):
        plan = drive.plan()
        assert plan is not None
        assert [value for _, value, _ in drive.rows(plan)] == ["one", "two"]
    drive.store(drive.rows(plan))
    assert drive.plan() is None


def test_a_file_rotated_while_the_worker_was_down_is_finished_first(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two"])
    drive.run()
    drive.task.stop()
    rig.put(["three"])
    rig.path.rename(rig.path.with_name("in.txt.1"))
    rig.put([f"a new file that is longer {n}" for n in range(9)])
    drive.restart()
    assert drive.run(SMALL) == ["three", *(f"a new file that is longer {n}" for n in range(9))]
    drive.restart()
    assert drive.plan() is None


def test_a_renamed_file_is_given_time_for_its_writer_to_reopen(
    rig: FileRig, drive: SourceDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "ROTATION_QUIET_S", 1.0)
    now = [100.0]
    monkeypatch.setattr(follow.time, "monotonic", lambda: now[0])
    rig.put(["one"])
    drive.run()
    old = rig.path.rename(rig.path.with_suffix(".1"))
    rig.put(["new"])
    assert drive.plan() is None
    now[0] += 0.9
    with old.open("ab") as file:
        file.write(b"late\n")
    assert drive.run() == ["late"]
    now[0] += 0.9
    assert drive.plan() is None
    now[0] += 1.1
    assert drive.run() == ["new"]


def test_a_reader_elsewhere_reads_the_renamed_file(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two"])
    plan = drive.plan()
    assert plan is not None
    code = (
        "import pickle, sys; reader = pickle.load(sys.stdin.buffer)\n"
        "print([v for b in reader.read(0) for v in b.column(0).to_pylist()])"
    )
    pickled = pickle.dumps(drive.task.reader(plan))
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True, timeout=60)
        assert ran.stdout == b"['one', 'two']\n"
        rig.path.unlink(missing_ok=True)
        rig.put(["another"])


def test_a_file_cut_between_plan_and_read_ends_the_batch_short(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two", "three"])
    plan = drive.plan()
    assert plan is not None
    os.truncate(rig.path, 6)
    rows = drive.rows(plan)
    assert [value for _, value, _ in rows] == ["one"]
    drive.store(rows)
    rig.write(b"o\n")
    assert drive.run() == ["two"[:2] + "o"]


def test_a_file_overwritten_between_plan_and_read_gives_no_mixture(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["one", "two", "three"])
    drive.store(drive.rows(drive.plan(Limit(1, 4)) or pytest.fail("no plan")))
    plan = drive.plan()
    assert plan is not None
    rig.path.write_bytes(b"xxx\nyyy\nzzzzz\n")
    assert drive.rows(plan) == []
    assert drive.run() == ["xxx", "yyy", "zzzzz"]


def test_a_plan_keeps_to_its_limit_but_takes_one_line_at_least(rig: FileRig, drive: SourceDrive) -> None:
    rig.put(["x" * 99] * 1000 + ["y" * 300_000] + ["z"])
    plan = drive.plan(Limit(10_000, 5_000))
    assert plan is not None
    assert (plan.bytes, plan.rows) == (5_000, 50)
    plan = drive.plan(Limit(10, 1 << 20))
    assert plan is not None
    assert len(drive.rows(plan)) == 10
    drive.store(drive.rows(drive.plan(Limit(1000, 100_000)) or pytest.fail("no plan")))
    plan = drive.plan(Limit(10, 1000))
    assert plan is not None
    assert drive.rows(plan)[0][1] == "y" * 300_000


@pytest.mark.parametrize("limit", [Limit(10, 500), LARGE], ids=["planning", "reading"])
def test_a_line_beyond_the_bound_fails_with_what_to_do(
    rig: FileRig, drive: SourceDrive, monkeypatch: pytest.MonkeyPatch, limit: Limit
) -> None:
    monkeypatch.setattr(follow, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(reader, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(reader, "CHUNK_BYTES", 500)
    rig.put(["one", "x" * 2000, "two"])
    drive.store(drive.rows(drive.plan(Limit(1, 4)) or pytest.fail("no plan")))
    with pytest.raises(FileError, match=rf"position 4 of {rig.path} is longer than 1000 bytes.*PATCH"):
        drive.rows(drive.plan(limit) or pytest.fail("no plan"))


def test_idle_plans_read_nothing(rig: FileRig, drive: SourceDrive, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put(["one"])
    rig.write(b"unfinished")
    drive.run()
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("read"))
    assert drive.plan() is None
    monkeypatch.undo()


@pytest.mark.parametrize("allowed", [[], ["/nowhere"]])
def test_what_is_not_a_file_is_refused(tmp_path: Path, allowed: list[str]) -> None:
    rig = FileRig(tmp_path)
    rig.worker = {"file.allowed.paths": allowed}
    with pytest.raises((FileError, ConfigError), match=r"not a regular file|lies outside"):
        SourceDrive(rig).plan()


def test_one_task_with_the_config_unchanged(rig: FileRig) -> None:
    connector = FileStreamSourceConnector()
    connector.start(rig.config(), None)  # type: ignore[arg-type]
    assert connector.task_configs(5) == [rig.config()]
    assert connector.task.place is Place.WORKER_HOST


def test_settings_are_apaches(vectors: dict[str, Any]) -> None:
    infos = [setting.key_info() for setting in FileStreamSourceConnector.settings]
    documented = [{k: v for k, v in info.items() if k != "documentation"} for info in infos]
    assert documented == vectors[APACHE]["config"][:3]
    assert all(info["documentation"] for info in infos)


@pytest.mark.parametrize("topic", [None, "", "  "])
def test_the_topic_is_required(topic: str | None) -> None:
    with pytest.raises(ConfigError, match="topic"):
        FileStreamSourceConnector().start({} if topic is None else {"topic": topic}, None)  # type: ignore[arg-type]


FILE = {"filename": "f"}


@pytest.mark.parametrize(
    ("partition", "value", "text"),
    [
        (FILE, {}, "Offset objects should either be null or contain the key 'position'"),
        (FILE, {"position": 1.5}, "The value for the 'position' key in the offset is expected to be a Long value"),
        (FILE, {"position": "1"}, "The value for the 'position' key in the offset is expected to be a Long value"),
        (FILE, {"position": None}, "The value for the 'position' key in the offset is expected to be a Long value"),
        (FILE, {"position": -1}, "The value for the 'position' key in the offset should be a non-negative value"),
        (None, {"position": 1}, "Partition objects cannot be null"),
        ({"x": 1}, {"position": 1}, "Partition objects should contain the key 'filename'"),
    ],
)
def test_offsets_are_refused_in_apaches_words(partition: Any, value: Any, text: str) -> None:
    offsets = {"offsets": [{"partition": partition, "offset": value}]}
    with pytest.raises(FileError) as raised:
        FileStreamSourceConnector().check_offsets({"file": "f", "topic": "t"}, offsets)
    assert str(raised.value) == text


def test_offsets_may_be_set_and_removed() -> None:
    good = [
        {"partition": FILE, "offset": {"position": 0}},
        {"partition": FILE, "offset": {"position": 34, "line": 3}},
        {"partition": {"whatever": 1}, "offset": None},
    ]
    assert FileStreamSourceConnector().check_offsets({"file": "f", "topic": "t"}, {"offsets": good})
    with pytest.raises(FileError, match=r"^Offsets cannot be modified if the 'file' configuration is unspecified"):
        FileStreamSourceConnector().check_offsets({"topic": "t"}, {"offsets": good})
