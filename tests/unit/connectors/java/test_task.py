from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.java import task as module
from headrace.connectors.java.errors import HostLost, HostTimeout
from headrace.connectors.java.task import JavaSourceTask
from headrace.plugins.contracts import Deliveries, Limit, PartitionResult, TaskContext, TransactionEnd
from headrace.plugins.stopping import StopToken
from tests.unit.connectors.java.fake_host import NotingHost

LIMIT = Limit(1, 1)


class FakeHost(NotingHost):
    """Gives what a test has laid out for `task.take`."""

    def __init__(self) -> None:
        super().__init__()
        self.polled: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.wants_receipts = False

    def call(self, name: str, limit_s: float, /, **given: Any) -> Any:
        self.calls.append((name, given))
        if self.error is not None:
            raise self.error
        if name == "task.start":
            return {"wants_receipts": self.wants_receipts}
        return [[{"p": 1}, {"o": given["row"]}], [None, {"o": 1}]] if name == "task.reached" else None

    def call_for_data(self, name: str, limit_s: float, /, **given: Any) -> tuple[Any, bytearray]:
        if self.error is not None:
            raise self.error
        return (self.polled.pop(0) if self.polled else None), bytearray()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost()

    def rows(data: bytearray, head: Mapping[str, Any], shape: object) -> pa.RecordBatch:
        numbers = [{"row": head["first"] + number} for number in range(head["rows"])]
        return pa.RecordBatch.from_pydict({"source_offset": numbers})

    monkeypatch.setattr(module, "running_host", lambda: made)
    monkeypatch.setattr(module, "batch_of", rows)
    return made


@pytest.fixture
def task(host: FakeHost) -> JavaSourceTask:
    return started()


def started() -> JavaSourceTask:
    made = JavaSourceTask()
    type(made).plugin = {"class": "org.x.Y"}
    stored = {"a": {"o": 1}}
    context = TaskContext("c", 0, StopToken(), stored_offsets=lambda wanted: [stored.get(one["p"]) for one in wanted])
    made.start({}, context)
    return made


def polled(
    rows: int, first: int, era: int = 0, values: tuple[Any, ...] = (), columns: tuple[int, ...] = (0,), **more: str
) -> dict[str, Any]:
    told = {"keys": [], "values": list(values), "key_columns": [], "value_columns": list(columns)}
    return {"rows": rows, "first": first, "era": era, **told, "has_failures": False, **more}


def read(task: JavaSourceTask) -> list[int]:
    plan = task.plan([], LIMIT)
    assert plan is not None
    return [row["row"] for batch in task.reader(plan).read(0) for row in batch["source_offset"].to_pylist()]


def test_what_a_failed_attempt_left_is_planned_again(task: JavaSourceTask, host: FakeHost) -> None:
    host.polled = [polled(3, 10, values=({"type": "string", "optional": False},)), polled(2, 13)]
    assert read(task) == [10, 11, 12]
    assert read(task) == [10, 11, 12], "nothing was reached"
    reached = task.offsets_reached(PartitionResult(source_offset={"row": 10}))
    assert reached == [({"p": 1}, {"o": 10})]
    assert read(task) == [11, 12]
    assert task.offsets_reached(PartitionResult()) == ()
    task.offsets_reached(PartitionResult(source_offset={"row": 12}))
    assert read(task) == [13, 14]
    told = [given for name, given in host.calls if name == "task.reached"]
    assert [(one["row"], one["topics"], one["data"]) for one in told] == [(10, None, b""), (12, None, b"")]


