"""Java sink connectors from their jars, unchanged, in a worker as users run it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.java_plugins import FILE_SINK, JSON, TEXT, TROUBLE_SINK, hosts
from tests.integration.worker_process import Topic, WorkerProcess, eventually, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def worker(worker_with_java: WorkerProcess) -> WorkerProcess:
    """A worker with Java plugins on its plugin.path."""
    return worker_with_java


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that reads it."""
    made = Topic(broker, "java")
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def trouble(worker: WorkerProcess, topic: Topic, mode: str, **config: str) -> Path:
    """The troublesome sink exists; the file of what it notes."""
    notes = worker.folder / f"{topic.name}.notes"
    named = {"connector_class": TROUBLE_SINK, "topics": topic.name, "notes": str(notes), "mode": mode}
    worker.create(topic.name, **{**TEXT, **named, **config})
    return notes


def notes_of(path: Path) -> list[str]:
    """But for calls of `put` without records, which come at any time."""
    return [line.decode() for line in lines_of(path) if line != b"nothing"]


def puts(path: Path) -> list[str]:
    return [line.removeprefix("put ") for line in notes_of(path) if line.startswith("put ")]


def rows(begin: int, end: int) -> list[bytes]:
    return [f"row {number}".encode() for number in range(begin, end)]


def texts(begin: int, end: int) -> list[str]:
    return [row.decode() for row in rows(begin, end)]


def wait_puts(path: Path, wanted: list[str], worker: WorkerProcess) -> None:
    eventually(lambda: puts(path) == wanted, 60, lambda: (puts(path), worker.log()[-3000:]))


def wait_committed(worker: WorkerProcess, topic: Topic, offset: int) -> None:
    def committed() -> Any:
        return [one["offset"]["kafka_offset"] for one in worker.offsets(topic.name)]

    eventually(lambda: committed() == [offset], 60, committed)


def test_apaches_file_sink_writes_a_topic_and_goes_on_at_its_offset(worker: WorkerProcess, topic: Topic) -> None:
    file = worker.folder / f"{topic.name}.txt"
    topic.send(rows(0, 30_000))
    worker.create(topic.name, connector_class=FILE_SINK, file=str(file), topics=topic.name, **TEXT)
    eventually(lambda: lines_of(file) == rows(0, 30_000), 120, worker.log)
    wait_committed(worker, topic, 30_000)
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name)
    topic.send(rows(30_000, 30_010))
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    eventually(lambda: lines_of(file) == rows(0, 30_010), 60, worker.log)
    shown = {one["name"]: one for one in worker.get(f"/connector-plugins/{FILE_SINK}/config")}
    assert shown["file"]["documentation"].startswith("Destination filename")


