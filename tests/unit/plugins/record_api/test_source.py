"""Sources over records, driven as by the worker: what is polled, stored, polled again, refused; how they end."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.plugins import DataError, Record, RecordSource, RetriableError, Setting
from headrace.plugins.contracts import Limit, PartitionResult, Plan, Stop, StopToken, TaskContext
from headrace.plugins.record_api.source_task import RecordSourceTask

WITHIN_S = 60
LIMIT = Limit(20_000, 2 << 20)


class Drive:
    """Drives the first of one or more tasks; `stored` are the offsets, `sent` the rows that Kafka would have."""

    def __init__(
        self,
        source: type[RecordSource],
        config: Mapping[str, str] | None = None,
        stored: Mapping[str, Any] | None = None,
        **context: Any,
    ) -> None:
        connector = source()
        given = {"topic": "t", **(config or {})}
        connector.start(given, None)  # type: ignore[arg-type]
        task = connector.task()
        assert isinstance(task, RecordSourceTask)
        self.task = task
        self.woken = threading.Event()
        self.stopping = StopToken()
        self.stored: dict[str, Any] = dict(stored or {})
        self.sent: list[dict[str, Any]] = []
        task.start(connector.task_configs(1)[0], TaskContext("c", 0, self.stopping, wake=self.woken.set, **context))

    def plan(self, limit: Limit = LIMIT) -> Plan | None:
        return self.task.plan([self.stored.get(json.dumps(one)) for one in self.task.partitions()], limit)

    def next_plan(self, limit: Limit = LIMIT) -> Plan:
        """The next plan; each look waits until the task is woken, as the worker does."""
        deadline = time.monotonic() + WITHIN_S
        while (plan := self.plan(limit)) is None:
            assert self.woken.wait(max(0.0, deadline - time.monotonic())), "nothing wakes the task"
            self.woken.clear()
        return plan

    def send(self, plan: Plan, upto: int | None = None) -> list[dict[str, Any]]:
        """Send the plan's rows; with `upto` only so many of each split."""
        reader = self.task.reader(plan)
        reached, now = [], []
        for number, split in enumerate(plan.splits):
            rows = [row for batch in reader.read(number) for row in batch.to_pylist()]
            passed = rows[:upto]
            now += passed
            if passed:
                reached.append(
                    PartitionResult(
                        source_partition=split.partition,
                        source_offset=passed[-1]["source_offset"],
                        stop=None if len(passed) == len(rows) else Stop.RETRY,
                    )
                )
        self.task.delivered(reached)
        for one in reached:
            for partition, offset in self.task.offsets_reached(one):
                self.stored[json.dumps(partition)] = offset
        self.sent += now
        return now

    def run_until(self, count: int) -> list[Any]:
        while len(self.sent) < count:
            self.send(self.next_plan())
        return self.values

    @property
    def values(self) -> list[Any]:
        return [value_of(row) for row in self.sent]


def value_of(row: Mapping[str, Any]) -> Any:
    kind = row["value_schema"]
    found = None if kind is None else row[f"value_{kind}"]
    return json.loads(found) if kind == 0 else found


@pytest.fixture
def drive() -> Iterator[Callable[..., Drive]]:
    made: list[Drive] = []

    def start(*arguments: Any, **named: Any) -> Drive:
        made.append(Drive(*arguments, **named))
        return made[-1]

    yield start
    for one in made:
        one.stopping.set()
        one.task.stop()


class Numbers(RecordSource):
    settings = (Setting("topic"), Setting("count", 10))
    poll_interval_s = 0.01

    def poll(self, after: Any) -> Iterator[Record]:
        for n in range((after or {"n": 0})["n"] + 1, self.config["count"] + 1):
            yield Record(n, key=str(n), headers={"h": "x", "b": b"\xff"}, timestamp=n, offset={"n": n})


def test_what_is_polled_is_sent_once_and_in_order(drive: Any) -> None:
    one = drive(Numbers)
    assert one.run_until(10) == list(range(1, 11))
    assert one.stored == {"{}": {"n": 10}}
    assert one.plan() is None
    row = one.sent[2]
    assert (row["topic"], row["partition"], row["timestamp"], row["key_1"]) == ("t", None, 3, "3")
    assert row["headers"] == [{"key": "h", "value": b"x"}, {"key": "b", "value": b"\xff"}]


def test_it_goes_on_after_the_stored_offset(drive: Any) -> None:
    assert drive(Numbers, stored={"{}": {"n": 7}}).run_until(3) == [8, 9, 10]


