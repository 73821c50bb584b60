"""Sinks over records: what `put` is given, which records fail, what is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import pyarrow as pa
import pytest

from headrace.plugins import Record, RecordsFailed, RecordSink, RetriableError, Setting
from headrace.plugins.arrow_types import arrow_type_of
from headrace.plugins.contracts import StopToken, TaskContext
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.sink import RecordSinkTask
from headrace.plugins.schema import Schema, spark_type

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Kept(RecordSink):
    settings = (Setting("limit", 5),)

    def open(self) -> None:
        self.calls: list[Any] = ["open"]
        self.kept: list[Record] = []

    def put(self, records: Sequence[Record]) -> Any:
        self.calls.append(len(records))
        self.kept += records

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


def started(sink: type[RecordSink]) -> tuple[RecordSinkTask, Any]:
    connector = sink()
    connector.start({}, None)  # type: ignore[arg-type]
    task = connector.task()
    assert isinstance(task, RecordSinkTask)
    task.start(connector.task_configs(1)[0], TaskContext("c", 0, StopToken()))
    return task, task.plugin


def rows(
    task: RecordSinkTask, values: Sequence[Any], schema: Schema | None = None, schemas: Sequence[int | None] = ()
) -> pa.RecordBatch:
    """Rows as `columns` makes them, of values in Arrow's form; `schemas` has the number of each, 0 by default."""
    task.schemas = [schema]
    count = len(values)
    own = {
        "topic": pa.array(["t"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array(range(count), pa.int64()),
        "headers": pa.array([[{"key": "h", "value": b"x"}] if n == 0 else None for n in range(count)], HEADERS),
        "key_schema": pa.nulls(count, pa.int32()),
        "value_schema": pa.array(list(schemas) or [0] * count, pa.int32()),
        "value_0": pa.array(values, arrow_type_of(spark_type(schema))),
    }
    return pa.record_batch(own)


def test_put_gets_the_records_and_flush_ends_the_batch() -> None:
    task, plugin = started(Kept)
    writer = task.writer("a")
    writer.write(rows(task, ['{"n":1}', "[1,null]", None, '"text"'], None, [0, 0, None, 0]))
    writer.write(rows(task, ["2"]))
    assert writer.finish() == b""
    task.stop()
    assert plugin.calls == ["open", 4, 1, "flush", "close"]
    assert [one.value for one in plugin.kept] == [{"n": 1}, [1, None], None, "text", 2]
    assert plugin.kept[0] == Record({"n": 1}, None, [("h", b"x")], 0, "t", 0, 0)


def test_put_is_given_no_more_than_it_wants() -> None:
    task, plugin = started(type("Two", (Kept,), {"most_records": 2}))
    task.writer("a").write(rows(task, ["1"] * 5))
    assert plugin.calls == ["open", 2, 2, 1]


class Item(TypedDict):
    text: str | None
    price: Annotated[Decimal, 2] | None
    at: datetime | None
    day: date | None
    clock: time | None
    tags: list[str] | None
    sizes: dict[str, int] | None


def test_values_have_pythons_types() -> None:
    task, plugin = started(Kept)
    at, day = datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)
    full = {
        "text": "x",
        "price": Decimal("1.50"),
        "at": at,
        "day": day,
        "clock": 3_723_004,
        "tags": ["a", "b"],
        "sizes": [("s", 1), ("m", 2)],
    }
    batch = rows(task, [dict.fromkeys(full), None, full, {**full, "tags": [], "sizes": []}], schema_of(Item))
    expected = {**full, "clock": time(1, 2, 3, 4000), "sizes": {"s": 1, "m": 2}}
    wanted = [dict.fromkeys(full), None, expected, {**expected, "tags": [], "sizes": {}}]
    for first in range(4):
        plugin.kept.clear()
        task.writer("a").write(batch.slice(first))
        assert [one.value for one in plugin.kept] == wanted[first:]


def failing(put: Callable[..., Any], **members: Any) -> type[RecordSink]:
    return type("Failing", (Kept,), {"put": put, **members})


def test_records_that_fail_are_named_by_their_rows() -> None:
    def put(self: Any, records: Sequence[Record]) -> None:
        bad = {n: f"no {one.value}" for n, one in enumerate(records) if one.value % 3 == 0}
        if bad:
            raise RecordsFailed(bad)

    task, _ = started(failing(put, most_records=4))
    with pytest.raises(RecordsFailed) as failed:
        task.writer("a").write(rows(task, [str(n) for n in range(1, 11)]))
    assert [(one.row, one.message) for one in failed.value.failures] == [(2, "no 3"), (5, "no 6"), (8, "no 9")]
    assert str(failed.value) == "3 records failed, the first: no 3"


@pytest.mark.parametrize("row", [3, -1, "0"])
def test_a_failure_of_no_record_is_an_error_of_its_own(row: Any) -> None:
    def put(self: Any, records: Sequence[Record]) -> None:
        raise RecordsFailed({row: "bad"})

    task, _ = started(failing(put))
    with pytest.raises(ValueError, match="was given 3 records, and names number"):
        task.writer("a").write(rows(task, ["1", "2", "3"]))


def test_what_python_cannot_hold_fails_alone() -> None:
    task, plugin = started(Kept)
    day = pa.array([0, 2**31 - 1, 1], pa.int32()).cast(pa.date32())
    batch = rows(task, [None] * 3, schema_of(date)).set_column(7, "value_0", day)
    with pytest.raises(RecordsFailed) as failed:
        task.writer("a").write(batch)
    assert [one.row for one in failed.value.failures] == [1]
    assert [one.value for one in plugin.kept] == [date(1970, 1, 1), date(1970, 1, 2)]
    plugin.kept.clear()
    with pytest.raises(RecordsFailed) as failed:
        task.writer("a").write(rows(task, ["1", "[" * 100_000, "{", "2"]))
    assert [one.row for one in failed.value.failures] == [1, 2]
    assert [one.value for one in plugin.kept] == [1, 2]


@pytest.mark.parametrize("method", ["open", "put", "flush", "close"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionError("away"), RetriableError),
        (TimeoutError("late"), RetriableError),
        (RetriableError("soon"), RetriableError),
        (KeyError("bug"), KeyError),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_of_each_call(method: str, error: Exception, told: type[Exception], is_async: bool) -> None:
    def fail(self: Any, *records: Any) -> None:
        raise error

    async def fail_async(self: Any, *records: Any) -> None:
        await asyncio.sleep(0)
        raise error

    def drive() -> None:
        task, _ = started(type("Failing", (Kept,), {method: fail_async if is_async else fail}))
        try:
            task.writer("a").write(rows(task, ["1"]))
            task.writer("a").finish()
        finally:
            task.stop()

    with pytest.raises(told) as raised:
        drive()
    assert str(error) in str(raised.value)


def test_records_failed_is_no_retriable_error_whatever_is_declared() -> None:
    def put(self: Any, records: Sequence[Record]) -> None:
        raise RecordsFailed({0: "bad"})

    task, _ = started(failing(put, retriable=(Exception,)))
    with pytest.raises(RecordsFailed):
        task.writer("a").write(rows(task, ["1"]))


def test_an_async_sink_has_one_loop() -> None:
    class Async(RecordSink):
        async def open(self) -> None:
            self.loops = [asyncio.get_running_loop()]

        async def put(self, records: Sequence[Record]) -> None:
            self.loops.append(asyncio.get_running_loop())

        async def close(self) -> None:
            self.loops.append(asyncio.get_running_loop())

    task, plugin = started(Async)
    task.writer("a").write(rows(task, ["1"]))
    task.stop()
    assert len(plugin.loops) == 3
    assert len(set(plugin.loops)) == 1