SCHEMA: dict[str, Any] = {
    "type": "struct",
    "optional": False,
    "name": "all",
    "version": 3,
    "doc": "all types",
    "fields": [
        {"field": "i8", "type": "int8", "optional": False},
        {"field": "i16", "type": "int16", "optional": False},
        {"field": "i32", "type": "int32", "optional": False, "default": 5},
        {"field": "i64", "type": "int64", "optional": True},
        {"field": "f32", "type": "float", "optional": False},
        {"field": "f64", "type": "double", "optional": True, "default": 0.5},
        {"field": "yes", "type": "boolean", "optional": False},
        {"field": "text", "type": "string", "optional": True, "default": "given"},
        {"field": "bytes", "type": "bytes", "optional": False},
        {"field": "list", "type": "array", "optional": False, "items": {"type": "string", "optional": True}},
        {
            "field": "map",
            "type": "map",
            "optional": True,
            "keys": {"type": "string", "optional": False},
            "values": {"type": "int32", "optional": True},
        },
        {
            "field": "numbered",
            "type": "map",
            "optional": False,
            "keys": {"type": "int32", "optional": False},
            "values": {"type": "string", "optional": False},
        },
        {
            "field": "inner",
            "type": "struct",
            "optional": True,
            "name": "inner",
            "fields": [{"field": "x", "type": "int32", "optional": True}],
        },
        {
            "field": "decimal",
            "type": "bytes",
            "optional": False,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "20"},
        },
        {
            "field": "day",
            "type": "int32",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Date",
            "version": 1,
        },
        {
            "field": "time",
            "type": "int32",
            "optional": False,
            "name": "org.apache.kafka.connect.data.Time",
            "version": 1,
        },
        {
            "field": "at",
            "type": "int64",
            "optional": False,
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
        },
        {"field": "micros", "type": "int64", "optional": True, "name": "io.debezium.time.MicroTimestamp", "version": 1},
    ],
}
PAYLOAD: dict[str, Any] = {
    "i8": -8,
    "i16": -16,
    "i32": -32,
    "i64": -(2**63),
    "f32": 1.5,
    "f64": -2.25,
    "yes": True,
    "text": "hé 😀",
    "bytes": base64.b64encode(b"\x00\xff\x02").decode(),
    "list": ["a", None],
    "map": {"k": 1, "none": None},
    "numbered": [[1, "one"], [2, "two"]],
    "inner": {"x": 1},
    "decimal": base64.b64encode((-1234567890123456).to_bytes(7, "big", signed=True)).decode(),
    "day": -1,
    "time": 3_600_001,
    "at": -1,
    "micros": 7,
}
NULLS = dict.fromkeys(("i64", "map", "inner", "day", "micros"))
CLASSES = (
    "Struct Byte Short Integer Long Float Double Boolean String byte[] ArrayList LinkedHashMap LinkedHashMap "
    "Struct Integer BigDecimal Date Date Date Long"
)
NULL_CLASSES = (
    "Struct Byte Short Integer null Float Double Boolean String byte[] ArrayList null LinkedHashMap "
    "null BigDecimal null Date Date null"
)


def test_all_types_reach_the_plugin_as_apaches_converter_makes_them(worker: WorkerProcess, topic: Topic) -> None:
    key = {"schema": {"type": "int32", "optional": False}, "payload": 7}
    whole, sparse = {"schema": SCHEMA, "payload": PAYLOAD}, {"schema": SCHEMA, "payload": {**PAYLOAD, **NULLS}}
    text = {"schema": {"type": "string", "optional": True}, "payload": None}
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    values = [whole, None, sparse, text, whole]
    for value in values:
        data = None if value is None else json.dumps(value).encode()
        producer.produce(
            topic.name, data, json.dumps(key).encode(), timestamp=5, headers=[("n", b"5"), ("s", b"t"), ("z", None)]
        )
    assert producer.flush(60) == 0
    notes = trouble(worker, topic, "types", value_converter=JSON, key_converter=JSON)
    eventually(lambda: len(notes_of(notes)) >= 22, 240, worker.log)  # all types: a plan of 25 s of processor time
    told = notes_of(notes)[2:22]
    for index, value in enumerate(values):
        record, its_key, its_value, _ = told[4 * index : 4 * index + 4]
        headers = "n=5 INT8 s=t STRING z=null null "
        assert record == f"record {topic.name} 0 {index} 5 CreateTime {topic.name} {headers}"
        assert json.loads(its_key) == key
        # Null is written as the default, as Apache's converter reads it.
        assert json.loads(its_value) == value
    assert [told[3], told[7], told[11], told[15]] == [CLASSES, "null", NULL_CLASSES, "null"]


def test_values_without_schema_are_maps_and_lists(worker: WorkerProcess, topic: Topic) -> None:
    topic.send([b'{"b":[1,2.5,"x",null],"a":{"n":true}}', b"17", b'"text"'])
    loose = {"value_converter": JSON, "value_converter_schemas_enable": "false"}
    notes = trouble(worker, topic, "types", **loose)
    eventually(lambda: len(notes_of(notes)) >= 14, 60, worker.log)
    told = notes_of(notes)[2:14]
    assert [json.loads(line)["payload"] for line in told[2::4]] == [
        {"b": [1, 2.5, "x", None], "a": {"n": True}},
        17,
        "text",
    ]
    assert [json.loads(line)["schema"] for line in told[2::4]] == [None, None, None]
    assert told[3::4] == ["HashMap", "Long", "String"]


