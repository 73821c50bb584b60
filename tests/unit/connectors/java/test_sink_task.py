from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.java import sink_task as module
from headrace.connectors.java.errors import HostLost, HostTimeout, JavaError
from headrace.connectors.java.sink_task import JavaSinkTask
from headrace.plugins.contracts import RecordsFailed, RetriableError, TaskContext, TopicPartition
from headrace.plugins.schema import STRING
from headrace.plugins.sink_requests import SinkRequests
from headrace.plugins.stopping import StopToken
from tests.unit.connectors.java.fake_host import NotingHost

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeHost(NotingHost):
    """Answers as a test has laid out by call."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[int, Any] = {}
        self.answers: dict[str, Any] = {}

    def call(self, name: str, limit_s: float, /, **given: Any) -> Any:
        self.calls.append((name, given))
        found = self.answers.get(name, asked())
        if isinstance(found, Exception):
            raise found
        return found

    def leave(self, number: int) -> None:
        super().leave(number)
        del self.events[number]

    def raise_if_lost(self) -> None:
        if self.is_lost:
            raise HostLost("lost")

    def named(self, name: str) -> list[Mapping[str, Any]]:
        return [given for called, given in self.calls if called == name]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost()
    monkeypatch.setattr(module, "running_host", lambda: made)
    return made


@pytest.fixture
def task(host: FakeHost) -> JavaSinkTask:
    made = type("Task", (JavaSinkTask,), {"plugin": {"class": "org.x.Y"}})()
    made.start({}, TaskContext("c", 0, StopToken(), worker={"offset.flush.interval.ms": 5000}))
    return made


def batch(*offsets: int, partition: int = 0, number: int = 0) -> pa.RecordBatch:
    count = len(offsets)
    columns: dict[str, Any] = {
        "origin_topic": ["t"] * count,
        "origin_partition": [partition] * count,
        "offset": list(offsets),
        "value_schema": [number] * count,
        f"value_{number}": [f"v{offset}" for offset in offsets],
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_preview_shows_the_records_of_put_and_calls_nothing(host: FakeHost) -> None:
    task: JavaSinkTask = type("Task", (JavaSinkTask,), {"plugin": {"class": "org.x.Y"}})()
    task.start_preview({}, TaskContext("c", 0, StopToken()))
    task.schemas.sides["value"].append(STRING)
    rows = batch(7, 8).append_column("key_schema", pa.nulls(2, pa.int32()))
    effects = list(task.preview([rows, rows]))
    task.stop()
    assert host.calls == []
    assert [(one.action, one.target, one.row) for one in effects] == [("put", "org.x.Y", row) for row in range(4)]
    assert effects[1].detail | {"topic": "t"} == {
        "topic": "t",
        "partition": None,
        "offset": 8,
        "timestamp": None,
        "key": None,
        "key_schema": None,
        "value": "v8",
        "value_schema": {"type": "string", "optional": False},
        "headers": [],
    }
    assert task.preview_notes() == ["Only the Java plugin Y knows what it writes of these records."]


def write(task: JavaSinkTask, *batches: pa.RecordBatch) -> None:
    writer = task.writer("1")
    for one in batches:
        writer.write(one)
    writer.finish()


def asked(**what: Any) -> dict[str, Any]:
    return {"asked": what, "filtered": []}


def test_what_the_hosts_transforms_filter_is_left_out_once(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.put"] = {"asked": {}, "filtered": [["t", 0, 2]]}
    assert task.left_out() == {}
    task.schemas.sides["value"].append(STRING)
    write(task, batch(5, 6, 7))
    assert (task.left_out(), task.left_out()) == ({TopicPartition("t", 0): 2}, {})


def test_a_batch_is_put_once_and_each_schema_told_once(task: JavaSinkTask, host: FakeHost) -> None:
    task.schemas.sides["value"] += [STRING, None]
    write(task, batch(5, 6), batch(7, number=1))
    write(task, batch(8))
    first, second, third = host.named("sink.put")
    assert [(one["begins"], one["ends"], one["rows"]) for one in (first, second, third)] == [
        (True, False, 2),
        (False, True, 1),
        (True, True, 1),
    ]
    assert first["schemas"] == {"keys": [], "values": [[0, {"type": "string", "optional": False}], [1, None]]}
    assert second["schemas"] == third["schemas"] == {"keys": [], "values": []}
    assert (first["values"], second["values"]) == ([0], [1])
    write(task)
    assert len(host.named("sink.put")) == 3


def test_schemas_are_told_again_where_the_first_put_failed(task: JavaSinkTask, host: FakeHost) -> None:
    task.schemas.sides["value"].append(STRING)
    host.answers["sink.put"] = RetriableError("not now")
    with pytest.raises(RetriableError):
        write(task, batch(1))
    del host.answers["sink.put"]
    write(task, batch(1))
    assert len(host.named("sink.put")[1]["schemas"]["values"]) == 1


def test_no_more_is_released_than_the_plugin_says_or_was_done(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.commit"] = {"released": [["t", 0, 7], ["t", 1, 99], ["u", 0, 5]], **asked()}
    assert task.pre_commit({P0: 10, P1: 12, TopicPartition("v", 0): 3}) == {P0: 7, P1: 12}
    assert task.pre_commit({}) == {}


@pytest.mark.parametrize("error", [RetriableError("no"), JavaError("no")])
def test_after_a_failed_pre_commit_the_task_goes_back(task: JavaSinkTask, host: FakeHost, error: Exception) -> None:
    write(task, batch(5, 6))
    write(task, batch(7))
    host.answers["sink.commit"] = error
    with pytest.raises(RetriableError, match="preCommit"):
        task.pre_commit({P0: 8, P1: 3})
    assert task.requests().offsets == {P0: 5}
    assert task.requests() == SinkRequests()
    host.answers["sink.commit"] = {"released": [["t", 0, 6]], **asked()}
    assert task.pre_commit({P0: 8}) == {P0: 6}
    host.answers["sink.commit"] = error
    with pytest.raises(RetriableError):
        task.pre_commit({P0: 8})
    assert task.requests().offsets == {P0: 6}


def test_the_plugins_wishes_reach_the_worker_once(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.put"] = asked(offsets=[["t", 0, 3]], commit=True, pause=[["t", 0], ["t", 1]], resume=[["t", 1]])
    write(task, batch(5))
    assert task.requests() == SinkRequests({P0: 3}, True, {P0: math.inf, P1: 0.0})
    assert task.requests() == SinkRequests()
    host.events[7]({"event": "sink", "connector": 7, "asked": {"offsets": [["t", 0, 4]]}})
    assert task.requests().offsets == {P0: 4}


def test_offsets_asked_for_in_open_are_where_the_partitions_begin(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.open"] = asked(offsets=[["t", 0, 3], ["t", 1, 4]])
    assert task.open([P0]) == {P0: 3}
    assert task.requests().offsets == {P1: 4}


def test_reported_records_fail_alone(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.put"] = asked(
        failed=[
            ["t", 0, 6, "X: bad", None, None],
            ["t", 0, 6, "X: bad", None, None],
            ["t", 1, 3, "X: worse", None, None],
        ]
    )
    with pytest.raises(RecordsFailed) as failed:
        write(task, batch(5, 6), batch(3, partition=1))
    assert [(one.row, one.message) for one in failed.value.failures] == [(1, "X: bad"), (2, "X: worse")]


def test_a_report_after_its_batch_fails_the_task(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers["sink.put"] = asked(failed=[["t", 0, 4, "X: bad", None, None]])
    with pytest.raises(JavaError, match="the record 4 of t-0 too late"):
        write(task, batch(5))
    host.answers["sink.commit"] = {"released": [], **asked(failed=[["t", 0, 4, "X: bad", None, None]])}
    with pytest.raises(JavaError):
        task.pre_commit({P0: 5})


def test_what_fails_without_a_batch_is_raised(task: JavaSinkTask, host: FakeHost) -> None:
    told = {"class": "X", "message": "late", "trace": "X: late", "kind": "other"}
    host.events[7]({"event": "sink", "connector": 7, "error": told})
    with pytest.raises(JavaError, match="X: late"):
        task.requests()
    host.is_lost = True
    with pytest.raises(HostLost):
        task.requests()
    task.close([P0])
    task.stop()
    assert host.named("sink.close") == host.named("sink.stop") == []


def test_a_task_that_does_not_return_is_asked_nothing_more(task: JavaSinkTask, host: FakeHost) -> None:
    host.answers |= {"sink.put": HostTimeout("in put"), "sink.stop": False}
    with pytest.raises(HostTimeout):
        write(task, batch(5))
    with pytest.raises(HostTimeout, match="in put"):
        task.pre_commit({P0: 5})
    task.close([P0])
    assert host.named("sink.commit") == host.named("sink.close") == []
    task.stop()
    assert host.is_retired
    assert not host.events


def test_a_record_that_fails_in_the_chain_says_where(task: JavaSinkTask, host: FakeHost) -> None:
    failed = [["t", 0, 4, "it is bad", "TRANSFORMATION", "org.x.T"]]
    host.answers["sink.put"] = asked(failed=failed)
    with pytest.raises(RecordsFailed) as caught:
        write(task, batch(3, 4))
    (failure,) = caught.value.failures
    assert (failure.row, failure.message) == (1, "it is bad")
    assert (failure.stage, failure.class_name) == ("TRANSFORMATION", "org.x.T")
