"""`headrace run` as an author runs it: a connector of a file, with a broker and a worker of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WITHIN_S = 300
SOURCE = """
from headrace.plugins import Record, RecordSource, Setting

class Numbers(RecordSource):
    settings = [Setting("topic"), Setting("count")]

    def poll(self, after):
        first = 0 if after is None else after["n"] + 1
        for n in range(first, int(self.config["count"])):
            yield Record({"n": n, "by": "BY"}, key=n, offset={"n": n})
        if first == 0:
            print("the first poll")
"""
SINK = """
import json
from headrace.plugins import RecordSink, Setting

class Lines(RecordSink):
    settings = [Setting("path")]

    def put(self, records):
        with open(self.config["path"], "a") as file:
            file.writelines(json.dumps([r.key, r.value]) + "\\n" for r in records)
"""


class Run:
    """The command in a folder of its own, its temporary files below it so that leftovers are seen."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.folder = folder
        (folder / "tmp").mkdir()
        line = [sys.executable, "-u", "-m", "headrace.worker.cli.commands", "run", *map(str, arguments)]
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            env = {**os.environ, "TMPDIR": str(folder / "tmp")}
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)

    def out(self) -> list[str]:
        """The records shown."""
        return (self.folder / "out").read_text(encoding="utf-8").splitlines()

    def err(self) -> str:
        """All else that was told."""
        return (self.folder / "err").read_text(encoding="utf-8")

    def shows(self, *lines: str) -> None:
        """Wait until exactly these records were shown."""
        eventually(lambda: self.out() == list(lines) or self.process.poll() is not None, WITHIN_S, self.err)
        assert self.out() == list(lines), self.err()

    def ended(self) -> int:
        """Wait for its end, and see that it leaves nothing; returns the exit code."""
        code = self.process.wait(WITHIN_S)
        assert list((self.folder / "tmp").glob("headrace-run-*")) == []
        mark = str(self.folder / "tmp")
        eventually(
            lambda: not [one for one in psutil.process_iter(["cmdline"]) if mark in str(one.info["cmdline"])], 60
        )
        return code


def test_a_source_s_records_are_shown_also_once_its_file_was_saved_anew(tmp_path: Path) -> None:
    file = tmp_path / "numbers_of_a_run.py"
    file.write_text(SOURCE)
    run = Run(tmp_path, file, "--config", "topic=numbers", "count=2")
    try:
        first = ['numbers-0 @0  key=0  {"n":0,"by":"BY"}', 'numbers-0 @1  key=1  {"n":1,"by":"BY"}']
        run.shows(*first)
        file.write_text(SOURCE.replace('int(self.config["count"])', "3").replace("BY", "it"))
        run.shows(*first, 'numbers-0 @2  key=2  {"n":2,"by":"it"}')
        run.process.send_signal(signal.SIGINT)
        assert run.ended() == 0
        told = run.err()
        assert told.count("starting the worker") == 2
        assert told.count("the first poll") == 1
        assert f"{file} was saved" in told
    finally:
        run.process.kill()


@pytest.mark.long
def test_a_sink_gets_the_lines_of_a_file(tmp_path: Path) -> None:
    file, given, out = tmp_path / "lines_of_a_run.py", tmp_path / "given", tmp_path / "written"
    file.write_text(SINK)
    given.write_text('{"key": 1, "value": {"a": 1.5}}\nno JSON\n{"key": 1}\n')
    run = Run(tmp_path, file, "--keys", "--input", given, f"path={out}")
    try:
        assert run.ended() == 1, run.err()
        assert run.out() == ['records-0 @0  key=1  {"a": 1.5}', "records-0 @1  key=1  null"]
        assert out.read_text() == '[1, {"a": 1.5}]\n[1, null]\n'
        assert "line 2 was not sent: it is no JSON" in run.err()
        assert "2 records are written" in run.err()
    finally:
        run.process.kill()
