"""LogFiles over random rotations, copies, compressions and kills: no line is lost, and first arrivals keep order."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from pathlib import Path

import pytest

from headrace.connectors.logs.files import follow
from headrace.plugins.contracts import Limit
from headrace.plugins.testkit import LARGE, SourceDrive
from tests.log_rig import LogRig

KEPT = 12


class Writer:
    """The writer of a log, and what rotates it."""

    def __init__(self, rig: LogRig, chance: random.Random) -> None:
        self.rig, self.chance = rig, chance
        self.lines: list[str] = []

    def write(self) -> None:
        new = [
            f"{len(self.lines) + number:06d} {'x' * self.chance.randrange(80)}"
            for number in range(self.chance.randrange(1, 30))
        ]
        self.lines += new
        self.rig.put(new)

    def rotate(self) -> None:
        path = self.rig.path
        if not path.exists() or not path.stat().st_size:
            return
        for number in range(KEPT, 0, -1):
            for end in ("", ".gz"):
                if (old := self._named(number, end)).exists():
                    old.rename(self._named(number + 1, end))
        if self.chance.random() < 0.5:
            path.rename(self._named(1))
            if self.chance.random() < 0.5:
                path.touch()
        else:
            shutil.copy(path, self._named(1))
            os.truncate(path, 0)

    def compress(self) -> None:
        plain = [one for number in range(1, KEPT) if (one := self._named(number)).exists()]
        if plain:
            one = self.chance.choice(plain)
            with one.open("rb") as source, gzip.open(f"{one}.gz", "wb") as target:
                shutil.copyfileobj(source, target)
            if self.chance.random() < 0.5:
                shutil.copystat(one, f"{one}.gz")
            one.unlink()

    def _named(self, number: int, end: str = "") -> Path:
        return self.rig.path.with_name(f"{self.rig.path.name}.{number}{end}")


@pytest.mark.parametrize("seed", [*range(12), 28])
def test_random_rotations_and_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(follow, "ROTATION_QUIET_S", 0.0)
    monkeypatch.setattr(follow, "_UNSTABLE_S", 0.0)
    chance = random.Random(seed)
    rig = LogRig(tmp_path)
    writer, drive = Writer(rig, chance), SourceDrive(rig)
    arrived: list[str] = []
    stored: dict[str, str] = {}

    def step() -> None:
        plan = drive.plan(Limit(chance.randrange(1, 40), chance.randrange(1, 2_000)))
        if plan is not None:
            rows = drive.rows(plan)
            reached = rows[: chance.randrange(len(rows) + 1)]
            arrived.extend(row.value for row in reached)
            drive.store(reached)
            drive.progress.delivered([])

    rotations = 0
    while rotations < KEPT:
        what = chance.randrange(10)
        if what < 3:
            writer.write()
        elif what < 7:
            step()
        elif what == 7:
            writer.rotate()
            rotations += 1
        elif what == 8:
            writer.compress()
        elif chance.random() < 0.5:
            stored = dict(drive.stored)  # flushed
        else:
            drive.task.stop()
            drive = SourceDrive(rig)
            drive.stored = dict(stored)
    writer.write()
    while (plan := drive.plan(LARGE)) is not None:
        rows = drive.rows(plan)
        arrived += [row.value for row in rows]
        drive.deliver(plan, rows)
    drive.task.stop()
    assert list(dict.fromkeys(arrived)) == writer.lines