@pytest.mark.parametrize("limit", [Limit(1, 1), Limit(3, 1 << 20), Limit(100, 100)])
def test_limits_are_obeyed(drive: Any, limit: Limit) -> None:
    one = drive(Numbers)
    while len(one.sent) < 10:
        plan = one.next_plan(limit)
        rows = one.send(plan)
        assert len(rows) == plan.rows <= limit.rows
    assert one.values == list(range(1, 11))


@pytest.mark.parametrize("upto", [0, 1, 4])
def test_what_is_not_sent_is_polled_again(drive: Any, upto: int) -> None:
    one = drive(Numbers)
    one.send(one.next_plan(), upto)
    one.run_until(10)
    assert one.values == list(range(1, 11))


def test_a_batch_that_failed_comes_again_and_is_not_polled_again(drive: Any) -> None:
    begun: list[Any] = []

    def poll(self: Any, after: Any) -> Iterator[Record]:
        begun.append(after)
        first = (after or {"n": 0})["n"]
        yield from (Record(n, offset={"n": n}) for n in range(first + 1, 4))

    one = drive(failing(poll))
    for _ in range(100):
        assert one.next_plan() is not None
        one.task.undelivered()
    assert one.run_until(3) == [1, 2, 3]
    assert begun.count(None) == 1


def test_an_operator_may_move_the_offset_of_a_task_that_runs(drive: Any) -> None:
    one = drive(Numbers)
    one.run_until(10)
    one.stored["{}"] = {"n": 8}
    assert one.run_until(12)[10:] == [9, 10]


class Pages(RecordSource):
    """Two records a page; only the last one of a page has its offset."""

    settings = (Setting("topic"),)
    poll_interval_s = 0.01

    def poll(self, after: Any) -> list[Record]:
        page = (after or {"page": 0})["page"] + 1
        return [Record(f"{page}a"), Record(f"{page}b", offset={"page": page})] if page < 4 else [Record("tail")]


def test_records_without_an_offset_belong_to_the_next_that_has_one(drive: Any) -> None:
    one = drive(Pages)
    one.send(one.next_plan(Limit(1, 1 << 20)))
    assert one.stored == {}
    one.send(one.next_plan(Limit(2, 1 << 20)))
    assert (one.values, one.stored) == (["1a", "1b", "2a"], {"{}": {"page": 1}})
    again = drive(Pages, stored=one.stored)
    assert again.run_until(5)[:5] == ["2a", "2b", "3a", "3b", "tail"]
    assert again.stored == {"{}": {"page": 3}}


def test_records_without_an_offset_keep_none_from_being_stored(drive: Any) -> None:
    """The last row of each batch has no offset of its own; what was stored is not taken for another one's doing."""
    one = drive(Pages)
    one.run_until(8)
    assert one.values[:6] == ["1a", "1b", "2a", "2b", "3a", "3b"]
    assert set(one.values[6:]) == {"tail"}


def failing(poll: Callable[..., Any], **members: Any) -> type[RecordSource]:
    return type("Failing", (RecordSource,), {"settings": [Setting("topic")], "poll": poll, **members})


@pytest.mark.parametrize(
    ("poll", "error", "why"),
    [
        (lambda self, after: [Record(1, offset={"n": 1}), Record(2, offset={"n": 1})], ValueError, "two records"),
        (lambda self, after: [Record(1, offset=5)], TypeError, "an offset is a dict of JSON values, not 5"),
        (lambda self, after: [Record(1, offset={"n": b"x"})], ValueError, "cannot be stored: field n: JSON has no"),
        (lambda self, after: [Record(1, offset={"n": float("nan")})], ValueError, "cannot be stored"),
        (lambda self, after: [Record(1, offset={1: "x"})], ValueError, "the key 1 is no text"),
        (lambda self, after: [Record(1, offset={"n": "\ud800"})], ValueError, "half a surrogate pair"),
        (lambda self, after: [{"a": 1}], TypeError, "poll yielded a dict"),
        (lambda self, after: Record(1), TypeError, "poll returned a Record; it has to yield"),
        (lambda self, after: [Record(1, topic=5)], ValueError, "for the topic 5"),
        (lambda self, after: 1 / 0, ZeroDivisionError, "division by zero"),
        (lambda self, after: exit(3), RuntimeError, "poll wants to end the process: SystemExit"),
        (lambda self, after: (_ for _ in ()).throw(ConnectionError("away")), RetriableError, "poll failed: Connection"),
    ],
)
def test_errors_of_poll_are_told(drive: Any, poll: Any, error: type[Exception], why: str) -> None:
    one = drive(failing(poll))
    with pytest.raises(error, match=why):
        one.run_until(10**9)


