"""Random walks of the file source: stops within batches, restarts, new files; each row arrives once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.hdfs.source import inspection, progress, task
from headrace.plugins.contracts import Limit, PartitionResult, Plan
from headrace.plugins.testkit.driving import Started
from tests.unit.connectors.hdfs.source.test_source import FolderRig, Walk


class WalkOfPieces(Walk):
    """Cuts each Parquet file."""

    def _started(self) -> Started:
        made = super()._started()
        assert isinstance(made.task, task.FileSourceTask)
        made.task._listing.settings = replace(made.task._listing.settings, split_bytes=100)
        return made


def put(rig: FolderRig, random: Random, number: int) -> list[str]:
    """A new file of text, or of Parquet in several row groups; its rows."""
    rows = [f"{number}-{row}" for row in range(random.choice([0, 1, 2, 5, 30]))]
    name = f"t/{random.randrange(100):02}-{number}"
    if number % 3 or not rows:
        rig.file(f"{name}.txt", "".join(f"{row}\n" for row in rows).encode())
        return rows
    unfinished = rig.root / "unfinished"
    pq.write_table(pa.table({"row": rows}), unfinished, row_group_size=random.choice([2, 7]))
    rig.file(f"{name}.parquet", unfinished.read_bytes())
    return rows


def batch(walk: Walk, plan: Plan, random: Random) -> list[str]:
    """The rows that reach Kafka: all, or, where the task is stopped, some first ones of each split."""
    is_stopped = random.random() < 0.3
    made, reached, reader = [], [], walk.reader(plan)
    for number, split in enumerate(plan.splits):
        rows = [row for part in reader.read(number) for row in part.to_pylist()]
        assert not any(row["problem"] for row in rows)
        if is_stopped:
            rows = rows[: random.randrange(len(rows) + 1)]
        offset = rows[-1]["source_offset"] if rows else None if is_stopped else split.offset_if_empty
        if offset is not None:
            reached.append(PartitionResult(source_partition=split.partition, source_offset=offset))
        made += [value if isinstance(value := row["value"], str) else value["row"] for row in rows]
    walk.task.delivered(reached)
    for one in reached:
        walk.stored[json.dumps(one.source_partition, sort_keys=True)] = json.dumps(one.source_offset)
    return made


@pytest.mark.parametrize("seed", range(20))
def test_each_row_arrives_once(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(progress, "SLOTS", slots := random.choice([8, 12, 30]))
    monkeypatch.setattr(progress, "_FEW", slots // 4)
    monkeypatch.setattr(progress, "SEGMENT", random.choice([slots, 3 * slots]))
    monkeypatch.setattr(progress, "_ASKED", random.choice([1, 3]))
    monkeypatch.setattr(task, "MOST_FILES", random.choice([1, 3, 6]))
    monkeypatch.setattr(inspection, "_MOST_PIECES", 3)
    rig = FolderRig(tmp_path)
    walk, wanted, arrived = WalkOfPieces(rig), [], []
    for number in range(60):
        wanted += put(rig, random, number)
        for _ in range(random.randrange(3)):
            plan = walk.plan(Limit(random.choice([1, 4, 1000]), random.choice([1, 100, 1 << 20])))
            if plan is not None:
                arrived += batch(walk, plan, random)
        if random.random() < 0.2:
            walk.restart()
    arrived += [value if isinstance(value, str) else value["row"] for _, value in walk_on(walk)]
    assert sorted(arrived) == sorted(wanted)
    walk.task.stop()


def walk_on(walk: Walk) -> list[tuple[str, object]]:
    """Everything that is left; after a start some plans may only find out what was read."""
    return [row for _ in range(20) for row in walk.all()]
