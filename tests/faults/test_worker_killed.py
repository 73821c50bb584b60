"""`kill -9` of the worker at any moment: every line arrives at least once, none is lost, first arrivals keep order."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from headrace.worker.offsets import OffsetFile
from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    connector_file,
    envelope,
    eventually,
    lines_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINE_BYTES = 105
ORPHANS_GONE_S = 10.0


class Writer(threading.Thread):
    """Appends numbered lines in bursts of very different sizes, torn in the middle of lines, at its own pace."""

    def __init__(self, path: Path, lines: int, seconds: float, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._lines = lines
        self._seconds = seconds
        self._chance = chance
        self.over = False

    def run(self) -> None:
        data = b"".join(line(number) + b"\n" for number in range(self._lines))
        with open(self._path, "ab", buffering=0) as file:
            sent = 0
            while sent < len(data):
                burst = int(10 ** self._chance.uniform(1, 7.1))
                file.write(data[sent : sent + burst])
                sent += burst
                time.sleep(self._seconds * burst / len(data) + 0.02)
        self.over = True


def line(number: int) -> bytes:
    return f"{number:09d} {'x' * (LINE_BYTES - 11)}".encode()


@pytest.mark.parametrize(
    ("lines", "kills", "seed"),
    [
        pytest.param(300_000, 2, 3, id="short"),
        pytest.param(2_000_000, 12, 1, id="long-1", marks=pytest.mark.soak),
        pytest.param(2_000_000, 12, 2, id="long-2", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(1800)
def test_a_worker_killed_at_random_moments_loses_no_line(
    broker: str, tmp_path: Path, lines: int, kills: int, seed: int
) -> None:
    chance = random.Random(seed)
    topic, file, sink = Topic(broker, "killed"), tmp_path / "lines.txt", tmp_path / "sink.txt"
    connectors = [
        connector_file(tmp_path, "source", connector_class=SOURCE, file=str(file), topic=topic.name),
        connector_file(tmp_path, "sink", connector_class=SINK, file=str(sink), topics=topic.name),
    ]
    file.touch()
    writer = Writer(file, lines, 4.0 * kills, random.Random(seed))
    with WorkerProcess(tmp_path, broker, connectors) as worker:
        writer.start()
        for number in range(kills):
            eventually(lambda: worker.states("sink") == ["RUNNING"], 60, worker.log)
            before = topic.end()
            if number % 2:
                eventually(lambda before=before: topic.end() > before or writer.over, 30, worker.log)
            threading.Event().wait(chance.uniform(0, 2.5))  # any moment: that is what is tried here
            family = worker.family()
            worker.kill()
            OffsetFile(worker.offset_file)
            began = time.monotonic()
            eventually(lambda: worker.family() == [], ORPHANS_GONE_S, worker.family)
            assert time.monotonic() - began < ORPHANS_GONE_S
            assert len(family) > 1
            worker.start()
        eventually(lambda: writer.over, 120)
        eventually(lambda: last(sink) == lines - 1, 120, worker.log)
        assert worker.stop() == 0
    expected = [line(number) for number in range(lines)]
    assert list(dict.fromkeys(topic.values())) == [envelope(each.decode()) for each in expected]
    arrived = lines_of(sink)
    assert list(dict.fromkeys(each for each in arrived if len(each) == LINE_BYTES - 1)) == expected
    torn = [each for each in arrived if len(each) != LINE_BYTES - 1]
    assert len(torn) <= kills
    assert all(any(each == whole[: len(each)] for whole in (line(int(each[:9])),)) for each in torn if len(each) > 9)


def last(sink: Path) -> int:
    """The number of the last whole line."""
    if not sink.exists():
        return -1
    with open(sink, "rb") as file:
        file.seek(max(0, sink.stat().st_size - 10 * LINE_BYTES))
        whole = [each for each in file.read().split(b"\n")[:-1] if len(each) == LINE_BYTES - 1]
    return int(whole[-1][:9]) if whole else -1