def test_what_came_before_an_error_is_sent_first(drive: Any) -> None:
    def poll(self: Any, after: Any) -> Iterator[Record]:
        yield Record("before", offset={"n": 1})
        raise ConnectionError("away")

    one = drive(failing(poll))
    one.run_until(1)
    with pytest.raises(RetriableError, match="away"):
        one.next_plan()
    assert (one.values, one.stored) == (["before"], {"{}": {"n": 1}})


def test_after_a_retriable_error_it_polls_again_from_the_stored_offset(drive: Any) -> None:
    asked = []

    def poll(self: Any, after: Any) -> Iterator[Record]:
        asked.append(after)
        if len(asked) == 1:
            yield Record("a", offset={"n": 1})
            raise RetriableError("not now")
        yield Record("b", offset={"n": 2})

    one = drive(failing(poll))
    one.run_until(1)
    with pytest.raises(RetriableError, match="not now"):
        one.next_plan()
    assert one.run_until(2)[:2] == ["a", "b"]
    assert asked[:2] == [None, {"n": 1}]


def test_an_error_of_the_author_is_not_raised_from_itself(drive: Any) -> None:
    one = drive(failing(lambda self, after: 1 / 0))
    with pytest.raises(ZeroDivisionError) as met:
        one.run_until(1)
    assert met.value.__cause__ is None


def test_a_poll_that_fails_again_is_no_success_in_between(drive: Any) -> None:
    """The worker's pauses grow with failures in a row, and a plan without an error ends the row."""
    one = drive(failing(lambda self, after: (_ for _ in ()).throw(ConnectionError("away"))))
    with pytest.raises(RetriableError):
        one.next_plan()
    for _ in range(5):
        with pytest.raises(RetriableError):
            one.plan()


def test_a_partition_that_fails_is_told_while_another_one_is_busy(drive: Any) -> None:
    def poll(self: Any, after: Any, partition: Any) -> Iterator[Record]:
        if partition["p"] == "bad":
            raise ConnectionError("away")
        first = (after or {"n": 0})["n"] + 1
        yield from (Record(n, offset={"n": n}) for n in range(first, first + 10))

    one = drive(failing(poll, partitions=lambda self: [{"p": "bad"}, {"p": "busy"}]))
    with pytest.raises(RetriableError, match="away"):
        one.run_until(10**9)
    assert one.values


def test_a_record_at_fault_fails_alone_and_is_named(drive: Any) -> None:
    moment = datetime(2026, 1, 2)
    at_fault = [
        (Record({"a": {"n": 2**63}}, offset={"n": 1}), "the value for the topic t cannot be carried: field a.n: "),
        (Record("x", key={1: 2}, offset={"n": 2}), "the key for the topic t cannot be carried: the key 1 is no text"),
        (Record("x", topic="u", headers={"h": 5}, offset={"n": 3}), "the record for the topic u cannot be carried: "),
        (Record("x", headers={"h": "\ud800"}, offset={"n": 4}), "field headers: half a surrogate pair"),
        (Record("x", timestamp=moment, offset={"n": 5}), "field timestamp: 2026-01-02 00:00:00 has no time zone"),
        (Record("x", timestamp=-1, offset={"n": 6}), "field timestamp: -1 is no number of ms"),
        (Record("x", partition=-1, offset={"n": 7}), "field partition: -1 is no number of a partition"),
        (Record("\ud800", offset={"n": 8}), "the value for the topic t cannot be carried: the text has half a"),
        (Record("good", timestamp=moment.replace(tzinfo=UTC), offset={"n": 9}), None),
    ]

    one = drive(failing(lambda self, after: [record for record, _ in at_fault if not after]))
    one.run_until(len(at_fault))
    for row, (_, why) in zip(one.sent, at_fault, strict=True):
        assert (row["failure"] is None) == (why is None), row["failure"]
        assert why is None or why in row["failure"]
        assert (row["as_read"] is None) == (why is None)
    assert one.sent[0]["as_read"] == '{"a": {"n": 9223372036854775808}}'
    assert one.stored == {"{}": {"n": 9}}


def test_exactly_once_each_record_needs_an_offset(drive: Any) -> None:
    one = drive(Pages, in_transactions=True)
    with pytest.raises(ValueError, match="exactly once each needs one"):
        one.next_plan()


