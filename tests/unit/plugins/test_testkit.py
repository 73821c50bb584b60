"""The kit passes a source and a sink that are right, and fails each way of being wrong that it is there to find."""

from __future__ import annotations

import contextlib
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
    TopicPartition,
)
from headrace.plugins.errors import RecordFailure, RecordsFailed, RetriableError
from headrace.plugins.extensions import PartitionedSink
from headrace.plugins.records import Records
from headrace.plugins.testkit import (
    Outside,
    SinkContract,
    SinkDrive,
    SinkFaultsContract,
    SinkFencingContract,
    SinkRig,
    SourceContract,
    SourceDrive,
    SourceFaultsContract,
    SourceRig,
)

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
        row = upto = (after[0] or {"row": 0})["row"]
        size = 0
        while upto < len(STORE) and upto - row < limit.rows and size < limit.bytes:
            size += len(STORE[upto])
            upto += 1
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
    """True if a test of the kit passes with those of these arguments that it takes."""
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


# -- over Arrow batches, with an outside system that fails -------------------------------------------------------------


class AwaySource(ListSourceTask):
    """Asks the outside system for each plan."""

    outside: Outside

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self.context = context

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        with self.context.interrupted_by(self.outside.heal):
            try:
                self.outside.meet()
            except Exception as error:
                raise self.error_of(error) from error
        return super().plan(after, limit)

    def error_of(self, error: Exception) -> Exception:
        return RetriableError(str(error)) if isinstance(error, ConnectionError) else error


class AwayWriter(ListWriter):
    outside: Outside

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            self.outside.meet()
        except ConnectionError as error:
            raise RetriableError(str(error)) from error
        values = rows.column(0).to_pylist()
        bad = [number for number, value in enumerate(values) if value in self.outside.refused]
        STORE.extend(value for number, value in enumerate(values) if number not in bad)
        if bad:
            raise RecordsFailed("refused", self.failures(bad))

    def failures(self, bad: Sequence[int]) -> Sequence[RecordFailure]:
        return [RecordFailure(number, "refused") for number in bad]

    def __reduce__(self) -> Any:
        return type(self), ()


def away_source(task: type[AwaySource] = AwaySource) -> SourceRig:
    rig = ListSourceRig(task)
    task.outside = rig.outside = Outside()
    return rig


def away_sink(writer: type[AwayWriter] = AwayWriter) -> SinkRig:
    rig = ListSinkRig(type("AwaySink", (ListSinkTask,), {"made": writer}))
    writer.outside = rig.outside = Outside()
    return rig


class TestAwaySource(SourceFaultsContract):
    @pytest.fixture
    def rig(self) -> SourceRig:
        return away_source()


class TestAwaySink(SinkFaultsContract):
    @pytest.fixture
    def rig(self) -> SinkRig:
        return away_sink()


class SwallowsOutages(AwaySource):
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        with contextlib.suppress(RetriableError):
            return super().plan(after, limit)
        return super().plan(after, limit)


class TriesLoginsForEver(AwaySource):
    def error_of(self, error: Exception) -> Exception:
        return RetriableError(str(error))


class StaysOnTheLine(AwaySource):
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        self.outside.meet()
        return ListSourceTask.plan(self, after, limit)


class IgnoresTheLimit(ListSourceTask):
    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        return super().plan(after, Limit(1 << 60, 1 << 60))


class NamesTheRowBefore(AwayWriter):
    def failures(self, bad: Sequence[int]) -> Sequence[RecordFailure]:
        return [RecordFailure(max(0, number - 1), "refused") for number in bad]


class LosesWithTheConnection(AwayWriter):
    def write(self, rows: pa.RecordBatch) -> None:
        with contextlib.suppress(RetriableError):
            super().write(rows)


@pytest.mark.parametrize(
    ("rig", "check", "promise"),
    [
        (lambda: away_source(SwallowsOutages), "test_a_retriable_failure_is_raised_and_nothing_is_lost", "swallowed"),
        (lambda: away_source(TriesLoginsForEver), "test_a_permanent_failure_fails_the_task", "no RetriableError"),
        (
            lambda: away_source(StaysOnTheLine),
            "test_it_ends_within_a_second_while_the_outside_system_is_slow",
            "ends within a second",
        ),
        (lambda: away_sink(NamesTheRowBefore), "test_refused_records_are_named_exactly", "are named, and no others"),
        (lambda: away_sink(LosesWithTheConnection), "test_a_dropped_connection_is_opened_anew", "nothing is lost"),
    ],
)
def test_a_bug_over_arrow_batches_is_found(rig: Callable[[], Any], check: str, promise: str) -> None:
    made = rig()
    contract = SourceFaultsContract() if isinstance(made, SourceRig) else SinkFaultsContract()
    test = getattr(contract, check)
    more: dict[str, Any] = {"bad": (8,)} if "refused" in check else {}
    if "drive" in inspect.signature(test).parameters:
        more["drive"] = SinkDrive(made)
    with pytest.raises(AssertionError, match=f"broken promise: .*{promise}"):
        test(rig=made, **more)


@pytest.mark.parametrize("limit", [(Limit(20, 1 << 30), 400, 0), (Limit(1 << 30, 2 << 20), 1_000, 8_000)])
def test_a_source_that_ignores_its_limit_is_found(limit: tuple[Limit, int, int]) -> None:
    rig = ListSourceRig(IgnoresTheLimit)
    bound, rows, width = limit
    with pytest.raises(AssertionError, match=r"broken promise: a plan with Limit.* keeps to it"):
        SourceContract().test_a_plan_keeps_to_its_limit(rig, SourceDrive(rig), bound, rows, width)


class OnceWriter(ListWriter):
    """Writes by offsets that the outside system keeps, under an epoch that fences former owners."""

    epoch = 0

    def __init__(self, mine: int) -> None:
        super().__init__()
        self.mine = mine

    def write(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.column(0).to_pylist()

    def finish(self) -> bytes:
        if self.mine != OnceWriter.epoch:
            raise RetriableError("another task has taken over")
        STORE.extend(value for value in self.rows if value not in STORE)
        return b""


class OnceSink(ListSinkTask, PartitionedSink):
    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        OnceWriter.epoch += 1
        self.mine = OnceWriter.epoch
        return {}

    def writer(self, attempt: str) -> ArrowWriter:
        return OnceWriter(self.mine)


class NeverFenced(OnceSink):
    def writer(self, attempt: str) -> ArrowWriter:
        return ListWriter()


class TestOnceSink(SinkFencingContract):
    @pytest.fixture
    def rig(self) -> SinkRig:
        return ListSinkRig(OnceSink)


def test_a_former_owner_that_is_not_fenced_is_found() -> None:
    rig = ListSinkRig(NeverFenced)
    with pytest.raises(AssertionError, match="broken promise: a former owner of a partition is fenced"):
        SinkFencingContract().test_a_former_owner_writes_nothing_any_more(rig, SinkDrive(rig))
