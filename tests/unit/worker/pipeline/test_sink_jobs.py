"""What is seen of a sink's jobs, of which one begins before the one in front of it has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.contracts import Reached, RetriableError, Stop, TopicPartition
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.admission import Admission
from headrace.worker.engine.programs import Engine
from headrace.worker.logs import ConnectFormatter, connector_context
from headrace.worker.pipeline.background_job import Ranges
from headrace.worker.pipeline.job import JobCancelled, Written
from headrace.worker.pipeline.sink_jobs import SinkJobs
from headrace.worker.pipeline.walk import SinkWalk

P = TopicPartition("t", 0)
FIRST: Ranges = {P: (0, 10)}
SECOND: Ranges = {P: (10, 20)}


class Job:
    """Its rows are written when `go` is set, or it is cancelled."""

    def __init__(self, *ends: Reached | Exception, go: bool = False, heeds: bool = True) -> None:
        """`heeds`: it says itself that it was cancelled."""
        self.cancelled = False
        self.turn = StopToken()
        self.heeds = heeds
        self.ends = ends
        self.written = threading.Event()
        self.go = threading.Event()
        if go:
            self.go.set()

    def cancel(self) -> None:
        self.cancelled = True
        self.go.set()

    def sink(self, ranges: Ranges, *_: Any) -> Written:
        assert self.go.wait(10)
        if self.cancelled and self.heeds:
            raise JobCancelled("c-0")
        self.written.set()
        (end,) = self.ends or [Reached(P, ranges[P][1] - 1, written=10)]
        if isinstance(end, Exception):
            raise end
        return Written([end], [b"%d" % ranges[P][0]])


class Rig:
    """A walk whose sink stages, or does not."""

    def __init__(self, stages: bool = True, tolerate: bool = True, letters: bool = False) -> None:
        self.committed: list[bytes] = []
        self.writers: list[str] = []
        self.jobs = SinkJobs(1)
        walk: Any = object.__new__(SinkWalk)
        walk.engine = Engine(None, Admission(2), Admission(1))  # type: ignore[arg-type]
        walk.task = SimpleNamespace(
            commit=self.committed.extend, staging_writer=self._writer if stages else lambda _: None, writer=self._writer
        )
        handling = SimpleNamespace(tolerate=tolerate)
        walk.reporting = SimpleNamespace(handling=handling, wanted=letters, wants_bytes=letters)
        walk._decoding = SimpleNamespace(alone=(None, None), learn=lambda _: None)
        walk.about, walk.stop, walk._attempts, walk.kafka_options = "c-0", StopToken(), iter(range(9)), {}
        self.walk: SinkWalk = walk

    def _writer(self, attempt: str) -> str:
        self.writers.append(attempt)
        return attempt

    def begin(self, job: Job, ranges: Ranges) -> None:
        made: Any = job
        self.jobs.begin(made, ranges, lambda before: self.walk.there(ranges, made, 1, before))


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.jobs.cancel()


def test_the_second_writes_meanwhile_and_is_committed_behind_the_first(rig: Rig) -> None:
    first, second = Job(), Job(go=True)
    rig.begin(first, FIRST)
    rig.begin(second, SECOND)
    assert rig.jobs.are_enough
    assert rig.jobs.ends == {P: 20}
    assert second.written.wait(10)
    assert rig.committed == []
    first.go.set()
    assert [rig.jobs.take()[0].upto, rig.jobs.take()[0].upto] == [9, 19]
    assert rig.committed == [b"0", b"10"]
    assert not rig.jobs


@pytest.mark.parametrize(
    "end",
    [RetriableError("away"), Reached(P, 4, stop=Stop.FATAL), Reached(P, 4, stop=Stop.UNKNOWN), ValueError("a bug")],
)
def test_nothing_is_seen_of_the_second_where_the_first_stopped(rig: Rig, end: Reached | Exception) -> None:
    first = Job(end)
    rig.begin(first, FIRST)
    rig.begin(Job(go=True), SECOND)
    first.go.set()
    if isinstance(end, Exception):
        with pytest.raises(type(end), match=str(end)):
            rig.jobs.take()
    else:
        assert rig.jobs.take() == [end]
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert rig.committed == ([] if isinstance(end, Exception) else [b"0"])


def test_a_second_that_is_cancelled_while_it_waits_is_not_committed(rig: Rig) -> None:
    first, second = Job(), Job(go=True)
    rig.begin(first, FIRST)
    rig.begin(second, SECOND)
    assert second.written.wait(10)
    second.cancel()
    first.go.set()
    assert rig.jobs.take()[0].upto == 9
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert rig.committed == [b"0"]


@pytest.mark.parametrize("failed_before", [True, False], ids=["failed before", "fails of it"])
@pytest.mark.parametrize("failure", [ValueError("no such table"), RetriableError("no such table")])
def test_what_a_void_job_failed_of_is_nobodys_failure(
    rig: Rig, failed_before: bool, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = Job(RetriableError("away"))
    second = Job(failure, go=failed_before, heeds=False)
    rig.begin(first, FIRST)
    rig.begin(second, SECOND)
    assert not failed_before or second.written.wait(10)
    first.go.set()
    with pytest.raises(RetriableError, match="away"):
        rig.jobs.take()
    rig.jobs.cancel()
    with pytest.raises(JobCancelled, match="no such table"):
        rig.jobs.take()
    assert (rig.walk._stay_here, rig.walk._penalty) == (1, 2), "one outage counts once"
    assert "a job that is void failed: no such table" in caplog.text


def test_all_have_ended_when_they_were_cancelled(rig: Rig) -> None:
    rig.begin(Job(), FIRST)
    rig.begin(Job(), SECOND)
    rig.jobs.cancel()
    for _ in range(2):
        assert rig.jobs.first.done()
        with pytest.raises(JobCancelled):
            rig.jobs.take()
    assert rig.committed == []


@pytest.mark.parametrize(("stages", "tolerate", "letters"), [(False, True, False), (True, False, True)])
def test_what_would_be_seen_at_once_begins_behind_the_first(stages: bool, tolerate: bool, letters: bool) -> None:
    rig = Rig(stages, tolerate, letters)
    first, second = Job(), Job(go=True)
    rig.begin(first, FIRST)
    rig.begin(second, SECOND)
    first.go.set()
    assert rig.jobs.take()[0].upto == 9
    assert rig.jobs.take()[0].upto == 19

    rig.begin(Job(Reached(P, 4, stop=Stop.FATAL), go=True), FIRST)
    third = Job(go=True)
    rig.begin(third, SECOND)
    rig.jobs.take()
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert not third.written.is_set()


def test_what_a_job_says_is_said_by_its_task(caplog: pytest.LogCaptureFixture) -> None:
    def work(_: object) -> list[Reached]:
        logging.getLogger("any").warning("it is so")
        return []

    jobs = SinkJobs(1)
    made: Any = SimpleNamespace(cancelled=False)
    caplog.handler.setFormatter(ConnectFormatter())
    with connector_context("c", "task-0"):
        jobs.begin(made, FIRST, work)
        jobs.take()
    assert "[c|task-0] it is so" in caplog.text


def test_who_cancels_soon_waits_for_nothing() -> None:
    ended = threading.Event()
    made: list[Any] = [SimpleNamespace(cancelled=False) for _ in range(2)]
    jobs = SinkJobs(1)

    def work(_: object) -> list[Reached]:
        assert ended.wait(10)
        return []

    for job in made:
        job.cancel = lambda job=job: setattr(job, "cancelled", True)
        jobs.begin(job, FIRST, work)
    jobs.cancel_soon()
    assert [job.cancelled for job in made] == [True, True]
    assert not jobs.first.done()
    ended.set()
    jobs.cancel()


def test_ranges_of_several_partitions_end_where_the_last_job_does() -> None:
    rig, other = Rig(), TopicPartition("t", 1)
    only: Mapping[TopicPartition, tuple[int, int]] = {other: (0, 5), P: (0, 10)}
    rig.begin(Job(), only)
    rig.begin(Job(), SECOND)
    assert rig.jobs.ends == {P: 20, other: 5}
    rig.jobs.cancel()