class Parted(RecordSource):
    settings = (Setting("topic"),)
    poll_interval_s = 0.01

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [{"p": n} for n in range(5)]

    def poll(self, after: Any, partition: Any) -> Iterator[Record]:
        for n in range((after or {"n": 0})["n"] + 1, 4):
            yield Record([partition["p"], n], offset={"n": n})


def test_each_partition_has_its_own_offsets(drive: Any) -> None:
    one = drive(Parted, stored={'{"p": 2}': {"n": 2}})
    found = one.run_until(13)
    for p in range(5):
        assert [n for q, n in found if q == p] == ([3] if p == 2 else [1, 2, 3])
    assert one.stored == {f'{{"p": {p}}}': {"n": 3} for p in range(5)}


def test_a_busy_partition_does_not_hold_up_the_others(drive: Any) -> None:
    def poll(self: Any, after: Any, partition: Any) -> Iterator[Record]:
        for n in range(10**9):
            yield Record(partition["p"], offset={"n": n})

    one = drive(failing(poll, partitions=lambda self: [{"p": n} for n in range(3)]))
    for _ in range(30):
        one.send(one.next_plan(Limit(1, 1 << 20)))
    assert min(one.values.count(p) for p in range(3)) >= 5


def test_tasks_share_the_partitions() -> None:
    connector = Parted()
    connector.start({"topic": "t"}, None)  # type: ignore[arg-type]
    for count, tasks in ((1, 1), (2, 2), (9, 5)):
        configs = connector.task_configs(count)
        shared = [json.loads(one["task.partitions"]) for one in configs]
        assert len(shared) == tasks
        assert sorted(p["p"] for one in shared for p in one) == list(range(5))


@pytest.mark.parametrize(
    ("partitions", "error", "why"),
    [
        ([{"p": 1}, {"p": 1}], ValueError, "twice"),
        (["a"], TypeError, "gave 'a'; a partition is a dict"),
        ([{"p": b"x"}], DataError, "field p: JSON has no form of bytes"),
    ],
)
def test_partitions_that_cannot_be_are_refused(partitions: Any, error: type[Exception], why: str) -> None:
    connector = failing(lambda self, after, partition: [], partitions=lambda self: partitions)()
    connector.start({"topic": "t"}, None)  # type: ignore[arg-type]
    with pytest.raises(error, match=why):
        connector.task_configs(2)


def counting(polls: list[float], is_async: bool, interval_s: float) -> type[RecordSource]:
    """A source whose third `poll` brings something."""

    def poll(self: Any, after: Any) -> list[Record]:
        polls.append(time.monotonic())
        return [Record(len(polls), offset={"n": 1})] if len(polls) == 3 else []

    async def poll_async(self: Any, after: Any) -> list[Record]:
        return poll(self, after)

    return failing(poll_async if is_async else poll, poll_interval_s=interval_s)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_idle_source_is_asked_at_its_interval(drive: Any, is_async: bool) -> None:
    polls: list[float] = []
    assert drive(counting(polls, is_async, 0.3)).run_until(1) == [3]
    assert all(later - earlier >= 0.29 for earlier, later in pairwise(polls[:3]))
    assert RecordSource.poll_interval_s == 1.0


@pytest.mark.parametrize("is_async", [False, True])
def test_an_idle_source_can_wake(drive: Any, is_async: bool) -> None:
    polls: list[float] = []
    one = drive(counting(polls, is_async, 3600))
    one.plan()
    for count in (1, 2):
        deadline = time.monotonic() + WITHIN_S
        while len(polls) < count and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        one.task.author.wake(one.task._plugin)
    assert one.run_until(1) == [3]


@pytest.mark.parametrize("is_async", [False, True])
def test_it_stops_within_a_second_whatever_poll_does(is_async: bool) -> None:
    blocked = threading.Event()
    released = threading.Event()
    closed = []

    def poll(self: Any, after: Any) -> Iterator[Record]:
        yield Record(1)
        blocked.set()
        released.wait(WITHIN_S)

    async def poll_async(self: Any, after: Any) -> AsyncIterator[Record]:
        yield Record(1)
        blocked.set()
        await asyncio.sleep(WITHIN_S)

    one = Drive(failing(poll_async if is_async else poll, close=lambda self: closed.append(1)))
    one.plan()
    assert blocked.wait(WITHIN_S)
    began = time.monotonic()
    one.task.stop()
    assert time.monotonic() - began < (0.8 if is_async else 2)
    assert closed == [1]
    released.set()


