"""A source task and the offsets that other workers store: learned before it begins, left alone once it ended."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.contracts import PartitionResult, RetriableError
from headrace.plugins.extensions import PacedSource, SourceProgress
from headrace.worker.deadletters.converter_retry import ConverterAway
from headrace.worker.engine.driver import EngineLost
from headrace.worker.errors import ConnectError
from headrace.worker.model import State
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.source import SourceBatch
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.tasks.builder import SourceOutput
from headrace.worker.tasks.metrics import TaskMetrics
from headrace.worker.tasks.poll_interval import Pace, PollInterval
from headrace.worker.tasks.source import SourceTaskRunner
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog
from tests.unit.worker.tasks.hosting import host

SECONDS = 60
PARTITION = {"filename": "a"}


class FakePlugin(PacedSource, SourceProgress):
    """Counts in one partition."""

    tells_of_news = False

    def __init__(self) -> None:
        self.stopped = False
        self.told = 0
        self.fails_at: Collection[int] = ()

    def start(self, config: Mapping[str, str], context: Any) -> None:
        self.context = context

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [PARTITION]

    def committed(self, reached: Collection[PartitionResult]) -> None:
        self.told += 1
        if self.told in self.fails_at:
            raise RetriableError("the queue is away")

    def stop(self) -> None:
        self.stopped = True


class FakePipeline:
    """One row a batch, for as long as `rows` last."""

    def __init__(self) -> None:
        self.rows = 1
        self.written = 1
        """The number that each row counts for."""
        self.bytes = 100
        self.caught_up = False
        self.acknowledged: pa.RecordBatch | None = None
        self.yields_nothing = False
        self.error: Exception | None = None
        self.began_at: list[int | None] = []
        self.inside = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def warm_up(self) -> None: ...

    def listen(self) -> None: ...

    def batch(self, after: list[Any]) -> SourceBatch | None:
        if self.error is not None:
            raise self.error
        if not self.rows:
            return None
        self.rows -= 1
        at = None if after[0] is None else after[0]["position"]
        self.began_at.append(at)
        self.inside.set()
        self.go_on.wait(SECONDS)
        offset = {"position": (at or 0) + 1}
        done = PartitionResult(source_partition=PARTITION, source_offset=offset, written=self.written)
        reached = {} if self.yields_nothing else {0: replace(done, acknowledged=self.acknowledged)}
        return SourceBatch(Outcome(reached), self.bytes, None, self.caught_up)

    def cancel(self) -> None: ...

    def close(self) -> None: ...


class Rig:
    """A task over a topic in memory."""

    def __init__(self, log: FakeLog) -> None:
        self.store = OffsetTopic(CONFIG, log.open)  # type: ignore[arg-type]
        self.store.start(SECONDS)
        self.pipeline = FakePipeline()
        self.plugin = FakePlugin()
        self.states: list[State] = []
        self.host = host(report=self.report)
        builder: Any = SimpleNamespace(
            source=lambda *_: self.pipeline,
            create_topics=lambda: None,
            create_missing_topics=lambda: None,
            check_reach=lambda: None,
        )
        plugin: Any = self.plugin
        self.task = SourceTaskRunner(
            self.host,
            plugin,
            builder,
            SourceOutput(ClientConfig("producer", {"bootstrap.servers": "localhost:1"}), {}, None),
            self.store,
            PollInterval(),
        )

    def report(self, state: State, trace: str | None, passing: bool = False) -> None:
        self.states.append(state)
        self.told = trace, passing


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.002)


def test_it_begins_where_another_worker_stopped_however_late_that_is_known() -> None:
    log = FakeLog()
    rig = Rig(log)
    topic = log.topics[0]
    topic.lags = True
    log.put('["c",{"filename":"a"}]', '{"position":40}')
    read, tries = topic.read_to_end, []

    def flaky(timeout_s: float) -> None:
        tries.append(timeout_s)
        if len(tries) == 1:
            raise RetriableError("not yet")
        read(timeout_s)

    topic.read_to_end = flaky  # type: ignore[method-assign]
    rig.task.start()
    until(lambda: rig.pipeline.rows == 0)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    assert (rig.pipeline.began_at, len(tries)) == ([40], 2)
    assert log.pairs()[-1] == ('["c",{"filename":"a"}]', '{"position":41}')
    assert rig.states == [State.RUNNING, State.UNASSIGNED]


def test_it_goes_on_as_soon_as_spark_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, waits, wait = Rig(FakeLog()), threading.Event(), SourceTaskRunner.wait

    def long(task: SourceTaskRunner, _seconds: float) -> None:
        waits.set()
        wait(task, 2 * SECONDS)

    monkeypatch.setattr(SourceTaskRunner, "wait", long)
    rig.pipeline.error = EngineLost("Spark is starting")
    rig.task.start()
    assert waits.wait(SECONDS)
    rig.pipeline.error = None
    rig.task.engine_changed()
    assert rig.pipeline.inside.wait(SECONDS)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)


def test_it_says_on_debug_what_a_batch_was_and_when_it_recovered(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(FakeLog())
    rig.task.metrics = TaskMetrics("source")
    rig.pipeline.error = RetriableError("not yet")
    with caplog.at_level(logging.DEBUG, "headrace.worker.tasks.source"):
        rig.task.start()
        until(lambda: "Attempt 2 of a batch failed" in caplog.text)
        rig.pipeline.error = None
        until(lambda: "A batch " in caplog.text)
        rig.task.ask_to_stop()
        assert rig.task.join(SECONDS)
    assert re.search(r"The task recovered after [23] failed attempts and goes on", caplog.text)
    assert re.search(
        r"A batch in the worker in \d+ ms: \{'filename': 'a'\} up to \{'position': 1\}: 1 written", caplog.text
    )


def test_a_plugin_that_cannot_acknowledge_yet_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(FakeLog())
    rig.plugin.fails_at = (1,)
    rig.task.start()
    until(lambda: rig.pipeline.rows == 0)
    rig.store.flush()
    until(lambda: "will be tried again: the queue is away" in caplog.text)
    rig.pipeline.rows = 1
    until(lambda: rig.pipeline.rows == 0)
    rig.store.flush()
    until(lambda: rig.plugin.told == 2)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    assert State.FAILED not in rig.states


def test_what_it_could_not_store_at_its_end_is_not_stored_later() -> None:
    log = FakeLog()
    rig = Rig(log)
    rig.pipeline.go_on.clear()
    rig.task.start()
    assert rig.pipeline.inside.wait(SECONDS)
    log.errors = [RetriableError("away")]
    rig.pipeline.go_on.set()
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    rig.store.flush()
    assert (log.records, rig.store.get("c", PARTITION)) == ([], None)


def test_its_plugin_is_stopped_though_its_offsets_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(FakeLog())

    def full() -> None:
        raise OSError(28, "No space left on device")

    rig.task.start()
    until(lambda: rig.pipeline.rows == 0)
    monkeypatch.setattr(rig.store, "flush", full)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    assert rig.plugin.stopped
    assert rig.store.get("c", PARTITION) is None, "what will not be stored is given up"


def test_a_stop_breaks_off_what_it_reads() -> None:
    rig = Rig(FakeLog())
    rig.pipeline.go_on.clear()
    rig.task.start()
    assert rig.pipeline.inside.wait(SECONDS)
    with rig.host.interrupts.by(rig.pipeline.go_on.set):
        rig.task.ask_to_stop()
        assert rig.task.join(SECONDS)
    assert rig.states == [State.RUNNING, State.UNASSIGNED]


def test_a_converter_that_asks_in_vain_fails_its_task_which_may_start_again() -> None:
    rig = Rig(FakeLog())
    rig.pipeline.error = ConverterAway("GET /schemas/ids/7: connection refused")
    rig.task.start()
    until(lambda: State.FAILED in rig.states)
    text, passing = rig.told
    assert passing
    assert text is not None
    assert "GET /schemas/ids/7: connection refused (1 tries" in text
    assert "errors.retry.timeout" in text


def test_abandoned_it_stores_nothing_any_more() -> None:
    log = FakeLog()
    rig = Rig(log)
    rig.task.start()
    until(lambda: rig.store.get("c", PARTITION) is not None)
    rig.pipeline.go_on.clear()
    rig.pipeline.inside.clear()
    rig.pipeline.rows = 1
    assert rig.pipeline.inside.wait(SECONDS)
    rig.task.abandon()
    assert rig.store.get("c", PARTITION) is None
    rig.pipeline.go_on.set()
    assert rig.task.join(SECONDS)
    rig.store.flush()
    assert log.records == []


def test_a_source_whose_plans_yield_no_row_is_polled_like_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, pauses = Rig(FakeLog()), list[float]()
    rig.pipeline.rows, rig.pipeline.yields_nothing = 10, True

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            rig.task.ask_to_stop()

    monkeypatch.setattr(rig.task, "wait", wait)
    rig.task.start()
    assert rig.task.join(SECONDS)
    assert len(rig.pipeline.began_at) == 10
    assert pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert pauses[4:] == [0.1] * 6


def test_a_source_that_tells_of_news_is_asked_seldom_and_when_it_wakes_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.worker.tasks.source.TOLD_S", 1.0)
    rig = Rig(FakeLog())
    rig.pipeline.rows, rig.plugin.tells_of_news = 0, True
    asked: list[float] = []
    told = threading.Event()

    def batch(after: list[Any]) -> None:
        asked.append(time.monotonic())
        if len(asked) == 1:
            rig.plugin.context.wake()
        elif len(asked) == 3:
            told.set()

    rig.pipeline.batch = batch  # type: ignore[method-assign]
    rig.task.start()
    assert told.wait(SECONDS)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    assert asked[1] - asked[0] < 1.0 <= asked[2] - asked[1]


def test_a_source_that_gave_all_there_was_is_asked_when_it_wakes_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.tasks.source.TOLD_S", 1.0)
    rig, pauses = Rig(FakeLog()), list[float]()
    rig.pipeline.rows = 3

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        rig.pipeline.caught_up = False
        if rig.pipeline.rows == 0:
            rig.task.ask_to_stop()

    rig.pipeline.caught_up = True
    monkeypatch.setattr(rig.task, "wait", wait)
    rig.task.start()
    assert rig.task.join(SECONDS)
    assert rig.pipeline.began_at == [None, 1, 2]
    assert pauses == [1.0, 0.01]


def test_receipts_are_not_kept_until_offsets_are_stored() -> None:
    rig = Rig(FakeLog())
    rows = pa.RecordBatch.from_pydict({"offset": [7]})
    rig.pipeline.acknowledged = rows
    told: list[Collection[PartitionResult]] = []
    rig.plugin.committed = told.append  # type: ignore[method-assign]
    rig.task.start()
    until(lambda: rig.pipeline.rows == 0)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS)
    ((confirmed,),) = told
    assert (confirmed.acknowledged, confirmed.source_offset) == (None, {"position": 1})


def test_a_plugin_that_asks_for_deliveries_by_no_name_of_theirs_is_refused() -> None:
    rig = Rig(FakeLog())
    rig.plugin.wants_deliveries = True
    with pytest.raises(ConnectError, match=r"wants_deliveries of FakePlugin is True\. Set it to Deliveries\.NONE"):
        rig.task.begin()


@pytest.mark.parametrize(
    ("coalesces", "written", "size", "batches"),
    [(True, 1, 100, 1), (False, 1, 100, 3), (True, 101, 100, 3), (True, 1, (64 << 10) + 1, 3)],
)
def test_one_that_gathers_pauses_after_a_small_batch(
    monkeypatch: pytest.MonkeyPatch, coalesces: bool, written: int, size: int, batches: int
) -> None:
    rig, pauses = Rig(FakeLog()), list[float]()

    def pause_s(_: Pace, _rows: int) -> float:
        pauses.append(2.0 * SECONDS)
        return pauses[-1]

    monkeypatch.setattr(Pace, "small_batch", pause_s)
    rig.plugin.coalesces, rig.pipeline.rows = coalesces, 3
    rig.pipeline.written, rig.pipeline.bytes = written, size
    rig.task.start()
    until(lambda: bool(pauses) or not rig.pipeline.rows)
    rig.task.ask_to_stop()
    assert rig.task.join(SECONDS), "a pause does not hold up a stop"
    assert (len(rig.pipeline.began_at), len(pauses)) == (batches, 1 if batches == 1 else 0)