def test_what_is_retriable_comes_again_as_it_was(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "retry")
    wait_puts(notes, texts(0, 10), worker)
    failed = [line for line in notes_of(notes) if line.startswith("failed")]
    assert failed == [f"failed [{', '.join(texts(0, 10))}]"] * 2
    wait_committed(worker, topic, 10)
    worker.wait_states(topic.name, "RUNNING")


def test_no_offset_is_committed_that_pre_commit_holds_back(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "hold")
    wait_puts(notes, texts(0, 10), worker)
    wait_committed(worker, topic, 7)
    worker.request("POST", f"/connectors/{topic.name}/restart?includeTasks=true")
    wait_puts(notes, texts(0, 10) + texts(7, 10), worker)
    topic.send(rows(10, 12))
    wait_committed(worker, topic, 9)


def test_records_after_a_failed_flush_are_put_again(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "flush.fails")
    wait_puts(notes, texts(0, 10) * 2, worker)
    wait_committed(worker, topic, 10)
    worker.wait_states(topic.name, "RUNNING")


def test_the_task_goes_where_the_plugin_sends_it(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "back")
    wait_puts(notes, texts(0, 10) + texts(2, 10), worker)
    wait_committed(worker, topic, 10)


def test_a_partition_that_the_plugin_pauses_gives_records_once_it_resumes(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 5))
    notes = trouble(worker, topic, "pause")
    wait_puts(notes, texts(0, 5), worker)
    topic.send(rows(5, 10))
    wait_puts(notes, texts(0, 10), worker)
    told = [line for line in notes_of(notes) if line.startswith(("put", "resumes"))]
    assert told.index("resumes") == 5


def test_tasks_share_the_partitions_and_put_each_record_once(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    shared = Topic(broker, "java-shared", partitions=3)
    for partition in range(3):
        shared.send(rows(100 * partition, 100 * partition + 50), partition)
    notes = trouble(worker, topic, "note", topics=shared.name, tasks_max="2")
    eventually(lambda: len(puts(notes)) >= 150, 60, worker.log)
    worker.wait_states(topic.name, "RUNNING", "RUNNING")
    for partition in range(3):
        shared.send(rows(100 * partition + 50, 100 * partition + 60), partition)
    eventually(lambda: len(puts(notes)) >= 180, 60, worker.log)
    wanted = sorted(one for partition in range(3) for one in texts(100 * partition, 100 * partition + 60))
    assert sorted(puts(notes)) == wanted


def test_a_plugin_begins_where_it_says_as_it_opens(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    wait_puts(trouble(worker, topic, "skip"), texts(5, 10), worker)


def test_the_contract_is_called_in_its_order(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 2))
    notes = trouble(worker, topic, "note")
    wait_committed(worker, topic, 2)
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    eventually(lambda: notes_of(notes)[-1] == "stop", 60, lambda: notes_of(notes))
    assert f" INFO [{topic.name}|task-0] the sink starts (org.example.TroubleSink:" in worker.log()
    place = f"[{topic.name}-0]"
    assert notes_of(notes) == [
        "start",
        f"open {place} of 1",
        "put row 0",
        "put row 1",
        "flush 0 2",
        f"close {place}",
        "stop",
    ]


def test_an_operator_may_set_offsets_that_the_plugin_does_not_refuse(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 20))
    notes = trouble(worker, topic, "note")
    wait_committed(worker, topic, 20)
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name)
    place = {"kafka_topic": topic.name, "kafka_partition": 0}
    body = {"offsets": [{"partition": place, "offset": {"kafka_offset": 13}}]}
    refused = worker.http.patch(f"/connectors/{topic.name}/offsets", json=body)
    assert refused.status_code >= 400
    assert "13 is no good offset" in refused.text
    body["offsets"][0]["offset"] = {"kafka_offset": 15}
    worker.request("PATCH", f"/connectors/{topic.name}/offsets", body)
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    wait_puts(notes, texts(0, 20) + texts(15, 20), worker)