def test_a_poll_that_ends_late_is_never_beside_the_next_one(drive: Any) -> None:
    running: list[int] = []
    most = []
    go = threading.Event()

    def poll(self: Any, after: Any) -> Iterator[Record]:
        running.append(1)
        most.append(len(running))
        yield Record(len(most), offset={"n": len(most)})
        go.wait(WITHIN_S)
        running.pop()

    one = drive(failing(poll, poll_interval_s=0.01))
    one.next_plan()
    one.task.delivered([])
    assert one.plan() is None
    go.set()
    assert one.run_until(1)[0] == 2
    assert max(most) == 1


def test_a_source_without_end_is_held_up(drive: Any) -> None:
    yielded = []

    def poll(self: Any, after: Any) -> Iterator[Record]:
        for n in range(10**9):
            yielded.append(n)
            yield Record("x" * 100_000, offset={"n": n})

    one = drive(failing(poll))
    one.next_plan()
    deadline = time.monotonic() + WITHIN_S
    while (before := len(yielded)) < 100 or before != len(yielded):
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)
    assert len(yielded) < 400


def told(members: Mapping[str, Any] | None = None, errors: Sequence[Exception] = ()) -> tuple[Any, list[Any]]:
    """A source of five numbers that notes what `stored` is told, and fails in it with these errors first."""
    calls: list[Any] = []
    failing = iter(errors)

    def stored(self: Any, *arguments: Any) -> None:
        calls.append(arguments)
        if (error := next(failing, None)) is not None:
            raise error

    return type("Told", (Numbers,), {"stored": stored, **(members or {})}), calls


def reached(**offset: Any) -> list[PartitionResult]:
    return [PartitionResult(source_partition={}, source_offset={"json": json.dumps(offset)})]


def test_stored_is_told_offsets_that_are_stored(drive: Any) -> None:
    source, calls = told()
    one = drive(source)
    one.run_until(10)
    assert calls == []
    one.task.committed(reached(n=4))
    one.task.committed(reached(n=10))
    assert calls == [({"n": 4},), ({"n": 10},)]


def test_stored_is_told_the_partition_if_there_are_several(drive: Any) -> None:
    source, calls = told({"partitions": lambda self: [{}], "poll": lambda self, after, partition: ()})
    drive(source).task.committed(reached(n=4))
    assert calls == [({"n": 4}, {})]


def test_stored_is_called_again_after_a_retriable_error_before_more_is_planned(drive: Any) -> None:
    source, calls = told(errors=[OSError("away"), OSError("away"), ValueError("no such message")])
    one = drive(source)
    with pytest.raises(RetriableError, match=r"Told.stored failed: OSError: away"):
        one.task.committed(reached(n=4))
    with pytest.raises(RetriableError, match="away"):
        one.plan()
    with pytest.raises(ValueError, match="no such message"):
        one.plan()
    assert one.run_until(10) == list(range(1, 11))
    assert calls == [({"n": 4},)] * 4


def test_stored_may_be_async(drive: Any) -> None:
    calls: list[Any] = []

    async def stored(self: Any, offset: Any) -> None:
        calls.append(offset)

    one = drive(type("Told", (Numbers,), {"stored": stored}))
    one.task.committed(reached(n=4))
    assert calls == [{"n": 4}]


class Async(RecordSource):
    settings = (Setting("topic"),)
    poll_interval_s = 0.01

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def poll(self, after: Any) -> AsyncIterator[Record]:
        assert asyncio.get_running_loop() is self.loop
        for n in range((after or {"n": 0})["n"] + 1, 11):
            await asyncio.sleep(0)
            yield Record(n, offset={"n": n})

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop


def test_an_async_source(drive: Any) -> None:
    one = drive(Async)
    one.send(one.next_plan(), 1)
    assert one.run_until(10) == list(range(1, 11))


def test_settings_are_parsed_and_all_problems_are_told() -> None:
    class Several(RecordSource):
        settings = (Setting("url"), Setting("topic"), Setting("n", 5), Setting("word", secret=True))

        def poll(self, after: Any) -> Any: ...

    connector = Several()
    with pytest.raises(ConfigError) as refused:
        connector.start({"n": "x"}, None)  # type: ignore[arg-type]
    assert {one.key for one in refused.value.problems} == {"url", "topic", "n", "word"}
    connector.start({"url": "u", "topic": "t", "word": "secret"}, None)  # type: ignore[arg-type]
    assert connector.config == {"url": "u", "topic": "t", "n": 5, "word": "secret"}
    assert "secret" not in str(Several.settings.mask({"word": "secret"}))
    assert Several.task_class.endswith("Several")
