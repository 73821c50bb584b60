"""Java transforms, predicates and converters from their jars beside connectors of ours, in a worker as users run it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from headrace.worker.embedded.kafka_broker import Broker
from tests.files_below import files_below
from tests.integration.databases import sqlite_database
from tests.integration.java_plugins import (
    FILE_SINK,
    FILE_SOURCE,
    FROM_JAR,
    JSON,
    TROUBLE_CONVERTER,
    TROUBLE_TRANSFORM,
    hosts,
    java_worker,
    messages,
)
from tests.integration.test_java_transforms import APACHES, KEPT, chain, create, errors, wait_offset
from tests.integration.worker_process import Topic, WorkerProcess, eventually, first_arrivals, line_count, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

JDBC_SINK = "io.confluent.connect.jdbc.JdbcSinkConnector"
JDBC_SOURCE = "io.confluent.connect.jdbc.JdbcSourceConnector"
SQL = "headrace.transforms.Sql"
TROUBLE = ("a", TROUBLE_TRANSFORM, {})
LINES = 60_000
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
    "errors.log.enable": "true",
}


@pytest.fixture(scope="module")
def worker(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker with Java plugins, whose file connectors are ours."""
    with java_worker(tmp_path_factory.mktemp("java"), broker_process.bootstrap_servers, [FROM_JAR]) as worker:
        yield worker


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes or reads it."""
    made = Topic(broker, "parts", config=KEPT)
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def source(worker: WorkerProcess, topic: Topic, lines: list[str], config: dict[str, str]) -> Path:
    """Our file source exists, and reads these lines."""
    file = worker.folder / f"{topic.name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    create(worker, topic.name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic.name, **config})
    return file


def sink(worker: WorkerProcess, topic: Topic, config: dict[str, str]) -> Path:
    """Our file sink exists; its file."""
    file = worker.folder / f"{topic.name}.out"
    create(worker, topic.name, {"connector.class": FILE_SINK, "topics": topic.name, "file": str(file), **config})
    return file


def send(topic: Topic, values: Sequence[bytes | None], *headers: tuple[str, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for value in values:
        producer.produce(topic.name, value, b"k", headers=list(headers))
    assert producer.flush(60) == 0


def wait_stored(worker: WorkerProcess, topic: Topic, file: Path) -> None:
    """The stored offset of the file is its end."""

    def stored() -> list[int]:
        return [one["offset"]["position"] for one in worker.offsets(topic.name)]

    eventually(lambda: stored() == [file.stat().st_size], 60, stored)


def previewed(worker: WorkerProcess, topic: Topic) -> list[tuple[Any, Any] | None]:
    """The value and key of each record after its last transform; None for one that is filtered out."""
    answer = worker.request("POST", f"/connectors/{topic.name}/preview?from=earliest", {}).json()
    ends: list[tuple[Any, Any] | None] = []
    for record in answer["records"]:
        assert record["error"] is None, record
        stages = [one for one in record["stages"] if one["stage"] in ("java", "transform")]
        ends.append(None if record["filtered"] else (stages[-1]["value"], stages[-1]["key"]))
    return ends


def test_what_stands_between_java_transforms_needs_a_java_class(worker: WorkerProcess) -> None:
    ours = {"connector.class": FILE_SOURCE, "topic": "t", "file": "f"}
    sql, other = ("sql", SQL, {"sql": "SELECT *"}), ("b", TROUBLE_TRANSFORM, {})
    refused = errors(worker, {**ours, **chain(TROUBLE, sql, other)})
    assert "Move sql before a or after b in transforms." in refused["transforms.sql.type"][0]
    assert not errors(worker, {**ours, **chain(sql, TROUBLE, other)})
    links = ("a", TROUBLE_TRANSFORM, {"count": "10"})
    assert errors(worker, {**ours, **chain(links)}) == {
        "transforms.a.count": ["Invalid value 10 for configuration count: Value must be no more than 9"]
    }


def test_a_sources_records_cross_into_java_and_back(worker: WorkerProcess, topic: Topic) -> None:
    links = (
        ("first", f"{APACHES}.InsertHeader", {"header": "first", "value.literal": "4"}),
        ("trouble", TROUBLE_TRANSFORM, {"predicate": "p", "negate": "true", "suffix": "-more"}),
        ("hoist", f"{APACHES}.HoistField$Value", {"field": "line"}),
        ("rename", FROM_JAR, {"renames": "line:text"}),
        ("add", f"{APACHES}.InsertField$Value", {"static.field": "s", "static.value": "v"}),
    )
    lines = ["line 1", "other", "line to drop", "slow line"]
    config = {**chain(*links, p="other"), "value.converter": JSON, "errors.retry.timeout": "10000"}
    file = source(worker, topic, lines, config)
    got = messages(topic, 3)
    assert [json.loads(one.value() or b"")["payload"] for one in got] == [
        {"text": "line 1-more", "s": "v"},
        {"text": "other", "s": "v"},
        {"text": "slow line-more", "s": "v"},
    ]
    assert [one.key() for one in got] == [b"key of line 1", None, b"key of slow line"]
    assert [one.headers() for one in got] == [
        [("first", b"4"), *by] for by in ([("by", b"trouble")], [], [("by", b"trouble")])
    ]
    assert got[0].timestamp()[1] == 1234
    assert previewed(worker, topic) == [
        ({"text": "line 1-more", "s": "v"}, "key of line 1"),
        ({"text": "other", "s": "v"}, None),
        None,
        ({"text": "slow line-more", "s": "v"}, "key of slow line"),
    ]
    told = "the transforms in the Java host are: trouble, hoist, rename, those on Spark: first, add;"
    assert f"{topic.name}-0: {told} the converters in the Java host: header" in worker.log()
    wait_stored(worker, topic, file)
    with file.open("a") as more:
        more.write("the last is to drop, by a line\n")
    wait_stored(worker, topic, file)


def test_a_sinks_records_cross_into_java_and_back(worker: WorkerProcess, topic: Topic) -> None:
    send(topic, (b"line 1", b"other", None, b"line to drop", b"slow line"))
    links = (
        ("filter", f"{APACHES}.Filter", {"predicate": "empty"}),
        ("trouble", TROUBLE_TRANSFORM, {"predicate": "p"}),
        ("again", TROUBLE_TRANSFORM, {"suffix": "?"}),
        ("hoist", f"{APACHES}.HoistField$Value", {"field": "line"}),
        ("out", f"{APACHES}.ExtractField$Value", {"field": "line"}),
    )
    config = {**chain(*links, p="line"), "errors.retry.timeout": "-1", "predicates": "p,empty"}
    file = sink(worker, topic, {**config, "predicates.empty.type": f"{APACHES}.predicates.RecordIsTombstone"})
    eventually(lambda: lines_of(file) == [b"line 1!?", b"other?", b"slow line!?"], 90, worker.log)
    assert [one and one[0] for one in previewed(worker, topic)] == ["line 1!?", "other?", None, None, "slow line!?"]
    told = "the transforms in the Java host are: trouble, again, those on Spark: filter, hoist, out;"
    assert f"{topic.name}-0: {told}" in worker.log()
    wait_offset(worker, topic, 5)
    topic.send([b"the last is to drop"])
    wait_offset(worker, topic, 6)


@pytest.mark.long
def test_a_header_that_no_transform_replaces_keeps_its_bytes(worker: WorkerProcess, topic: Topic) -> None:
    links = (
        ("hoist", f"{APACHES}.HoistField$Value", {"field": "line"}),
        ("head", f"{APACHES}.HeaderFrom$Value", {"fields": "line", "headers": "number", "operation": "copy"}),
        ("out", f"{APACHES}.ExtractField$Value", {"field": "line"}),
        TROUBLE,
    )
    source(worker, topic, ["007"], chain(*links))
    (got,) = messages(topic, 1)
    assert (got.value(), got.headers()) == (b"007!", [("number", b"007"), ("by", b"trouble")])
    told = "the transforms in the Java host are: a, those on Spark: hoist, head, out;"
    assert f"{topic.name}-0: {told}" in worker.log()


def test_structs_cross_between_databases_and_topics(worker: WorkerProcess, topic: Topic, tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    database.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price REAL)",
        "INSERT INTO t VALUES (1, 'a', 1.5), (2, NULL, 2.5)",
    )
    common = {**database.settings, "value.converter": JSON}
    reads = {"mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "t"}
    renamed = chain(("rename", FROM_JAR, {"renames": "name:title"}))
    create(
        worker,
        topic.name,
        {"connector.class": JDBC_SOURCE, **common, **reads, "topic.prefix": topic.name, **renamed},
    )
    written = f"{topic.name}-sink"
    got = messages(topic, 2, f"{topic.name}t")
    assert [json.loads(one.value() or b"")["payload"] for one in got] == [
        {"id": 1, "title": "a", "price": 1.5},
        {"id": 2, "title": None, "price": 2.5},
    ]
    writes = {"topics": f"{topic.name}t", "table.name.format": "copy", "auto.create": "true", "pk.mode": "none"}
    renamed = chain(("rename", FROM_JAR, {"renames": "title:label"}))
    create(worker, written, {"connector.class": JDBC_SINK, **common, **writes, **renamed})

    def copied() -> bool:
        return bool(database.rows("SELECT name FROM sqlite_master WHERE name = 'copy'")) and (
            database.rows("SELECT id, label, price FROM copy ORDER BY id") == [(1, "a", 1.5), (2, None, 2.5)]
        )

    try:
        eventually(copied, 60, worker.log)
    finally:
        worker.request("DELETE", f"/connectors/{written}")


@pytest.mark.long
def test_a_sink_that_holds_its_records_gets_them_from_java(worker: WorkerProcess, topic: Topic) -> None:
    folder = worker.folder / topic.name
    schema = {"type": "struct", "fields": [{"field": name, "type": "string"} for name in ("id", "name")]}
    rows = [{"id": str(number), "name": f"n{number}"} for number in range(5)]
    topic.send([json.dumps({"schema": schema, "payload": row}).encode() for row in rows])
    writes = {"store.url": f"file://{folder}", "format.class": "parquet", "flush.size": "2", "topics": topic.name}
    renamed = chain(("rename", FROM_JAR, {"renames": "name:title"}))
    create(worker, topic.name, {"connector.class": "HdfsSink", **writes, "value.converter": JSON, **renamed})

    def files() -> list[Path]:
        return [one for one in files_below(folder) if one.suffix == ".parquet" and "+tmp" not in one.parts]

    eventually(lambda: len(files()) == 2, 90, worker.log)
    written = [row for file in files() for row in pq.ParquetFile(file).read().to_pylist()]
    assert written == [{"id": row["id"], "title": row["name"]} for row in rows[:4]]
    wait_offset(worker, topic, 4)


@pytest.mark.long
def test_a_record_that_a_transform_refuses_stops_a_source(worker: WorkerProcess, topic: Topic) -> None:
    source(worker, topic, ["one", "a bad one", "two"], chain(TROUBLE))
    worker.wait_states(topic.name, "FAILED", within_s=60)
    assert "java.lang.IllegalStateException: it refuses a bad one" in worker.trace(topic.name)
    assert f"TRANSFORMATION ({TROUBLE_TRANSFORM})" in worker.trace(topic.name)
    assert topic.values() == [b"one!"]


@pytest.mark.long
def test_a_record_that_a_transform_refuses_stops_its_partition_of_a_sink(worker: WorkerProcess, topic: Topic) -> None:
    topic.send([b"one", b"two", b"a bad one", b"three"])
    file = sink(worker, topic, chain(TROUBLE))
    worker.wait_states(topic.name, "FAILED", within_s=60)
    trace = worker.trace(topic.name)
    assert f"TRANSFORMATION ({TROUBLE_TRANSFORM}), record of {topic.name}-0 at offset 2" in trace
    assert lines_of(file) == [b"one!", b"two!"]
    wait_offset(worker, topic, 2)


@pytest.mark.long
def test_tolerated_records_of_a_source_are_dead_letters(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "parts-dlq")
    tolerant = {**LETTERS, "errors.deadletterqueue.topic.name": letters.name}
    lines = ["one", "a bad one", "a slow one", "too short", "two"]
    wrong = ("cast", f"{APACHES}.Cast$Value", {"spec": "int32", "predicate": "p"})
    source(worker, topic, lines, {**chain(TROUBLE, wrong, p="short"), **tolerant})
    eventually(lambda: topic.values() == [b"one!", b"two!"], 60, worker.log)
    got = messages(letters, 3)
    assert [json.loads(one.value() or b"")["payload"] for one in got] == lines[1:4]
    headers = [dict(one.headers() or []) for one in got]
    assert [one["__connect.errors.stage"] for one in headers] == 3 * [b"TRANSFORMATION"]
    classes = [TROUBLE_TRANSFORM, TROUBLE_TRANSFORM, f"{APACHES}.Cast$Value"]
    assert [one["__connect.errors.class.name"].decode() for one in headers] == classes
    why = b"org.apache.kafka.connect.errors.RetriableException: not now"
    assert headers[1]["__connect.errors.exception.message"] == why


def test_tolerated_records_of_a_sink_are_dead_letters(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "parts-dlq")
    send(topic, (b"one", b"a bad one"))
    send(topic, (b"no number",), ("number", b"1"))
    send(topic, (b"two",))
    links = (
        ("before", f"{APACHES}.Cast$Value", {"spec": "int32", "predicate": "number"}),
        TROUBLE,
        (
            "after",
            f"{APACHES}.HeaderFrom$Value",
            {"fields": "f", "headers": "h", "operation": "copy", "predicate": "number"},
        ),
    )
    tolerant = {**LETTERS, **chain(*links), "errors.deadletterqueue.topic.name": letters.name}
    number = {"type": f"{APACHES}.predicates.HasHeaderKey", "name": "number"}
    tolerant |= {"predicates": "number", **{f"predicates.number.{key}": value for key, value in number.items()}}
    file = sink(worker, topic, tolerant)
    got = {letter.value(): dict(letter.headers() or []) for letter in messages(letters, 2)}
    assert {value: headers["__connect.errors.stage"] for value, headers in got.items()} == {
        b"a bad one": b"TRANSFORMATION",
        b"no number": b"TRANSFORMATION",
    }
    assert got[b"a bad one"]["__connect.errors.class.name"] == TROUBLE_TRANSFORM.encode()
    assert got[b"no number"]["__connect.errors.class.name"] == f"{APACHES}.Cast$Value".encode()
    eventually(lambda: lines_of(file) == [b"one!", b"two!"], 60, worker.log)
    wait_offset(worker, topic, 4)


def test_a_java_converter_writes_the_bytes_of_a_source(worker: WorkerProcess, topic: Topic) -> None:
    config = {
        **chain(("head", f"{APACHES}.InsertHeader", {"header": "n", "value.literal": "5"}), TROUBLE),
        "value.converter": TROUBLE_CONVERTER,
        "value.converter.open": "(",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
    }
    source(worker, topic, ["one", "unconvertible", "two"], config)
    got = messages(topic, 2)
    assert [(one.key(), one.value()) for one in got] == [(b"key of one", b"(one!>"), (b"key of two", b"(two!>")]
    assert got[0].headers() == [("n", b"5"), ("by", b"trouble"), ("written", b"y")]
    told = "Executing stage 'VALUE_CONVERTER' with class 'org.example.TroubleConverter'"
    eventually(lambda: told in worker.log(), 60, worker.log)


def test_a_java_converter_reads_the_bytes_of_a_sink(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "parts-dlq")
    send(topic, (b"one", b"unconvertible", b"two"), ("n", b"5"), ("z", None))
    config = {
        **chain(
            ("hoist", f"{APACHES}.HoistField$Value", {"field": "f"}),
            ("out", f"{APACHES}.ExtractField$Value", {"field": "f"}),
        ),
        **LETTERS,
        "value.converter": TROUBLE_CONVERTER,
        "value.converter.open": "(",
        "errors.deadletterqueue.topic.name": letters.name,
    }
    file = sink(worker, topic, config)
    eventually(lambda: lines_of(file) == [b"(one>", b"(two>"], 90, worker.log)
    (letter,) = messages(letters, 1)
    assert letter.value() == b"unconvertible"
    assert dict(letter.headers() or [])["__connect.errors.stage"] == b"VALUE_CONVERTER"


@pytest.mark.long
def test_a_java_header_converter_draws_the_whole_chain_along(worker: WorkerProcess, topic: Topic) -> None:
    links = (("head", f"{APACHES}.InsertHeader", {"header": "n", "value.literal": "5"}),)
    source(worker, topic, ["one"], {**chain(*links), "header.converter": TROUBLE_CONVERTER})
    (got,) = messages(topic, 1)
    assert (got.value(), got.headers()) == (b"one", [("n", b"<5>")])
    told = "the transforms in the Java host are: head, those on Spark: none; the converters in the Java host: header"
    assert f"{topic.name}-0: {told}" in worker.log()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_host_that_is_killed_costs_no_record(worker: WorkerProcess, topic: Topic, kind: str) -> None:
    lines = [f"line {number}" for number in range(3 * LINES)]
    file = source(worker, topic, [], chain(TROUBLE)) if kind == "source" else sink(worker, topic, chain(TROUBLE))

    def moved() -> int:
        return topic.end() if kind == "source" else line_count(file)

    for begin in range(0, len(lines), LINES):
        portion = lines[begin : begin + LINES]
        before = moved()
        if kind == "source":
            with file.open("a") as more:
                more.write("".join(f"{line}\n" for line in portion))
        else:
            topic.send([line.encode() for line in portion])
        eventually(lambda before=before: moved() > before, 90, worker.log)  # type: ignore[misc]
        for host in hosts(worker):
            host.kill()
    expected = [f"{line}!".encode() for line in lines]

    def all_moved() -> bool:
        return moved() >= len(lines) and (topic.values() if kind == "source" else lines_of(file))[-1] == expected[-1]

    eventually(all_moved, 120, worker.log)
    assert first_arrivals(topic.values() if kind == "source" else lines_of(file)) == expected
    worker.wait_states(topic.name, "RUNNING")
    assert worker.log().count("The Java host (process") >= 3


@pytest.mark.long
def test_a_stop_ends_the_chain_in_the_host(worker: WorkerProcess, topic: Topic) -> None:
    topic.send([b"one"])
    file = sink(worker, topic, chain(TROUBLE))
    eventually(lambda: lines_of(file) == [b"one!"], 60, worker.log)
    closed = worker.log().count("a trouble transform was closed")
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name, within_s=60)
    eventually(lambda: worker.log().count("a trouble transform was closed") == closed + 1, 60, worker.log)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_stop_ends_a_wait_for_another_try(worker: WorkerProcess, topic: Topic, kind: str) -> None:
    config, tried = {**chain(TROUBLE), "errors.retry.timeout": "-1"}, worker.log().count("tries in vain")
    if kind == "source":
        source(worker, topic, ["never"], config)
    else:
        topic.send([b"never"])
        sink(worker, topic, config)
    eventually(lambda: worker.log().count("tries in vain") > tried + 1, 60, worker.log)
    before = hosts(worker)
    closed = worker.log().count("a trouble transform was closed")
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name, within_s=60)
    eventually(lambda: worker.log().count("a trouble transform was closed") == closed + 1, 60, worker.log)
    assert hosts(worker) == before
    assert f"{topic.name}-0 did not end in time" not in worker.log()
