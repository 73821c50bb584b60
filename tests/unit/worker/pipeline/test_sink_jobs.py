"""A sink's jobs as they are seen. One begins before the one in front of it has ended."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.contracts import PartitionResult, Place, RetriableError, Stop, TopicPartition
from headrace.plugins.extensions import BufferingSink, StagingSink
from headrace.worker.logging.logs import ConnectFormatter, connector_context
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.executor import Ranges
from headrace.worker.pipeline.job import JobCancelled
from headrace.worker.pipeline.kafka_frames import KafkaReaders
from headrace.worker.pipeline.placement import SinkPlacement
from headrace.worker.pipeline.sink_job import SinkJob, SinkJobParts, Written
from headrace.worker.pipeline.sink_jobs import SinkJobs
from headrace.worker.pipeline.stages import Stages
from tests.task_scope import handling, task_scope

P = TopicPartition("t", 0)
FIRST: Ranges = {P: (0, 10)}
SECOND: Ranges = {P: (10, 20)}


class Job(SinkJob):
    """Its rows are written when `go` is set, or it is cancelled."""

    def __init__(
        self,
        rig: Rig,
        ranges: Ranges,
        ahead: SinkJob | None,
        end: PartitionResult | Exception | None = None,
        go: bool = False,
        heeds: bool = True,
    ) -> None:
        super().__init__(rig.parts, ranges, 1, ahead)
        self.heeds = heeds
        self.end = end
        self.in_vain: list[bytes] = []
        self.written, self.go = threading.Event(), threading.Event()
        if go:
            self.go.set()

    def cancel(self) -> None:
        self.cancelled = True
        self.go.set()

    def _read_and_write(self) -> Written:
        assert self._write_to.writer == self._attempt
        assert self.go.wait(60)
        if self.cancelled and self.heeds:
            raise JobCancelled("c-0")
        self.written.set()
        begin, end = self.ranges[P]
        if isinstance(self.end, Exception):
            raise self.end
        outcome = Outcome({P: self.end or PartitionResult(P, end - 1, written=10)}, by_job=True)
        return Written(outcome, [b"%d" % begin], self.in_vain)


class Task(StagingSink, BufferingSink):
    """A sink that stages, or does not."""

    place = Place.ANYWHERE

    def __init__(self, stages: bool) -> None:
        self.stages = stages
        self.committed: list[bytes] = []
        self.discarded: list[bytes] = []

    def staging_writer(self, attempt: str) -> Any:
        return self.writer(attempt) if self.stages else None

    def writer(self, attempt: str) -> Any:
        return attempt

    def commit(self, parts: Sequence[bytes]) -> None:
        self.committed += parts

    def discard(self, parts: Sequence[bytes]) -> None:
        self.discarded += parts

    def due_s(self) -> None: ...

    def drop(self) -> None: ...

    def job_ranges(self, ranges: Any, ends: Any) -> Any:
        return ranges


class Rig:
    """The jobs of a sink."""

    def __init__(self, stages: bool = True, tolerate: bool = True, letters: bool = False) -> None:
        self.made: list[Job] = []
        self.jobs = SinkJobs(self._make, Stages())
        self._kind: Callable[[Rig, Ranges, SinkJob | None], Job] = Job
        scope = task_scope(errors=handling(tolerate, dead_letters="d" if letters else ""))
        task: Any = Task(stages)
        self.committed, self.discarded = task.committed, task.discarded
        decoding: Any = SimpleNamespace(learn=lambda _: None)
        self.placement = SinkPlacement(scope.engine, task)
        self.parts = SinkJobParts(scope, task, decoding, self.placement, iter("0123456789"), KafkaReaders({}))

    def begin(
        self,
        ranges: Ranges,
        end: PartitionResult | Exception | None = None,
        go: bool = False,
        heeds: bool = True,
        kind: type[Job] = Job,
    ) -> Job:
        """`heeds`: the job itself says that it was cancelled."""
        self._kind = partial(kind, end=end, go=go, heeds=heeds)
        self.jobs.begin(ranges, 1)
        return self.made.pop()

    def _make(self, ranges: Ranges, _row_bytes: int, ahead: SinkJob | None) -> Job:
        self.made.append(self._kind(self, ranges, ahead))
        return self.made[-1]


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.jobs.cancel()


def test_the_second_writes_meanwhile_and_is_committed_behind_the_first(rig: Rig) -> None:
    first, second = rig.begin(FIRST), rig.begin(SECOND, go=True)
    assert rig.jobs.are_enough
    assert rig.jobs.ends == {P: 20}
    assert second.written.wait(60)
    assert rig.committed == []
    first.go.set()
    assert [rig.jobs.take().of[P].upto, rig.jobs.take().of[P].upto] == [9, 19]
    assert rig.committed == [b"0", b"10"]
    assert not rig.jobs


@pytest.mark.parametrize(
    "end",
    [
        RetriableError("away"),
        PartitionResult(P, 4, stop=Stop.FATAL),
        PartitionResult(P, 4, stop=Stop.UNKNOWN),
        ValueError("a bug"),
    ],
)
def test_nothing_is_seen_of_the_second_where_the_first_stopped(rig: Rig, end: PartitionResult | Exception) -> None:
    first = rig.begin(FIRST, end)
    rig.begin(SECOND, go=True)
    first.go.set()
    if isinstance(end, Exception):
        with pytest.raises(type(end), match=str(end)):
            rig.jobs.take()
    else:
        assert list(rig.jobs.take()) == [end]
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert rig.committed == ([] if isinstance(end, Exception) else [b"0"])


def test_what_a_job_staged_in_vain_is_discarded(rig: Rig) -> None:
    job = rig.begin(FIRST)
    job.in_vain.append(b"5")
    job.go.set()
    rig.jobs.take()
    assert (rig.discarded, rig.committed) == ([b"5"], [b"0"])


def test_a_second_that_is_cancelled_while_it_waits_is_not_committed(rig: Rig) -> None:
    first, second = rig.begin(FIRST), rig.begin(SECOND, go=True)
    assert second.written.wait(60)
    second.cancel()
    first.go.set()
    assert rig.jobs.take().of[P].upto == 9
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert rig.committed == [b"0"]


@pytest.mark.parametrize("failed_before", [True, False], ids=["failed before", "fails of it"])
@pytest.mark.parametrize("failure", [ValueError("no such table"), RetriableError("no such table")])
def test_what_a_void_job_failed_of_is_nobodys_failure(
    rig: Rig, failed_before: bool, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = rig.begin(FIRST, RetriableError("away"))
    second = rig.begin(SECOND, failure, go=failed_before, heeds=False)
    assert not failed_before or second.written.wait(60)
    first.go.set()
    with pytest.raises(RetriableError, match="away"):
        rig.jobs.take()
    rig.jobs.cancel()
    with pytest.raises(JobCancelled, match="no such table"):
        rig.jobs.take()
    assert not rig.placement.may_be_job
    rig.placement.batch_done_inline()
    assert rig.placement.may_be_job, "one outage counts once"
    assert "A discarded job failed: no such table" in caplog.text


def test_all_have_ended_when_they_were_cancelled(rig: Rig) -> None:
    rig.begin(FIRST)
    rig.begin(SECOND)
    rig.jobs.cancel()
    for _ in range(2):
        assert rig.jobs.first_is_done
        with pytest.raises(JobCancelled):
            rig.jobs.take()
    assert rig.committed == []


@pytest.mark.parametrize(("stages", "tolerate", "letters"), [(False, True, False), (True, False, True)])
def test_what_would_be_seen_at_once_begins_behind_the_first(stages: bool, tolerate: bool, letters: bool) -> None:
    rig = Rig(stages, tolerate, letters)
    first = rig.begin(FIRST)
    rig.begin(SECOND, go=True)
    first.go.set()
    assert rig.jobs.take().of[P].upto == 9
    assert rig.jobs.take().of[P].upto == 19

    rig.begin(FIRST, PartitionResult(P, 4, stop=Stop.FATAL), go=True)
    third = rig.begin(SECOND, go=True)
    rig.jobs.take()
    with pytest.raises(JobCancelled):
        rig.jobs.take()
    assert not third.written.is_set()


class Says(Job):
    """Says something of its own."""

    def _read_and_write(self) -> Written:
        logging.getLogger("any").warning("it is so")
        return super()._read_and_write()


def test_what_a_job_says_is_said_by_its_task(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(ConnectFormatter())
    with connector_context("c", "task-0"):
        rig.begin(FIRST, go=True, kind=Says)
        rig.jobs.take()
    assert "[c|task-0] it is so" in caplog.text


class Stubborn(Job):
    """Does not end for being cancelled."""

    def cancel(self) -> None:
        self.cancelled = True


def test_who_cancels_soon_waits_for_nothing(rig: Rig) -> None:
    made = [rig.begin(ranges, kind=Stubborn) for ranges in (FIRST, SECOND)]
    rig.jobs.cancel_soon()
    assert [job.cancelled for job in made] == [True, True]
    assert not rig.jobs.first_is_done
    for job in made:
        job.go.set()
    rig.jobs.cancel()


def test_ranges_of_several_partitions_end_where_the_last_job_does() -> None:
    rig, other = Rig(), TopicPartition("t", 1)
    only: Mapping[TopicPartition, tuple[int, int]] = {other: (0, 5), P: (0, 10)}
    rig.begin(only)
    rig.begin(SECOND)
    assert rig.jobs.ends == {P: 20, other: 5}
    rig.jobs.cancel()


def test_a_job_that_ended_keeps_none_of_those_before_it(rig: Rig) -> None:
    first = rig.begin({P: (0, 1)}, go=True)
    ended, then = weakref.ref(first), rig.begin({P: (1, 2)})
    assert rig.jobs.take().of[P].upto == 0
    then.go.set()
    last = rig.begin({P: (2, 3)})
    assert rig.jobs.take().of[P].upto == 1
    del first, then
    gc.collect()
    assert ended() is None
    last.go.set()
    assert rig.jobs.take().of[P].upto == 2
