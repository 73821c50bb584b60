"""`kill -9` of the worker at any moment: every line arrives at least once, none is lost, first arrivals keep order."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from headrace.worker.storage.offset_file import OffsetFile
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
ORPHANS_GONE_S = 60.0
LONG_REMEMBERED = {"consumer_override_session_timeout_ms": "300000"}
"""The group keeps the place of the member that was killed longer than any wait here, so it must be taken over."""


class Writer:
    """Appends numbered lines in bursts of very different sizes, torn in the middle of lines."""

    def __init__(self, path: Path, lines: int, chance: random.Random) -> None:
        self._path = path
        self._data = b"".join(line(number) + b"\n" for number in range(lines))
        self._chance = chance
        self._sent = 0
        self._path.touch()

    def append(self, upto: int) -> None:
        """As many lines are in the file, and maybe a part of the next."""
        end = min(len(self._data), upto * LINE_BYTES + self._chance.randrange(LINE_BYTES))
        with open(self._path, "ab", buffering=0) as file:
            while self._sent < end:
                burst = min(int(10 ** self._chance.uniform(2, 7.2)), end - self._sent)
                file.write(self._data[self._sent : self._sent + burst])
                self._sent += burst
                time.sleep(self._chance.uniform(0, 0.3))


def line(number: int) -> bytes:
    return f"{number:09d} {'x' * (LINE_BYTES - 11)}".encode()


@pytest.mark.parametrize(
    ("lines", "kills", "seed"),
    [
        pytest.param(200_000, 1, 3, id="short"),
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
        connector_file(tmp_path, "sink", connector_class=SINK, file=str(sink), topics=topic.name, **LONG_REMEMBERED),
    ]
    writer = Writer(file, lines, chance)
    with WorkerProcess(tmp_path, broker, connectors) as worker:
        for number in range(kills):
            eventually(lambda: worker.states("source") == worker.states("sink") == ["RUNNING"], 60, worker.log)
            before, share = topic.end(), lines // (kills + 1)
            appending = threading.Thread(target=writer.append, args=((number + 1) * share,))
            appending.start()
            reaches(topic, before + chance.randrange(1, share), worker)
            family = worker.family()
            worker.kill()
            OffsetFile(worker.offset_file)
            eventually(lambda: worker.family() == [], ORPHANS_GONE_S, worker.family)
            assert len(family) > 1
            appending.join()
            worker.start()
        writer.append(lines)
        eventually(lambda: last(sink) == lines - 1, 120, worker.log)
        assert worker.stop() == 0
    expected = [line(number) for number in range(lines)]
    assert list(dict.fromkeys(topic.values())) == [envelope(each.decode()) for each in expected]
    arrived = lines_of(sink)
    assert list(dict.fromkeys(each for each in arrived if len(each) == LINE_BYTES - 1)) == expected
    torn = [each for each in arrived if len(each) != LINE_BYTES - 1]
    assert len(torn) <= kills
    assert all(any(each == whole[: len(each)] for whole in (line(int(each[:9])),)) for each in torn if len(each) > 9)


def reaches(topic: Topic, end: int, worker: WorkerProcess) -> None:
    eventually(lambda: topic.end() >= end, 60, worker.log, every_s=0.05)


def last(sink: Path) -> int:
    """The number of the last whole line."""
    if not sink.exists():
        return -1
    with open(sink, "rb") as file:
        file.seek(max(0, sink.stat().st_size - 10 * LINE_BYTES))
        whole = [each for each in file.read().split(b"\n")[:-1] if len(each) == LINE_BYTES - 1]
    return int(whole[-1][:9]) if whole else -1
