"""Places and sizes of batches when executors are elsewhere, are lost, or cannot be used yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.contracts import Place, Plan
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.pipeline.placement import JOB_ROWS, SourcePlacement


def engine(is_local: bool = False, is_checked: bool = True) -> Engine:
    pool: Any = SimpleNamespace(
        spark=SimpleNamespace(is_local=is_local, executors=SimpleNamespace(is_ready=is_checked))
    )
    return Engine(pool, Quota(1), Quota(1))


@pytest.mark.parametrize(
    ("place", "is_local", "may_go"),
    [
        (Place.ANYWHERE, False, True),
        (Place.WORKER_HOST, False, False),
        (Place.WORKER_HOST, True, True),
        (Place.WORKER_PROCESS, True, False),
    ],
)
def test_only_what_is_not_bound_goes_to_a_cluster(place: Place, is_local: bool, may_go: bool) -> None:
    assert engine(is_local).may_be_job(place) is may_go


def test_nothing_goes_to_executors_that_were_not_checked() -> None:
    unchecked = engine(is_checked=False)
    assert not unchecked.may_be_job(Place.ANYWHERE)
    placement = SourcePlacement(unchecked, SimpleNamespace(place=Place.ANYWHERE))  # type: ignore[arg-type]
    assert placement.limit.rows == JOB_ROWS, "the worker is not long at what a job may do soon"


def test_a_job_that_failed_makes_the_next_ones_shorter_until_batches_end() -> None:
    placement = SourcePlacement(engine(), SimpleNamespace(place=Place.ANYWHERE))  # type: ignore[arg-type]
    whole = placement.limit
    sizes = []
    for _ in range(6):
        placement.job_failed(Plan((), rows=placement.limit.rows, bytes=1))
        sizes.append(placement.limit.rows)
    assert sizes[0] == whole.rows // 2
    assert sizes[-1] == JOB_ROWS, "what is smaller would not be a job"
    assert placement.is_job(Plan((), rows=JOB_ROWS, bytes=1))
    for _ in range(6):
        placement.batch_done()
    assert placement.limit == whole


def test_what_is_bound_to_the_worker_is_said_where_there_is_a_cluster(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    engine(is_local=True).say_if_bound("files-0", Place.WORKER_HOST)
    engine().say_if_bound("tables-0", Place.ANYWHERE)
    assert not caplog.records
    engine().say_if_bound("files-0", Place.WORKER_HOST)
    assert "files-0: all batches run in this worker and not on the Spark cluster" in caplog.text