def test_a_plugin_that_asks_learns_where_its_records_stand(host: FakeHost) -> None:
    host.wants_receipts = True
    task = started()
    assert task.wants_deliveries is Deliveries.ALL
    host.polled = [polled(3, 10, columns=())]
    read(task)
    columns = {
        "source_offset": [{"row": 11}, {"row": 10}, {"row": 11}, {"row": 12}],
        "topic": ["b", "a", "a", "a"],
        "partition": pa.array([0, 1, 2, 0], pa.int32()),
        "offset": [5, 6, 7, 8],
        "timestamp": [1, 2, 3, 4],
    }
    rows = pa.RecordBatch.from_pydict(columns)
    task.offsets_reached(PartitionResult(source_offset={"row": 11}, acknowledged=rows))
    task.offsets_reached(PartitionResult(source_offset={"row": 12}))
    told = [given for name, given in host.calls if name == "task.reached"]
    assert [one["topics"] for one in told] == [["b", "a"], []]
    receipts = list(struct.iter_unpack("<qqqii", told[0]["data"]))
    assert receipts == [(10, 6, 2, 1, 1), (11, 5, 1, 0, 0), (11, 7, 3, 1, 2)], "by rows, the last try last"
    assert told[1]["data"] == b"", "the last one was dropped"


def test_a_plan_ends_the_transaction_as_the_plugin_wants(task: JavaSourceTask, host: FakeHost) -> None:
    host.polled = [
        polled(2, 10, columns=(), ends_transaction="commit"),
        polled(0, 12, columns=(), ends_transaction="abort"),
        polled(1, 12, columns=()),
    ]
    ends = []
    for row in (10, 11):
        plan = task.plan([], LIMIT)
        assert plan is not None
        ends.append((plan.rows, plan.ends_transaction))
        task.delivered([])
        task.offsets_reached(PartitionResult(source_offset={"row": row}))
    assert ends == [(2, TransactionEnd.COMMIT), (1, TransactionEnd.COMMIT)], "the rest of a batch ends it, too"
    for _ in range(2):
        plan = task.plan([], LIMIT)
        assert plan is not None, "a failed attempt has not ended it yet"
        assert (plan.splits, plan.ends_transaction) == ((), TransactionEnd.ABORT)
        task.reader(plan)
    task.delivered([])
    plan = task.plan([], LIMIT)
    assert plan is not None
    assert (plan.rows, plan.ends_transaction) == (1, None)


def test_a_shape_has_the_schemas_that_are_needed(task: JavaSourceTask, host: FakeHost) -> None:
    text, number = {"type": "string", "optional": False}, {"type": "int32", "optional": False}
    host.polled = [
        polled(1, 0, values=(text,)),
        polled(1, 1, values=(number, None), columns=(1, 2)),
        polled(1, 2, columns=(2,)),
        polled(1, 3, columns=(0, 2)),
        polled(1, 4, columns=(0, 1)),
        polled(1, 5, 1, (number,)),
    ]
    columns = []
    for row in range(6):
        plan = task.plan([], LIMIT)
        assert plan is not None
        names = [f"{field.name}:{field.type}" for field in task.row_type_of(plan.splits[0].shape)]
        columns.append([name for name in names if name.startswith("value_") and "schema" not in name])
        task.offsets_reached(PartitionResult(source_offset={"row": row}))
    new, of_all = ["value_0:int32", "value_1:string"], ["value_0:string", "value_1:int32", "value_2:string"]
    assert columns == [["value_0:string"], new, new, of_all, of_all, ["value_0:int32"]]


def test_its_plugin_reads_the_stored_offsets(task: JavaSourceTask, host: FakeHost) -> None:
    assert host.offsets[7](['{"p":"a"}', '{"p":"b"}']) == ['{"o":1}', None]


def test_a_lost_host_fails_the_task(task: JavaSourceTask, host: FakeHost) -> None:
    host.error, host.is_lost = HostLost("The Java host ended"), True
    with pytest.raises(HostLost):
        task.plan([], LIMIT)
    task.committed([])
    task.stop()
    assert [name for name, _ in host.calls] == ["task.start"]


def test_a_task_that_does_not_end_retires_its_host(task: JavaSourceTask, host: FakeHost) -> None:
    host.error = HostTimeout("task.stop")
    task.stop()
    assert host.is_retired
