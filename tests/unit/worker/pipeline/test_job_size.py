"""A job is as large as what is done in a few seconds."""

from __future__ import annotations

import pytest

from headrace.plugins.contracts import Limit
from headrace.worker.pipeline.job_size import FIRST_JOB, JOB_S, LARGEST_JOB, JobSize


def test_nothing_is_known_of_the_first_job() -> None:
    assert JobSize(100).limit == FIRST_JOB


@pytest.mark.parametrize(
    ("jobs", "rows"),
    [
        ([(1000, 1)], int(1000 * JOB_S)),
        ([(1000, 1000)], 100),
        ([(10**9, 1)], LARGEST_JOB.rows),
        ([(100_000, 1), (50, 1)], int(100_000 * JOB_S)),
        ([(100_000, 1), (400_000, 8)], 400_000),
        ([(100_000, 1), (1000, 80)], 100),
    ],
)
def test_a_job_is_as_large_as_what_the_last_ones_did_in_a_few_seconds(jobs: list[tuple[int, float]], rows: int) -> None:
    size = JobSize(100)
    for did, seconds in jobs:
        size.took(did, seconds)
    assert size.limit == Limit(rows, LARGEST_JOB.bytes)
