"""An author's project: its tests have the fixtures `kafka` and `worker`, without a line about them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = """
from headrace.plugins import Record, RecordSink, RecordSource, Setting


class Numbers(RecordSource):
    settings = [Setting("topic"), Setting("upto", 3)]

    def poll(self, after):
        for number in range((after or {"n": 0})["n"], self.config["upto"]):
            yield Record({"number": number}, key=str(number), offset={"n": number + 1})


class Lines(RecordSink):
    settings = [Setting("file")]

    def put(self, records):
        with open(self.config["file"], "a") as file:
            file.writelines(f"{record.value['number']}\\n" for record in records)
"""

TESTS = """
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def plugin_path():
    return [Path(__file__).parent / "plugins"]


def test_a_source(worker):
    worker.create("numbers", {"connector.class": "Numbers", "topic": "numbers"})
    found = worker.records("numbers", 3)
    assert [(one.key, one.json()) for one in found] == [(b'"%d"' % n, {"number": n}) for n in range(3)]
    worker.create("numbers", {"connector.class": "Numbers", "topic": "numbers", "upto": "5"})
    assert [one.json()["number"] for one in worker.records("numbers", 5)] == [0, 1, 2, 3, 4]


def test_a_sink(worker, tmp_path):
    worker.send("lines", [{"number": n} for n in range(4)])
    worker.create("lines", {"connector.class": "Lines", "topics": "lines", "file": str(tmp_path / "out")})
    deadline = time.monotonic() + 120
    while not (tmp_path / "out").exists() or (tmp_path / "out").read_text() != "0\\n1\\n2\\n3\\n":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_wrong_is_told(worker, kafka):
    with pytest.raises(AssertionError, match="(?s)nothing was refused: .*topic"):
        worker.create("nothing", {"connector.class": "Numbers"})
    worker.create("bad", {"connector.class": "Numbers", "topic": "bad", "upto": "0"})
    with pytest.raises(AssertionError, match="expected: 1 records are in the topic bad"):
        worker.records("bad", 1, within_s=1)
    assert kafka.is_running
"""


def test_an_authors_project_runs_its_plugins_on_a_worker(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "authors_own.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "test_authors_own.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "headrace.worker.testing.pytest_plugin", str(tmp_path)]
    # As the entry point does, whatever else this environment has installed.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run([*command, "--rootdir", str(tmp_path)], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout
