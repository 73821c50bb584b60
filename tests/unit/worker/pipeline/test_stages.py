"""The stages of batches, by a clock that a test turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.worker.pipeline.stages import Stages, StageTime


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_stages_add_up_over_pieces_and_batches(clock: Clock) -> None:
    stages = Stages(clock)

    def pieces() -> Iterator[str]:
        for piece in "ab":
            clock.now += 1
            yield piece
        clock.now += 0.5

    for _ in stages.each("read", pieces()):
        with stages.timed("write"):
            clock.now += 2
    assert stages.take_batch() == {"read": StageTime(100, 106.5, 2.5), "write": StageTime(101, 106, 4)}
    assert stages.take_batch() == {}
    stages.add("job", 3)
    assert stages.totals() == {"read": 2.5, "write": 4, "job": 3}


def test_what_fails_counts(clock: Clock) -> None:
    stages = Stages(clock)

    def write() -> None:
        with stages.timed("write"):
            clock.now += 7
            raise OSError("away")

    with pytest.raises(OSError, match="away"):
        write()
    assert stages.totals() == {"write": 7}
