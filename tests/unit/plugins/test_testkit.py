"""The kit passes a source and a sink that are right, and fails each way of being wrong that it is there to find."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame

from headrace.config.settings import Settings
from headrace.plugins.contracts import (
    ArrowReader,
    ArrowWriter,
    Connector,
    Limit,
    Plan,
    SinkTask,
    SourceOffset,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.records import Records
from headrace.plugins.testkit import SinkContract, SinkDrive, SinkRig, SourceContract, SourceDrive, SourceRig

STORE: list[str] = []
"""The outside system: a list in this process."""


class ListReader:
    def __init__(self, after: int, upto: int) -> None:
        self.after, self.upto = after, upto

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        rows = [{"value": STORE[n], "source_offset": {"row": n + 1}} for n in range(self.after, self.upto)]
        yield pa.RecordBatch.from_pylist(rows, self.schema())

    @staticmethod
    def schema() -> pa.Schema:
        return pa.schema([("value", pa.string()), ("source_offset", pa.struct([("row", pa.int64())]))])


class ListSourceTask(SourceTask):
    row_type = pa.schema([("value", pa.string())])
    offset_type = pa.struct([("row", pa.int64())])

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        pass

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        return [{"list": 0}]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        row = (after[0] or {"row": 0})["row"]
        upto = min(len(STORE), row + limit.rows)
        return Plan((Split({"list": 0}, {"row": row}, {"row": upto}),), upto - row, 0) if upto > row else None

    def reader(self, plan: Plan) -> ArrowReader:
        (split,) = plan.splits
        return ListReader((split.after or {})["row"], (split.upto or {})["row"])

    def records(self, frame: DataFrame) -> Records:
        raise NotImplementedError


class ListWriter:
    def __init__(self) -> None:
        self.rows: list[str] = []

    def write(self, rows: pa.RecordBatch) -> None:
        STORE.extend(rows.column(0).to_pylist())

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None:
        pass


class ListSinkTask(SinkTask):
    made: type[ListWriter] = ListWriter

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        pass

    def columns(self, records: Records) -> list[Column]:
        raise NotImplementedError

    def writer(self, attempt: str) -> ArrowWriter:
        return self.made()


class ListSourceRig(SourceRig):
    def __init__(self, task: type[SourceTask] = ListSourceTask) -> None:
        STORE.clear()
        self.task = task

    def connector(self) -> Connector:
        return made(self.task)

    def config(self) -> dict[str, str]:
        return {}

    def put(self, values: Sequence[str]) -> None:
        STORE.extend(values)


class ListSinkRig(SinkRig):
    def __init__(self, task: type[SinkTask] = ListSinkTask) -> None:
        STORE.clear()
        self.task = task

    def connector(self) -> Connector:
        return made(self.task)

    def config(self) -> dict[str, str]:
        return {}

    def rows(self, values: Sequence[str]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, pa.string())], names=["value"])

    def contents(self) -> list[str]:
        return list(STORE)


def made(task_class: Any) -> Connector:
    class ListConnector(Connector):
        settings = Settings()
        version = "1"
        task = task_class

        def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
            return [{}]

    ListConnector.task_class = "List"
    return ListConnector()


class TestListSource(SourceContract):
    @pytest.fixture
    def rig(self) -> SourceRig:
        return ListSourceRig()


class TestListSink(SinkContract):
    @pytest.fixture
    def rig(self) -> SinkRig:
        return ListSinkRig()


def passes(check: Callable[..., None], **given: Any) -> bool:
    """Whether a test of the kit passes with these arguments, where it takes them."""
    wanted = inspect.signature(check).parameters
    try:
        check(**{name: value for name, value in given.items() if name in wanted})
    except (Exception, pytest.fail.Exception):
        return False
    return True


class PlansForEver(ListSourceTask):
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        return super().plan(after, limit) or Plan((Split({"list": 0}, {"row": 0}, {"row": 0}),), 0, 0)


class LateReader(ListReader):
    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        self.upto = len(STORE)
        yield from super().read(split)


class ReadsBeyondThePlan(ListSourceTask):
    def reader(self, plan: Plan) -> ArrowReader:
        (split,) = plan.splits
        return LateReader((split.after or {})["row"], 0)


class ShiftedReader(ListReader):
    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        for batch in super().read(split):
            rows = [row | {"source_offset": {"row": row["source_offset"]["row"] - 1}} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, self.schema())


class StoresTheOffsetBeforeTheRow(ListSourceTask):
    def reader(self, plan: Plan) -> ArrowReader:
        (split,) = plan.splits
        return ShiftedReader((split.after or {})["row"], (split.upto or {})["row"])


class RemembersInMemory(ListSourceTask):
    position = 0

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        plan = super().plan([{"row": self.position}], limit)
        if plan is not None:
            self.position += plan.rows
        return plan


class Unpicklable(ListSourceTask):
    def reader(self, plan: Plan) -> ArrowReader:
        reader = super().reader(plan)
        reader.hook = lambda: None  # type: ignore[attr-defined]
        return reader


@pytest.mark.parametrize(
    ("broken", "check", "more"),
    [
        (PlansForEver, SourceContract.test_nothing_new_no_plan, {}),
        (ReadsBeyondThePlan, SourceContract.test_the_same_split_gives_the_same_rows_where_the_source_says_so, {}),
        (StoresTheOffsetBeforeTheRow, SourceContract.test_no_row_up_to_a_stored_offset_is_needed_again, {}),
        (RemembersInMemory, SourceContract.test_a_batch_that_failed_comes_again, {}),
        (Unpicklable, SourceContract.test_hostile_values_arrive_as_they_are, {}),
    ],
)
def test_a_broken_source_fails(broken: type[SourceTask], check: Any, more: dict[str, Any]) -> None:
    for task, expected in ((ListSourceTask, True), (broken, False)):
        rig = ListSourceRig(task)
        assert passes(check, self=None, rig=rig, drive=SourceDrive(rig), **more) is expected


class KeepsUntilTheNext(ListWriter):
    def write(self, rows: pa.RecordBatch) -> None:
        STORE.extend(self.rows)
        self.rows = rows.column(0).to_pylist()


class Sorts(ListWriter):
    def finish(self) -> bytes:
        STORE.sort()
        return b""


class Overwrites(ListWriter):
    def write(self, rows: pa.RecordBatch) -> None:
        STORE[:] = [*self.rows, *rows.column(0).to_pylist()]


class Strips(ListWriter):
    def write(self, rows: pa.RecordBatch) -> None:
        STORE.extend(value.strip() for value in rows.column(0).to_pylist())


@pytest.mark.parametrize(
    ("broken", "check", "more"),
    [
        (KeepsUntilTheNext, SinkContract.test_rows_stand_there_in_order_once_committed, {}),
        (Sorts, SinkContract.test_rows_stand_there_in_order_once_committed, {}),
        (Overwrites, SinkContract.test_an_empty_batch_changes_nothing, {}),
        (Overwrites, SinkContract.test_ending_at_any_step_loses_nothing, {"step": "commit", "restart": True}),
        (Strips, SinkContract.test_hostile_values_arrive_as_they_are, {}),
    ],
)
def test_a_broken_sink_fails(broken: type[ListWriter], check: Any, more: dict[str, Any]) -> None:
    wrong = type("Broken", (ListSinkTask,), {"made": broken})
    for task, expected in ((ListSinkTask, True), (wrong, False)):
        rig = ListSinkRig(task)
        assert passes(check, self=None, rig=rig, drive=SinkDrive(rig), **more) is expected


class DropsAtCrash(ListSourceTask):
    """Counts a row as read as soon as it was planned, in the outside system."""

    taken = 0

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        at = max(DropsAtCrash.taken, (after[0] or {"row": 0})["row"])
        plan = super().plan([{"row": at}], limit)
        DropsAtCrash.taken = at + (plan.rows if plan is not None else 0)
        return plan


@pytest.mark.parametrize("step", ["plan", "reader", "half", "read"])
def test_a_source_that_takes_before_it_is_stored_fails_at_a_crash(step: str) -> None:
    check = SourceContract.test_a_crash_between_any_two_steps_loses_nothing
    DropsAtCrash.taken = 0
    assert passes(check, self=None, rig=ListSourceRig(), step=step, batches=0)
    assert not passes(check, self=None, rig=ListSourceRig(DropsAtCrash), step=step, batches=0)
