"""A look at a group of Spark's jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.worker.engine.job_group import JobGroup


@pytest.mark.parametrize(
    ("jobs", "active", "waits"), [([], 0, False), ([1], 0, True), ([1, 2], 0, True), ([1, 2], 1, False)]
)
def test_it_waits_while_its_jobs_have_begun_and_no_task_runs(jobs: list[int], active: int, waits: bool) -> None:
    asked: list[str] = []

    def of_group(name: str) -> list[int]:
        asked.append(name)
        return jobs

    tracker = SimpleNamespace(
        getJobIdsForGroup=of_group,
        getJobInfo=lambda number: SimpleNamespace(stageIds=[10 * number]),
        getStageInfo=lambda number: SimpleNamespace(numActiveTasks=active if number == 20 else 0),
    )
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert JobGroup(session, "c-0").waits() is waits
    assert len(asked) == 1, "one look asks Spark once for the group's jobs"
