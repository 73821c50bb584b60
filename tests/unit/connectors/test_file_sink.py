"""The file sink: the kit, and what only files do."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.config.settings import ConfigError
from headrace.connectors.file import FileStreamSinkConnector, writer
from headrace.connectors.file.errors import FileError
from headrace.connectors.file.writer import LineWriter, joined
from headrace.plugins.contracts import Connector, Place, RetriableError
from headrace.plugins.extensions import Effect
from headrace.plugins.testkit import PreviewedSinkContract, SinkContract, SinkDrive, SinkRig
from tests.open_files import open_below

APACHE = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class FileRig(SinkRig):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.worker: Mapping[str, Any] = {"file.allowed.paths": [str(path.parent)]}

    def connector(self) -> Connector:
        return FileStreamSinkConnector()

    def config(self) -> dict[str, str]:
        return {"name": "c", "connector.class": APACHE, "topics": "t", "file": str(self.path)}

    def rows(self, values: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, pa.string())], names=["line"])

    def state(self) -> Any:
        return {one.name: one.read_bytes() for one in self.path.parent.iterdir()}

    def previewed(self, effects: Sequence[Effect]) -> list[str]:
        assert {effect.target for effect in effects} == {str(self.path)}
        return [effect.detail["line"] for effect in effects if effect.action == "append"]

    def contents(self) -> list[str]:
        text = self.path.read_bytes().decode()
        assert text == "" or text.endswith("\n")
        return text.split("\n")[:-1]


@pytest.fixture
def rig(tmp_path: Path) -> FileRig:
    return FileRig(tmp_path / "out.txt")


@pytest.fixture
def drive(rig: FileRig) -> Any:
    drive = SinkDrive(rig)
    yield drive
    drive.task.stop()


class TestFileSink(SinkContract, PreviewedSinkContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> SinkRig:
        return FileRig(tmp_path / "out.txt")


class TestFileSinkElsewhere(SinkContract):
    """As in an executor, where the task's open file is not at hand."""

    @pytest.fixture
    def rig(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkRig:
        monkeypatch.setattr(writer, "_KEPT", {})
        monkeypatch.setattr("headrace.connectors.file.sink.keep", lambda *_: None)
        return FileRig(tmp_path / "out.txt")


def test_it_appends_to_what_is_there(rig: FileRig, drive: SinkDrive) -> None:
    rig.path.write_text("before\n")
    drive.run(["a"])
    assert rig.contents() == ["before", "a"]


def test_a_torn_line_does_not_swallow_the_next(rig: FileRig, drive: SinkDrive) -> None:
    drive.run(["a"])
    with rig.path.open("ab") as file:
        file.write(b"tor")
    drive.run(["b"])
    drive.run(["c"])
    assert rig.contents() == ["a", "tor", "b", "c"]


@pytest.mark.parametrize("gone", ["renamed", "removed"])
def test_a_file_that_was_rotated_is_created_anew(rig: FileRig, drive: SinkDrive, gone: str) -> None:
    drive.run(["a"])
    if gone == "renamed":
        old = rig.path.rename(rig.path.with_suffix(".1"))
    else:
        rig.path.unlink()
    drive.run(["b"])
    assert rig.contents() == ["b"]
    if gone == "renamed":
        assert old.read_text() == "a\n"


def test_a_short_write_is_completed(rig: FileRig, drive: SinkDrive, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, pieces: real(fd, [bytes(b"".join(pieces))[:3]]))
    drive.run(["abcdefgh", "", "ij"])
    assert rig.contents() == ["abcdefgh", "", "ij"]


def test_a_write_that_fails_leaves_no_half_and_is_tried_again(
    rig: FileRig, drive: SinkDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive.run(["before"])
    real, calls = os.writev, []

    def full(fd: int, pieces: list[memoryview]) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, [bytes(b"".join(pieces))[:3]])

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        with pytest.raises(RetriableError, match=rf"'{rig.path}'.*No space left"):
            drive.run(["abcdefgh"])
    assert rig.path.read_bytes() == b"before\n"
    drive.run(["abcdefgh"])
    assert rig.contents() == ["before", "abcdefgh"]


def test_a_full_device_is_retriable() -> None:
    drive = SinkDrive(FileRig(Path("/dev/full")))
    with pytest.raises(RetriableError, match="No space left"):
        drive.run(["a"])
    drive.task.stop()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_the_right_to_write_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        SinkDrive(FileRig(tmp_path / "out.txt"))


def test_a_file_that_cannot_be_created_is_said_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "out.txt"
    rig = FileRig(file)
    rig.worker = {"file.allowed.paths": [str(tmp_path)]}
    with pytest.raises(FileError, match=f"^Couldn't find or create file '{file}' for FileStreamSinkTask: .*directory"):
        SinkDrive(rig)


def _append_many(path: str, letter: str) -> None:
    mine = LineWriter("elsewhere", path, ())
    lines = pa.record_batch([pa.array([letter * 5000] * 20)], names=["line"])
    for _ in range(30):
        mine.write(lines)
    mine.finish()


def test_lines_of_several_processes_never_tear(rig: FileRig) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append_many, args=(str(rig.path), letter)) for letter in "ab"]
    for process in processes:
        process.start()
    _append_many(str(rig.path), "c")
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    contents = rig.contents()
    assert {letter: contents.count(letter * 5000) for letter in "abc"} == {"a": 600, "b": 600, "c": 600}
    assert len(contents) == 1800


