"""`headrace quickstart` as a user runs it: broker, worker and pipe as processes, with everything that a shell sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """The quickstart in a folder of its own, its temporary files below it so that leftovers are seen."""
    temporary, here = folder / "tmp", folder / "here"
    temporary.mkdir()
    here.mkdir()
    line = [sys.executable, "-u", "-m", "headrace.worker.cli.commands", "quickstart", *map(str, arguments)]
    env = {**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=here)


def eventually(condition: Callable[[], bool], within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def assert_nothing_left(folder: Path) -> None:
    """Neither files outside what was to be kept, nor a broker or worker below this folder."""
    assert list((folder / "here").iterdir()) == []
    assert list((folder / "tmp").glob("headrace-quickstart-*")) == []
    assert not (folder / "state").exists()
    eventually(lambda: processes_of(folder) == [], within_s=60)


def processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_once_ends_by_itself_when_every_complete_line_has_arrived(tmp_path: Path) -> None:
    lines = [f"line {number} äöü" for number in range(20_000)]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines) + "\nthis one is not finished", encoding="utf-8")
    keep = tmp_path / "kept"
    process = start(tmp_path, "--once", "--json", "--keep", keep, file)
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert set(summary) == {"records", "seconds", "source", "topic", "sink"}
    assert summary["records"] == len(lines)
    assert summary["source"] == str(file)
    assert 0 < summary["seconds"] < 180
    sink = Path(summary["sink"])
    assert keep in sink.parents
    assert sink.read_text(encoding="utf-8").splitlines() == lines
    logged = next(keep.rglob("worker.log")).read_text(encoding="utf-8").splitlines()
    assert [line for line in logged if not line.startswith("[")] == []  # neither Spark nor its JVM adds lines
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_it_follows_the_brokers_own_log_until_ctrl_c(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    process = start(tmp_path, "--keep", keep)
    sink = keep / "sink.txt"
    try:
        eventually(lambda: sink.exists() and sink.read_bytes().count(b"\n") > 100)
        seen = sink.read_bytes().count(b"\n")
        eventually(lambda: sink.read_bytes().count(b"\n") > seen)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "http://127.0.0.1:" in out
    log = (keep / "kafka" / "logs" / "server.log").read_bytes()
    assert log.startswith(sink.read_bytes())
    assert b"shutdown completed" in log
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_lines_appended_while_it_runs_arrive_and_the_folder_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "grows.txt"
    file.write_text("one\n", encoding="utf-8")
    process = start(tmp_path, file)
    sinks = tmp_path / "tmp"

    def arrived(text: str) -> bool:
        return [path.read_text(encoding="utf-8") for path in sinks.glob("*/sink.txt")] == [text]

    try:
        eventually(lambda: arrived("one\n"))
        with open(file, "a", encoding="utf-8") as more:
            more.write("two\nthr")
        eventually(lambda: arrived("one\ntwo\n"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_a_worker_that_dies_ends_it_with_1_and_the_end_of_the_log(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n", encoding="utf-8")
    process = start(tmp_path, file)

    def workers() -> list[psutil.Process]:
        return [each for each in processes_of(tmp_path / "tmp") if "connect-standalone" in each.info["cmdline"]]

    try:
        eventually(lambda: any((tmp_path / "tmp").glob("*/sink.txt")) and workers() != [])
        for worker in workers():
            worker.kill()
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 1, out
    assert "the worker ended by itself with code -9" in err
    assert_nothing_left(tmp_path)
