"""SingerSource with small taps: what arrives, where it goes on, and what a tap that fails says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.rows import Shapes
from headrace.connectors.singer.schemas import stream_type
from headrace.connectors.singer.source import SingerSourceConnector, SingerSourceTask
from headrace.connectors.singer.tap import Row
from headrace.plugins.contracts import Limit, PartitionResult, Plan, SourceOffset, Stop
from headrace.plugins.testkit.driving import start_tasks
from tests.fake_singer import TAP, installed

LARGE = Limit(100_000, 64 << 20)
WITHIN_S = 60.0


class Drive:
    """Runs a task as the worker does; as a context manager it ends the task."""

    def __init__(self, folder: Path, config: dict[str, Any], **settings: str) -> None:
        if not (folder / "path").exists():
            installed(folder / "path", "tap-fake", TAP)
        self.worker = {"plugin.path": [str(folder / "path")]}
        self.config = {"tap.command": "tap-fake", **settings}
        self.config |= {f"tap.config.{name}": json.dumps(value) for name, value in config.items()}
        self.stored: SourceOffset | None = None
        self.arrived: list[dict[str, Any]] = []
        self.topics: list[str] = []
        self.start()

    def start(self) -> None:
        connector = SingerSourceConnector()
        connector.worker = self.worker
        self.task: SingerSourceTask = start_tasks(connector, self.config, self.worker)[0].task

    def __enter__(self) -> Drive:
        return self

    def __exit__(self, *_: object) -> None:
        self.task.stop()

    def plan(self, limit: Limit = LARGE) -> Plan | None:
        return self.task.plan([self.stored], limit)

    def rows(self, plan: Plan) -> list[dict[str, Any]]:
        shape = self.task._shapes.by_name[plan.splits[0].shape]
        batches = list(self.task.reader(plan).read(0))
        for batch in batches:
            assert batch.schema.names == [*shape.row_type().names, "source_offset"]
        return [row for batch in batches for row in batch.to_pylist()]

    def deliver(self, plan: Plan, rows: list[dict[str, Any]], count: int | None = None) -> None:
        """The first `count` rows arrive, by default all, and their offset is stored."""
        passed = rows if count is None else rows[:count]
        for row in passed:
            self.arrived.append(row[f"value_{row['value_schema']}"])
            self.topics.append(row["topic"])
        offset = passed[-1]["source_offset"] if passed else plan.splits[0].offset_if_empty
        stop = None if len(passed) == len(rows) else Stop.RETRY
        result = PartitionResult(source_partition=plan.splits[0].partition, source_offset=offset, stop=stop)
        self.task.delivered([result])
        for _, stored in self.task.offsets_reached(result):
            self.stored = stored

    def until(self, done: Callable[[], bool], limit: Limit = LARGE) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not done():
            assert time.monotonic() < deadline, self.arrived[-3:]
            if (plan := self.plan(limit)) is not None:
                self.deliver(plan, self.rows(plan))
            else:
                time.sleep(0.005)

    def next_rows(self) -> list[dict[str, Any]]:
        """The rows of the next batch that has any; they do not arrive."""
        deadline = time.monotonic() + WITHIN_S
        while (plan := self.plan()) is None or not plan.rows:
            assert time.monotonic() < deadline
        return self.rows(plan)

    def until_stored(self, count: int, limit: Limit = LARGE) -> None:
        self.until(lambda: self.stored == {"state": f'{{"next":{count}}}'}, limit)

    @property
    def ids(self) -> list[int]:
        return [one["id"] for one in self.arrived]


def test_a_run_arrives_in_order_and_its_last_state_is_stored(tmp_path: Path) -> None:
    with Drive(tmp_path, {"count": 95, "last_state_late_s": 0.3}) as drive:
        drive.until_stored(90)
        drive.until(lambda: len(drive.arrived) == 95)
        assert drive.ids == list(range(95))
        assert drive.arrived[7] == {"id": 7, "text": "row 7"}
        assert set(drive.topics) == {"numbers"}
        drive.until(lambda: drive.task._tap is None)


def test_a_row_has_key_topic_and_time(tmp_path: Path) -> None:
    config = {"count": 1, "extracted": "2026-01-02T03:04:05Z"}
    with Drive(tmp_path, config, **{"topic.prefix": "shop."}) as drive:
        (row,) = drive.next_rows()
    assert (row["topic"], row["key_0"], row["timestamp"]) == ("shop.numbers", {"id": 0}, 1767323045000)


def test_a_state_that_comes_after_its_rows_were_taken_is_stored_alone(tmp_path: Path) -> None:
    with Drive(tmp_path, {"count": 10, "last_state_late_s": 1.0}) as drive:
        drive.until(lambda: len(drive.arrived) == 10)
        assert drive.stored is None
        drive.until_stored(10)
        assert drive.ids == list(range(10))


def test_the_next_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    with Drive(tmp_path, {"count": 15}, **{"sync.interval.ms": "0"}) as drive:
        drive.until(lambda: drive.ids.count(14) == 3)
        assert drive.ids[:15] == list(range(15))
        assert drive.ids[15:] == [*range(10, 15)] * 2


@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.parametrize("step", ["plan", "read", "half", "unstored"])
@pytest.mark.parametrize("is_crash", [True, False], ids=["crash", "retry"])
def test_an_end_at_any_step_loses_nothing(tmp_path: Path, step: str, batches: int, is_crash: bool) -> None:
    small = Limit(7, 1 << 20)
    with Drive(tmp_path, {"count": 40}) as drive:
        drive.until(lambda: len(drive.arrived) >= 7 * batches, small)
        plan, deadline = None, time.monotonic() + WITHIN_S
        while plan is None or not plan.rows:
            assert time.monotonic() < deadline
            plan = drive.plan(small)
        if step != "plan":
            rows = drive.rows(plan)
        if step == "half":
            drive.deliver(plan, rows, len(rows) // 2)
        elif step == "unstored":
            before = drive.stored
            drive.deliver(plan, rows)
            drive.stored = before
        if is_crash:
            drive.task.stop()
            drive.start()
        elif step != "half":
            drive.task.undelivered()
        drive.until_stored(40)
        assert list(dict.fromkeys(drive.ids)) == list(range(40))


def test_streams_are_selected_and_each_goes_to_its_topic(tmp_path: Path) -> None:
    config = {"count": 60, "streams": ["a", "b", "other"]}
    metadata = json.dumps({"a": {"replication-method": "INCREMENTAL"}})
    with Drive(tmp_path, config, streams="a,b*", **{"tap.metadata": metadata}) as drive:
        drive.until_stored(60)
        assert list(zip(drive.topics, drive.ids, strict=True)) == [("ab"[n % 2], n) for n in range(60)]


def test_a_pattern_of_no_stream_is_named(tmp_path: Path) -> None:
    with (
        Drive(tmp_path, {"count": 1}, streams="orders") as drive,
        pytest.raises(SingerError, match=r"has no stream orders .* it has numbers"),
    ):
        drive.until(lambda: False)


def test_a_tap_without_a_catalog_syncs_what_its_config_says(tmp_path: Path) -> None:
    with Drive(tmp_path, {"count": 10, "streams": ["a"]}, streams="nothing", **{"tap.catalog": "none"}) as drive:
        drive.until_stored(10)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("die", r"tap-fake ended with exit code 3; its last lines:\n.*\n  CRITICAL the disk is on fire$"),
        ("garbage", r"tap-fake printed what is no message of Singer's: 'Hello, I am .*\n  WARNING something odd$"),
        ("hang", r"tap-fake gave no sign for 1 s and was ended; its last lines:\n"),
    ],
)
def test_a_tap_that_fails_is_told_with_its_last_lines_after_what_came_before(
    tmp_path: Path, fault: str, said: str
) -> None:
    config = {"count": 40, "fault": fault, "mark": str(tmp_path / "mark")}
    with Drive(tmp_path, config, **{"tap.stall.timeout.ms": "1000"}) as drive:
        with pytest.raises(SingerError, match=f"(?s){said}"):
            drive.until(lambda: False)
        assert drive.ids == list(range(21))
        assert drive.stored == {"state": '{"next":20}'}
        drive.task.stop()
        drive.start()
        drive.until_stored(40)
        assert list(dict.fromkeys(drive.ids)) == list(range(40))


def test_a_record_that_does_not_fit_is_a_failed_record_with_its_text(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    with Drive(tmp_path, {"count": 10, "fault": "misfit"}) as drive:
        deadline = time.monotonic() + WITHIN_S
        while len(rows) < 11:
            assert time.monotonic() < deadline
            if (plan := drive.plan()) is not None:
                rows += (read := drive.rows(plan))
                drive.stored = read[-1]["source_offset"] if read else plan.splits[0].offset_if_empty
                drive.stored = None if drive.stored == {"state": None} else drive.stored
                drive.task.delivered([PartitionResult(source_partition=plan.splits[0].partition)])
    (bad,) = (row for row in rows if row["failure"])
    assert "stream numbers does not fit its SCHEMA: id: 'no number' is no integer" in bad["failure"]
    assert bad["as_read"] == '{"id":"no number"}'
    assert (bad["key_schema"], bad["value_schema"]) == (None, None)


def test_a_tap_is_held_up_and_not_taken_for_hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.connectors.singer.tap.MOST_ROWS", 10)
    with Drive(tmp_path, {"count": 100}, **{"tap.stall.timeout.ms": "1000"}) as drive:
        drive.until(lambda: len(drive.arrived) >= 10, Limit(3, 1 << 20))
        assert drive.task._tap is not None
        time.sleep(1.2)  # longer than the time-out that must not apply
        assert len(drive.task._tap._queue) == 10
        drive.until_stored(100, Limit(3, 1 << 20))
        assert drive.ids == list(range(100))


def test_a_tap_ends_with_its_task(tmp_path: Path) -> None:
    with Drive(tmp_path, {"count": 10, "fault": "hang"}) as drive:
        drive.until(lambda: len(drive.arrived) == 6)
        (tap,) = (one for one in psutil.Process().children(True) if "tap-fake" in " ".join(one.cmdline()))
    tap.wait(WITHIN_S)


def test_a_tap_knows_nothing_of_the_workers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_SASL_PASSWORD", "hunter2")
    source = "import os, sys; print(sorted(os.environ), os.environ['HOME'], file=sys.stderr); sys.exit(1)"
    installed(tmp_path / "path", "tap-fake", source)
    with Drive(tmp_path, {}) as drive, pytest.raises(SingerError) as failed:
        drive.until(lambda: False)
    assert "PATH" in str(failed.value)
    assert "CONNECT" not in str(failed.value)
    assert "headrace-held-singer" in str(failed.value)


def test_shapes_are_few_though_streams_take_turns() -> None:
    types = [stream_type(str(n), {"properties": {"a": {"type": "integer"}}}, (), False) for n in range(40)]
    rows = [Row(of, None, (1,), None, None, None, 1) for of in types]
    shapes = Shapes()
    for _ in range(3):
        for n in range(5):
            shapes.name_of([rows[n]])
    assert len(shapes.by_name) == 5
    last = shapes.by_name[shapes.name_of(rows[2:4])]
    assert len(last.types) == 5
    batch = last.batch(rows[2:4], [None, "{}"], "")
    assert batch["value_schema"].to_pylist() == [2, 3]
    assert batch["source_offset"].to_pylist() == [{"state": None}, {"state": "{}"}]
    for row in rows:
        assert len(shapes.by_name[shapes.name_of([row])].types) <= 16
    assert isinstance(batch, pa.RecordBatch)


@pytest.mark.parametrize(
    ("partition", "offset", "is_taken"),
    [
        ({"tap": "tap-fake"}, {"state": "{}"}, True),
        ({"tap": "tap-fake"}, None, True),
        ({"tap": "tap-fake"}, {"state": "[1]"}, False),
        ({"tap": "tap-fake"}, {"state": {}}, False),
        ({"tap": "tap-fake"}, {"state": "{}", "more": 1}, False),
        ({"file": "x"}, {"state": "{}"}, False),
    ],
)
def test_an_operator_sets_the_state_as_text(partition: Any, offset: Any, is_taken: bool) -> None:
    body = {"offsets": [{"partition": partition, "offset": offset}]}
    if is_taken:
        assert SingerSourceConnector().check_offsets({}, body)
    else:
        with pytest.raises(SingerError, match="of a tap is"):
            SingerSourceConnector().check_offsets({}, body)


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    yield
    left = [one for one in psutil.Process().children(True) if "tap-fake" in " ".join(one.cmdline())]
    assert not psutil.wait_procs(left, timeout=WITHIN_S)[1]