def test_a_writer_borrows_the_open_file_of_its_task(
    rig: FileRig, drive: SinkDrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
    drive.run(["a"])
    monkeypatch.undo()
    assert rig.contents() == ["a"]


def test_a_stopped_task_leaves_nothing_open(rig: FileRig) -> None:
    for _ in range(3):
        drive = SinkDrive(rig)
        drive.run(["a"])
        drive.task.close([])
        drive.task.stop()
    assert open_below(rig.path.parent) == []


def test_standard_output_without_a_file(rig: FileRig) -> None:
    code = (
        "import pyarrow as pa\n"
        "from headrace.connectors.file.sink import FileStreamSinkTask\n"
        "from headrace.plugins.contracts import StopToken, TaskContext\n"
        "task = FileStreamSinkTask(); task.start({'file': ''}, TaskContext('c', 0, StopToken()))\n"
        "assert task.place == 'worker process'\n"
        "writer = task.writer('1'); writer.write(pa.record_batch([pa.array(['ü', ''])], names=['line']))\n"
        "task.commit([writer.finish()]); task.stop()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert ran.stdout == "ü\n\n".encode()


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_slices_and_nulls_are_joined(type_: pa.DataType) -> None:
    lines = pa.array(["gone", "a", None, "", "b"], type_).slice(1)
    assert bytes(joined(lines)) == b"a\nnull\n\nb"
    assert bytes(joined(pa.array([""]))) == b""


def test_as_many_tasks_as_allowed_and_offsets_as_kafka_has_them(rig: FileRig) -> None:
    connector = FileStreamSinkConnector()
    connector.start(rig.config(), None)  # type: ignore[arg-type]
    assert connector.task_configs(3) == [rig.config()] * 3
    assert connector.check_offsets(rig.config(), {"offsets": []})
    assert connector.task.place is Place.WORKER_HOST


def test_settings_are_apaches(vectors: dict[str, Any]) -> None:
    infos = [setting.key_info() for setting in FileStreamSinkConnector.settings]
    documented = [{k: v for k, v in info.items() if k != "documentation"} for info in infos]
    assert documented == vectors[APACHE]["config"][:1]


def test_a_file_outside_is_refused_before_it_is_created(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rig = FileRig(tmp_path / "in" / ".." / "out.txt")
    rig.worker = {"file.allowed.paths": [str(tmp_path / "in")]}
    with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
        SinkDrive(rig)
    assert not (tmp_path / "out.txt").exists()


def test_a_writer_is_small_when_pickled(drive: SinkDrive) -> None:
    assert len(pickle.dumps(drive.task.writer("1"))) < 1000