def test_reported_records_are_dead_letters(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "java-dlq")
    topic.send([b"a", b"bad 1", b"b", b"bad 2"])
    tolerant = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": letters.name}
    notes = trouble(worker, topic, "report", errors_deadletterqueue_topic_replication_factor="1", **tolerant)
    wait_puts(notes, ["a", "b"], worker)
    eventually(lambda: letters.end() == 2, 60, worker.log)
    assert letters.values() == [b"bad 1", b"bad 2"]
    wait_committed(worker, topic, 4)


def test_a_sink_that_throws_fails_with_javas_trace(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 1))
    trouble(worker, topic, "throw")
    worker.wait_states(topic.name, "FAILED", within_s=60)
    trace = worker.trace(topic.name)
    assert "org.apache.kafka.connect.errors.ConnectException: it throws" in trace
    assert "Caused by: java.lang.IllegalStateException: the cause" in trace


def test_a_sink_that_throws_without_records_fails(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 1))
    trouble(worker, topic, "late")
    worker.wait_states(topic.name, "FAILED", within_s=60)
    assert "it throws without records" in worker.trace(topic.name)


@pytest.mark.long
def test_an_exit_costs_no_record(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "exit")
    wait_puts(notes, texts(0, 10), worker)
    worker.wait_states(topic.name, "RUNNING")
    wait_committed(worker, topic, 10)


def test_a_host_that_is_killed_costs_no_record(worker: WorkerProcess, topic: Topic) -> None:
    topic.send(rows(0, 10))
    notes = trouble(worker, topic, "hold")
    wait_puts(notes, texts(0, 10), worker)
    wait_committed(worker, topic, 7)
    for host in hosts(worker):
        host.kill()
    wait_puts(notes, texts(0, 10) + texts(7, 10), worker)
    worker.wait_states(topic.name, "RUNNING")


@pytest.mark.long
def test_a_put_that_never_returns_keeps_nobody_waiting(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    topic.send(rows(0, 1))
    trouble(worker, topic, "block")
    worker.wait_states(topic.name, "RUNNING")
    other = Topic(broker, "java-other")
    try:
        other.send(rows(0, 10))
        wait_puts(trouble(worker, other, "note"), texts(0, 10), worker)
    finally:
        worker.request("DELETE", f"/connectors/{other.name}")
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name, within_s=60)
    worker.request("DELETE", f"/connectors/{topic.name}")
    wait_puts(trouble(worker, topic, "note"), texts(0, 1), worker)


@pytest.mark.long
def test_a_sink_that_is_paused_resumed_and_stopped_at_once_is_stopped(worker: WorkerProcess, topic: Topic) -> None:
    """Its tasks are gone each time, so that its offsets can be changed."""
    topic.send(rows(0, 5))
    trouble(worker, topic, "note")
    wait_committed(worker, topic, 5)
    place = {"kafka_topic": topic.name, "kafka_partition": 0}
    for number in range(12):
        for change in ("pause", "resume", "stop"):
            worker.request("PUT", f"/connectors/{topic.name}/{change}")
        worker.wait_states(topic.name)
        assert worker.get(f"/connectors/{topic.name}/status")["connector"]["state"] == "STOPPED"
        offsets = [{"partition": place, "offset": {"kafka_offset": number % 6}}]
        worker.request("PATCH", f"/connectors/{topic.name}/offsets", {"offsets": offsets})
        worker.request("PUT", f"/connectors/{topic.name}/resume")
        worker.wait_states(topic.name, "RUNNING")
