"""Times the stages of a task's batches: once a batch, or once for each Arrow batch of it, never per record.

    read      a source: its plan and its reader; a sink: from the first message on, without the wait for it
    convert   decode or encode, and transform: one compiled program, whose parts cannot be told apart
    write     a source: until Kafka acknowledged; a sink: its writer, and its commit in the outside system
    commit    a source: its offsets are set, or its transaction committed; a sink: Kafka's answer to its group's commit
    copy      MirrorMaker: read and write at once
    job       a Spark job: all of it, because its stages run beside each other

What failed counts too: an outside system that is away shows as time of `write`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

Stage = Literal["read", "convert", "write", "commit", "copy", "job"]
STAGES: Final[tuple[Stage, ...]] = ("read", "convert", "write", "commit", "copy", "job")

T = TypeVar("T")


@dataclass
class StageTime:
    """A stage of one batch; it may have gone on in pieces between those of others. Units: `time.monotonic`."""

    began: float
    ended: float
    busy_s: float


class Stages:
    """The stages of one task; one thread at a time adds, any thread reads the totals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._totals: dict[Stage, float] = {}
        self._batch: dict[Stage, StageTime] = {}

    @contextlib.contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Time the work inside as this stage."""
        began = self._clock()
        try:
            yield
        finally:
            self.add(stage, self._clock() - began)

    def add(self, stage: Stage, seconds: float) -> None:
        """Add so many seconds, which end now, to this stage."""
        ended = self._clock()
        self._totals[stage] = self._totals.get(stage, 0.0) + seconds
        of_batch = self._batch.setdefault(stage, StageTime(ended - seconds, ended, 0.0))
        of_batch.ended = ended
        of_batch.busy_s += seconds

    def each(self, stage: Stage, parts: Iterator[T]) -> Iterator[T]:
        """Yield these parts, and time how each of them comes."""
        while True:
            with self.timed(stage):
                part = next(parts, None)
            if part is None:
                return
            yield part

    def take_batch(self) -> Mapping[Stage, StageTime]:
        """Return the stages since the last call: those of one batch."""
        taken, self._batch = self._batch, {}
        return taken

    def totals(self) -> Mapping[Stage, float]:
        """Return the seconds of each stage that there was, so far."""
        return dict(self._totals)
