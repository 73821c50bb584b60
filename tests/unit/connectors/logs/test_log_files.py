"""LogFiles: the kit, and what only rotated, compressed and container's logs do."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.logs.files import directories, follow, looking
from headrace.connectors.logs.files.globs import Globs
from headrace.plugins.contracts import Limit, TaskContext
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import LARGE, SMALL, SourceContract, SourceDrive, SourceRig
from tests.log_rig import LogRig


@pytest.fixture
def rig(tmp_path: Path) -> LogRig:
    return LogRig(tmp_path)


@pytest.fixture
def drive(rig: LogRig) -> Iterator[SourceDrive]:
    drive = SourceDrive(rig)
    yield drive
    drive.task.stop()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "ROTATION_QUIET_S", 0.0)
    monkeypatch.setattr(follow, "_UNSTABLE_S", 0.0)


class TestLogFiles(SourceContract):
    @pytest.fixture(params=["\n", "\r\n"])
    def rig(self, tmp_path: Path, request: pytest.FixtureRequest) -> SourceRig:
        return LogRig(tmp_path, terminator=request.param)


class TestLogFilesOfSeveralLines(SourceContract):
    """Every line matches, so that each is an event of its own but for the last, which waits for the next."""

    @pytest.fixture
    def rig(self, tmp_path: Path) -> SourceRig:
        return LogRig(tmp_path, multiline_pattern="^never", multiline_timeout_ms="0")


def restarted(rig: LogRig, drive: SourceDrive) -> SourceDrive:
    drive.task.stop()
    other = SourceDrive(rig)
    other.stored = drive.stored
    return other


def test_rotation_by_rename_while_it_runs(rig: LogRig, drive: SourceDrive) -> None:
    rig.put(["one"])
    assert drive.run() == ["one"]
    rig.put(["two"])
    rig.rotate("app.log.1")
    rig.put(["three"])
    rig.write("late\n", "app.log.1")
    assert drive.run() == ["two", "late", "three"]
    assert list(drive.stored) == [json.dumps({"path": str(rig.path)})]


@pytest.mark.parametrize("names", [("app.log.2", "app.log.1"), ("app-2026-11-27.log", "app-2026-11-28.log")])
@pytest.mark.parametrize("compressed", [0, 1, 2])
def test_rotated_twice_and_compressed_while_the_worker_was_down(
    rig: LogRig, drive: SourceDrive, names: tuple[str, str], compressed: int
) -> None:
    rig.put(["one", "two"])
    assert drive.run() == ["one", "two"]
    rig.put(["three"])
    drive.task.stop()
    rig.path.rename(rig.folder / names[0])
    rig.put(["four", "five"])
    rig.path.rename(rig.folder / names[1])
    rig.put(["six"])
    for name in names[:compressed]:
        squeeze(rig.folder / name)
    after = restarted(rig, drive)
    assert after.run() == ["three", "four", "five", "six"]
    assert after.plan() is None
    after.task.stop()


def squeeze(path: Path) -> None:
    with path.open("rb") as source, gzip.open(f"{path}.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    path.unlink()


def test_a_compressed_file_that_was_read_is_not_read_again(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, paths=f"{tmp_path}/app.log*")
    drive = SourceDrive(rig)
    rig.put(["one", "two"])
    assert drive.run() == ["one", "two"]
    rig.rotate("app.log.1")
    assert drive.run() == []
    squeeze(rig.folder / "app.log.1")
    rig.put(["three"])
    assert drive.run() == ["three"]
    again = restarted(rig, drive)
    assert again.run() == []
    again.task.stop()


def test_a_file_that_is_being_compressed_is_of_its_log(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, paths=f"{tmp_path}/app.log*")
    drive = SourceDrive(rig)
    rig.put(["one"])
    assert drive.run() == ["one"]
    rig.rotate("app.log.1")
    rig.put(["two"])
    assert drive.run() == ["two"]
    (rig.folder / "app.log.1.gz").write_bytes(gzip.compress(b"one\n")[:-4])
    rig.put(["three"])
    assert drive.run() == ["three"]
    assert list(drive.stored) == [json.dumps({"path": str(rig.path)})]
    drive.task.stop()


def test_the_tenth_file_of_a_day_is_younger_than_the_ninth(rig: LogRig, drive: SourceDrive) -> None:
    names = [f"app-2026-11-28-{number}.log" for number in range(8, 12)]
    for name in names[:2]:
        rig.write(f"{name}\n", name)
    rig.put(["ten"])
    assert drive.run() == [*names[:2], "ten"]
    rig.rotate(names[2])
    rig.put(["eleven"])
    assert drive.run() == ["eleven"]
    after = restarted(rig, drive)
    rig.rotate(names[3])
    rig.put(["twelve"])
    rig.write("late\n", names[3])
    assert after.run() == ["late", "twelve"]
    after.task.stop()


@pytest.mark.parametrize("is_down", [False, True])
def test_copied_and_cut(rig: LogRig, drive: SourceDrive, is_down: bool) -> None:
    rig.put(["one", "two"])
    assert drive.run() == ["one", "two"]
    rig.put(["three"])
    if is_down:
        drive.task.stop()
    shutil.copy(rig.path, rig.folder / "app.log.1")
    os.truncate(rig.path, 0)
    rig.put(["a longer line than all before together"])
    after = restarted(rig, drive) if is_down else drive
    assert after.run() == ["three", "a longer line than all before together"]
    after.task.stop()


def test_cut_without_a_copy_it_is_read_from_its_start_which_the_log_tells(
    rig: LogRig, drive: SourceDrive, caplog: pytest.LogCaptureFixture
) -> None:
    rig.put(["one", "two"])
    drive.run()
    os.truncate(rig.path, 0)
    rig.put(["new"])
    assert drive.run() == ["new"]
    assert "was cut, overwritten or removed" in caplog.text


def test_an_inode_that_is_used_again_is_another_file(rig: LogRig, drive: SourceDrive) -> None:
    rig.put(["one", "two"])
    drive.run()
    drive.task.stop()
    inode = rig.path.stat().st_ino
    rig.path.write_text("other begin, longer than before\nsecond\n")
    assert rig.path.stat().st_ino == inode
    after = restarted(rig, drive)
    assert after.run() == ["other begin, longer than before", "second"]
    after.task.stop()


def test_removed_and_made_again(rig: LogRig, drive: SourceDrive) -> None:
    rig.put(["one"])
    drive.run()
    rig.put(["two"])
    rig.path.unlink()
    assert drive.run() == ["two"]
    assert drive.plan() is None
    rig.put(["three"])
    assert drive.run() == ["three"]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, ["oldest", "older", "old", "live"]),
        ({"exclude": "*.gz"}, ["older", "old", "live"]),
        ({"start_at": "live"}, ["live"]),
        ({"start_at": "end"}, []),
    ],
)
def test_the_beginning_of_a_log(tmp_path: Path, settings: dict[str, str], wanted: list[str]) -> None:
    rig = LogRig(tmp_path, **settings)
    for name, line in (("app.log.3", "oldest"), ("app.log.2", "older"), ("app.log.1", "old"), ("app.log", "live")):
        rig.write(f"{line}\n", name)
    squeeze(tmp_path / "app.log.3")
    drive = SourceDrive(rig)
    assert drive.run() == wanted
    rig.put(["later"])
    assert drive.run() == ["later"]
    drive.task.stop()


def test_a_rotated_file_ends_within_a_line(rig: LogRig, drive: SourceDrive) -> None:
    rig.write("one\ntw")
    assert drive.run() == ["one"]
    rig.rotate("app.log.1")
    rig.put(["three"])
    assert drive.run() == ["tw", "three"]


def test_many_files_and_few_descriptors(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, open_files_max="3")
    for number in range(200):
        rig.write(f"{number}\n", f"{number}.log")
    drive = SourceDrive(rig)
    assert sorted(map(int, drive.run())) == list(range(200))
    for number in range(0, 200, 7):
        rig.write(f"more {number}\n", f"{number}.log")
    (tmp_path / "7.log").rename(tmp_path / "7.log.1")
    rig.write("new\n", "7.log")
    assert sorted(drive.run()) == sorted([*(f"more {number}" for number in range(0, 200, 7)), "new"])
    held = [one for one in Path("/proc/self/fd").iterdir() if os.path.realpath(one).startswith(f"{tmp_path}/")]
    assert len(held) <= 3
    drive.task.stop()


def test_deep_patterns_excluded_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "pods" / "a" / "b").mkdir(parents=True)
    (tmp_path / "links").mkdir()
    rig = LogRig(tmp_path, paths=f"{tmp_path}/links/*.log,{tmp_path}/pods/**/*.log", exclude="secret*,*/b/x.log")
    for name in ("pods/top.log", "pods/a/mid.log", "pods/a/b/low.log", "pods/a/b/x.log", "pods/a/secret.log"):
        rig.write(f"{name}\n", name)
    (tmp_path / "links" / "same.log").symlink_to(tmp_path / "pods" / "top.log")
    (tmp_path / "links" / "0.log").symlink_to(tmp_path / "pods" / "a" / "0.log.txt")
    drive = SourceDrive(rig)
    assert sorted(drive.run()) == ["pods/a/b/low.log", "pods/a/mid.log", "pods/top.log"]
    rig.write("by its link\n", "pods/a/0.log.txt")
    assert drive.run() == ["by its link"]
    drive.task.stop()


def test_a_link_to_another_file(tmp_path: Path) -> None:
    """Kubernetes leads /var/log/containers/x.log to the next file once a container starts again."""
    (tmp_path / "pod").mkdir()
    rig = LogRig(tmp_path, paths=f"{tmp_path}/*.log")
    link = tmp_path / "x.log"
    rig.write("one\n", "pod/0.log")
    link.symlink_to("pod/0.log")
    drive = SourceDrive(rig)
    assert drive.run() == ["one"]
    rig.write("two\n", "pod/0.log")
    rig.write("three\n", "pod/1.log")
    link.unlink()
    link.symlink_to("pod/1.log")
    assert drive.run() == ["two", "three"]
    drive.task.stop()


def test_start_at_the_end_counts_from_the_first_look_on(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, start_at="end")
    rig.put(["old"])
    rig.write("", "empty.log")
    drive = SourceDrive(rig)
    assert drive.run() == []
    drive.task.stop()
    rig.put(["new"])
    rig.write("first\n", "empty.log")
    rig.write("all of a new file\n", "other.log")
    after = SourceDrive(rig)
    after.task.stop()
    after.stored = drive.stored
    context = after  # the offsets that the worker has
    task = type(drive.task)()

    def stored(partitions: Any) -> list[Any]:
        found = [context.stored.get(json.dumps(one, sort_keys=True)) for one in partitions]
        return [None if one is None else json.loads(one) for one in found]

    task.start(rig.config(), TaskContext("c", 0, StopToken(), rig.worker, stored_offsets=stored))
    after._take(type(after._running)(task, StopToken()))
    assert sorted(after.run()) == ["all of a new file", "first", "new"]
    task.stop()


def test_a_file_that_nobody_may_read_harms_no_other(
    rig: LogRig, drive: SourceDrive, caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("secret\n")
    (rig.folder / "link.log").symlink_to(outside)
    rig.put(["one"])
    assert drive.run() == ["one"]
    assert "link.log is not read" in caplog.text


def test_a_directory_that_nobody_may_list_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    globs = Globs([f"{tmp_path}/**/*.log"], [])
    assert globs.files() == globs.files() == {}
    assert [one.getMessage() for one in caplog.records] == [
        f"'{tmp_path}/closed' cannot be listed: Permission denied. Let this worker's user read it."
    ]


def test_a_name_that_is_not_utf_8_harms_no_other(
    rig: LogRig, drive: SourceDrive, caplog: pytest.LogCaptureFixture
) -> None:
    Path(os.fsdecode(os.fsencode(rig.folder) + b"/\xff.log")).write_text("other\n")
    rig.put(["one"])
    assert drive.run() == ["one"]
    assert r"\udcff.log' is not read: its name is not UTF-8" in caplog.text


def test_several_lines(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, multiline_pattern=r"^\s|^Caused", multiline_timeout_ms="600000")
    drive = SourceDrive(rig)
    rig.write("a\n  at b\nCaused by\n  at c\nd\n")
    assert drive.run(Limit(1, 1)) == ["a\n  at b\nCaused by\n  at c"]
    assert drive.plan() is None
    rig.write("\te\nf\n")
    assert drive.run() == ["d\n\te"]
    rig.rotate("app.log.1")
    rig.put(["g"])
    assert drive.run() == ["f"]
    drive.task.stop()


def test_several_lines_before_and_their_bounds(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, multiline_pattern=r"\\$", multiline_match="before", multiline_max_lines="3")
    drive = SourceDrive(rig)
    rig.write("a\\\nb\nc\n1\\\n2\\\n3\\\n4\\\n5\n")
    assert drive.run() == ["a\\\nb", "c", "1\\\n2\\\n3\\", "4\\\n5"]
    drive.task.stop()


def test_an_event_is_complete_once_nothing_follows(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, multiline_pattern="^ ", multiline_timeout_ms="0")
    drive = SourceDrive(rig)
    rig.write("a\n b\n")
    assert drive.run() == ["a\n b"]
    drive.task.stop()


def docker(text: str, stream: str = "stdout", second: int = 0) -> str:
    return json.dumps({"log": text, "stream": stream, "time": f"2026-11-28T10:00:{second:02}.123456789Z"}) + "\n"


def test_dockers_lines_are_joined_by_stream(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, "c-json.log", format="docker")
    drive = SourceDrive(rig)
    rig.write(docker("grü\u2028\n") + docker("to") + docker("err\n", "stderr", 1) + docker("get") + docker("her\n"))
    plan = drive.planned()
    rows = drive.reader(plan).read(0)
    batch = next(rows)
    assert batch.column("value").to_pylist() == ["grü\u2028", "together", "err"]
    assert batch.column("stream").to_pylist() == ["stdout", "stdout", "stderr"]
    assert batch.column("logged").to_pylist()[0] == 1795860000123
    positions = [one["position"] for one in batch.column("source_offset").to_pylist()]
    assert positions[1] == positions[2] == rig.path.stat().st_size
    drive.run()
    rig.write(docker("begun") + docker("other\n", "stderr"))
    assert drive.run() == []
    rig.write(docker(" and ended\n"))
    assert drive.run() == ["begun and ended", "other"]
    rig.write("torn {\x00\x00\n" + docker("goes on\n"))
    assert drive.run() == ["torn {\x00\x00", "goes on"]
    drive.task.stop()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (r'{"log":"half \ud83d\n","stream":"stdout","time":"\ud83d"}', "half ?"),
        ("[" * 100_000, "[" * 100_000),
        ('{"log":"torn', '{"log":"torn'),
    ],
)
def test_a_malformed_line_of_docker_is_read(tmp_path: Path, line: str, wanted: str) -> None:
    rig = LogRig(tmp_path, format="docker")
    drive = SourceDrive(rig)
    rig.put([line, r'{"log":"next\n","stream":"stdout","time":"2026-11-28T10:00:00Z"}'])
    assert drive.run() == [wanted, "next"]
    drive.task.stop()


def test_the_lines_of_cri(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, format="cri", multiline_pattern=r"^\s", multiline_timeout_ms="600000")
    drive = SourceDrive(rig)
    head = "2026-11-28T10:00:00.5+01:00"
    rig.write(f"{head} stdout P to\n{head} stderr F e1\n{head} stdout F gether\n{head} stdout F  at x\n")
    rig.write(f"{head} stderr F e2\n{head} stdout F \nno envelope\n{head} stdout F z\n{head} stderr F z\n")
    assert drive.run() == ["together\n at x", "e1", "e2", "", "no envelope"]
    rig.rotate("app.log.1")
    rig.write(f"{head} stdout F new\n{head} stdout F newer\n")
    assert drive.run() == ["z", "z", "new"]
    drive.task.stop()


def test_a_quiet_stream_holds_up_no_other(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, format="docker", multiline_pattern=r"^\s", multiline_timeout_ms="5000")
    drive = SourceDrive(rig)
    rig.write(docker("a\n") + docker("error\n", "stderr") + docker("b\n", second=4) + docker("c\n", second=4))
    assert drive.run() == ["a"]
    rig.write(docker("d\n", second=5))
    assert drive.run() == ["error", "b", "c"]
    drive.task.stop()


def test_a_part_whose_rest_never_comes_holds_up_nobody(tmp_path: Path) -> None:
    rig = LogRig(tmp_path, format="docker", line_max_bytes="1000", multiline_max_bytes="1000")
    drive = SourceDrive(rig)
    rig.write(docker("begun", "stderr"))
    lines = [f"{number:06}".ljust(500, "x") for number in range(4_000)]
    rig.write("".join(docker(f"{line}\n") for line in lines))
    assert [one for one in drive.run() if one != "begun"][:2_000] == lines[:2_000]
    drive.task.stop()


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "UTF-16LE", "UTF-16BE", "Shift_JIS", "windows-1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = "ソ表\\ x" if encoding == "Shift_JIS" else "grüße"
    rig = LogRig(tmp_path, encoding=encoding)
    drive = SourceDrive(rig)
    bom = "\ufeff" if encoding.startswith("UTF-16") else ""
    rig.write(f"{bom}{text}\r\nsecond\n\nthird {text}".encode(encoding))
    assert drive.run(SMALL) == [text, "second", ""]
    rig.write("\n".encode(encoding))
    assert drive.run() == [f"third {text}"]
    drive.task.stop()


def test_a_byte_order_mark_and_malformed_bytes(rig: LogRig, drive: SourceDrive) -> None:
    rig.write(b"\xef\xbb\xbfone\nok\n\xff\xfe\n\xc3\n\xbc\nlone\rreturn\nend\n")
    assert drive.run() == ["one", "ok", "\ufffd\ufffd", "\ufffd", "\ufffd", "lone\rreturn", "end"]


@pytest.mark.parametrize("limit", [LARGE, SMALL, Limit(1, 1)])
def test_lines_without_end_are_cut_and_none_is_lost(tmp_path: Path, limit: Limit) -> None:
    rig = LogRig(tmp_path, line_max_bytes="1000")
    drive = SourceDrive(rig)
    text = "ä" * 1_250
    rig.write(f"short\n{text}")
    found = drive.run(limit)
    rig.write(f"{text}\nnext\n")
    found += drive.run(limit)
    assert (found[0], found[-1]) == ("short", "next")
    assert "".join(found[1:-1]) == text + text
    assert max(len(one.encode()) for one in found) <= 1_002
    drive.task.stop()


def test_a_line_that_is_too_long_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = LogRig(tmp_path, line_max_bytes="1000")
    drive = SourceDrive(rig)
    for complete in (9, 10):
        rig.write("x" * 10_000)
        assert len(drive.run()) == complete
        assert caplog.text.count("is longer than line.max.bytes") == 1
    rig.write("\n" + "y" * 2_000)
    drive.run()
    assert caplog.text.count("is longer than line.max.bytes") == 2
    drive.task.stop()


def test_a_watch_that_tells_while_it_begins_stands_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tellers: list[threading.Thread] = []

    class Hasty:
        def watch(self, descriptor: int, told: Callable[[], None]) -> int:
            tellers.append(threading.Thread(target=told))
            tellers[-1].start()
            tellers[-1].join(0.05)
            return len(tellers)

    monkeypatch.setattr(directories, "INOTIFY", Hasty())
    watches = directories.Watches(lambda: None)
    for _ in range(2):
        assert not watches.stand([str(tmp_path)])
        tellers[-1].join()
    assert len(tellers) == 2


def test_what_is_watched_tells_of_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, woken = LogRig(tmp_path, scan_interval_ms="600000"), threading.Event()
    (tmp_path / "old.log").write_text("")
    task = type(rig.connector()).task()
    task.start(rig.config(), TaskContext("c", 0, StopToken(), rig.worker, wake=woken.set))
    monkeypatch.setattr(looking, "_HOT_S", 0.0)

    def plan() -> Any:
        return task.plan([None for _ in task.partitions()], LARGE)

    while not task.tells_of_news:
        assert plan() is None
    assert not woken.is_set()
    rig.write("x\n", "old.log")
    assert woken.wait(60)
    found = plan()
    assert [split.partition for split in found.splits] == [{"path": str(tmp_path / "old.log")}]
    task.stop()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("paths", ""),
        ("paths", "relative/*.log"),
        ("topic", ""),
        ("encoding", "UTF-16"),
        ("encoding", "nope"),
        ("multiline.pattern", "(?<!x)y"),
        ("format", "xml"),
    ],
)
def test_wrong_settings_are_named(rig: LogRig, key: str, value: str) -> None:
    connector = rig.connector()
    with pytest.raises(ConfigError, match=key):
        connector.settings.parse({**rig.config(), key: value})


def test_a_pattern_outside_of_the_allowed_paths_is_refused(rig: LogRig) -> None:
    connector = rig.connector()
    connector.worker = rig.worker
    [problem] = connector.validate({**rig.config(), "paths": "/etc/*.conf"})
    assert problem.key == "paths"


def test_offsets_are_checked(rig: LogRig) -> None:
    connector = rig.connector()
    assert connector.check_offsets({}, {"offsets": [{"partition": {"path": "/a"}, "offset": {"position": 0}}]})
    for offset in ({"position": -1}, {"position": "1"}, {}):
        with pytest.raises(ValueError, match="position"):
            connector.check_offsets({}, {"offsets": [{"partition": {"path": "/a"}, "offset": offset}]})


def test_an_operators_offset_is_about_the_live_file(rig: LogRig, drive: SourceDrive) -> None:
    rig.put(["one", "two", "three"])
    drive.stored[json.dumps({"path": str(rig.path)})] = '{"position": 4}'
    assert drive.run() == ["two", "three"]
