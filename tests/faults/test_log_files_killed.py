"""`kill -9` while logs are rotated, copied and compressed: no line is lost, and each log keeps its order."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

KEPT = 20


class Log:
    """A log of numbered lines that is rotated by rename, or by a copy."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self._chance = chance
        self.lines = 0

    def write(self, count: int) -> None:
        with self.path.open("a") as file:
            for number in range(self.lines, self.lines + count):
                file.write(f"{self.path.stem} {number:07d} {'x' * self._chance.randrange(60)}\n")
        self.lines += count

    def rotate(self) -> None:
        for number in range(KEPT, 0, -1):
            for end in ("", ".gz"):
                old = self._named(number, end)
                if old.exists():
                    old.rename(self._named(number + 1, end))
        if self._chance.random() < 0.5:
            self.path.rename(self._named(1))
            self.path.touch()
        else:
            shutil.copy(self.path, self._named(1))
            os.truncate(self.path, 0)
        if (second := self._named(2)).exists() and self._chance.random() < 0.7:
            with second.open("rb") as source, gzip.open(f"{second}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
            shutil.copystat(second, f"{second}.gz")
            second.unlink()

    def _named(self, number: int, end: str = "") -> Path:
        return self.path.with_name(f"{self.path.name}.{number}{end}")


@pytest.mark.parametrize(("kills", "seed"), [(1, 1), pytest.param(4, 2, marks=pytest.mark.soak)])
@pytest.mark.timeout(1200)
def test_logs_over_kills_and_rotations(broker: str, tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    folder = tmp_path / "logs"
    folder.mkdir()
    logs = [Log(folder / f"{name}.log", chance) for name in ("a", "b", "c")]
    topic = Topic(broker, "rotated")
    text = {"value_converter": "org.apache.kafka.connect.storage.StringConverter"}
    config = {"connector_class": "LogFiles", "paths": f"{folder}/*.log", "topic": topic.name, "tasks_max": "2"}
    source = connector_file(tmp_path, "source", **config, **text)
    for log in logs:
        log.write(1_000)
    with WorkerProcess(tmp_path, broker, [source]) as worker:
        for _ in range(kills):
            eventually(lambda: worker.states("source") == ["RUNNING"] * 2, 120, worker.log)
            for log in logs:
                log.write(chance.randrange(5_000))
            reaches(topic, topic.end() + 1, worker)
            worker.kill()
            for log in logs:  # twice while the worker is down
                for _ in range(chance.randrange(3)):
                    log.write(chance.randrange(1, 2_000))
                    log.rotate()
                log.write(chance.randrange(1, 2_000))
            worker.start()
            eventually(lambda: worker.states("source") == ["RUNNING"] * 2, 120, worker.log)
            for log in logs:  # and while it runs; what a copy lacks, logrotate loses as well
                eventually(lambda log=log: arrived(topic, log)[-1:] == [log.lines - 1], 120, worker.log)
                log.rotate()
                log.write(chance.randrange(1, 2_000))
        for log in logs:
            eventually(lambda log=log: arrived(topic, log)[-1:] == [log.lines - 1], 120, worker.log)
        assert worker.stop() == 0
    for log in logs:
        assert list(dict.fromkeys(arrived(topic, log))) == [*range(log.lines)]


def reaches(topic: Topic, end: int, worker: WorkerProcess) -> None:
    eventually(lambda: topic.end() >= end, 60, worker.log, every_s=0.05)


def arrived(topic: Topic, log: Log) -> list[int]:
    lines = (value.decode().split(" ") for value in topic.values())
    return [int(number) for name, number, _ in lines if name == log.path.stem]
