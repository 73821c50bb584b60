"""Java transforms, predicates and converters from their jars beside Java connectors, in a worker as users run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.java_plugins import (
    FILE_SINK,
    FILE_SOURCE,
    FROM_JAR,
    JSON,
    TEXT,
    TROUBLE_CONVERTER,
    TROUBLE_PREDICATE,
    TROUBLE_SINK,
    TROUBLE_TRANSFORM,
    messages,
)
from tests.integration.java_plugins import (
    TROUBLE as TROUBLE_SOURCE,
)
from tests.integration.worker_process import Topic, WorkerProcess, eventually, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

APACHES = "org.apache.kafka.connect.transforms"
STRINGS = TEXT["value_converter"]
KEPT = {"retention.ms": "-1"}
"""Of topics whose records have timestamps of 1970."""


@pytest.fixture
def worker(worker_with_java: WorkerProcess) -> WorkerProcess:
    """A worker with Java plugins on its plugin.path."""
    return worker_with_java


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes or reads it."""
    made = Topic(broker, "java", config=KEPT)
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def chain(*links: tuple[str, str, dict[str, str]], **predicates: str) -> dict[str, str]:
    """The settings of transforms, each by its alias, class and settings, and of predicates by alias and text."""
    found = {"transforms": ",".join(alias for alias, _, _ in links), "predicates": ",".join(predicates)}
    for alias, class_name, settings in links:
        found |= {f"transforms.{alias}.{key}": value for key, value in {"type": class_name, **settings}.items()}
    for alias, text in predicates.items():
        found |= {f"predicates.{alias}.type": TROUBLE_PREDICATE, f"predicates.{alias}.text": text}
    return found


def create(worker: WorkerProcess, name: str, config: dict[str, str]) -> None:
    texts = {"key.converter": STRINGS, "value.converter": STRINGS}
    worker.request("POST", "/connectors", {"name": name, "config": {**texts, **config}})


def source(worker: WorkerProcess, topic: Topic, lines: list[str], config: dict[str, str]) -> Path:
    """Apache's file source exists, and reads these lines."""
    file = worker.folder / f"{topic.name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    create(worker, topic.name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic.name, **config})
    return file


def sink(worker: WorkerProcess, topic: Topic, config: dict[str, str], mode: str = "types") -> Path:
    """The troublesome sink exists; the file of what it notes."""
    notes = worker.folder / f"{topic.name}.notes"
    create(
        worker,
        topic.name,
        {"connector.class": TROUBLE_SINK, "topics": topic.name, "notes": str(notes), "mode": mode, **config},
    )
    return notes


def counts(worker: WorkerProcess, connector: str) -> dict[str, float]:
    """The numbers of records that a sink has read and sent."""
    return {
        sample.name.split("_")[-2]: sample.value
        for family in text_string_to_metric_families(worker.request("GET", "/metrics").text)
        for sample in family.samples
        if sample.name.endswith(("sink_record_read_total", "sink_record_send_total"))
        and sample.labels.get("connector") == connector
    }


def noted(path: Path, begin: str = "") -> list[str]:
    found = [line.decode() for line in lines_of(path)]
    return [line for line in found if line.startswith(begin) and line != "nothing"]


def wait_offset(worker: WorkerProcess, topic: Topic, offset: int) -> None:
    def committed() -> Any:
        return [one["offset"]["kafka_offset"] for one in worker.offsets(topic.name)]

    eventually(lambda: committed() == [offset], 60, committed)


def test_rest_lists_java_transforms_with_their_own_definition(worker: WorkerProcess) -> None:
    listed = {(one["class"], one["type"]) for one in worker.get("/connector-plugins?connectorsOnly=false")}
    assert {
        (TROUBLE_TRANSFORM, "transformation"),
        (TROUBLE_PREDICATE, "predicate"),
        (TROUBLE_CONVERTER, "converter"),
        (TROUBLE_CONVERTER, "header_converter"),
    } <= listed
    shown = {one["name"]: one for one in worker.get(f"/connector-plugins/{TROUBLE_TRANSFORM}/config")}
    assert (shown["suffix"]["default_value"], shown["suffix"]["group"]) == ("!", "Trouble")
    assert [one["name"] for one in worker.get("/connector-plugins/TroublePredicate/config")] == ["text"]
    assert [one["name"] for one in worker.get("/connector-plugins/TroubleConverter/config")] == ["open"]


def validated(worker: WorkerProcess, config: dict[str, str]) -> dict[str, Any]:
    """Return validation's answer to each setting: its definition and its value."""
    name = config["connector.class"].rpartition(".")[2]
    answer = worker.request("PUT", f"/connector-plugins/{name}/config/validate", {"name": "x", **config}).json()
    return {one["value"]["name"]: one for one in answer["configs"]}


def errors(worker: WorkerProcess, config: dict[str, str]) -> dict[str, list[str]]:
    return {name: one["value"]["errors"] for name, one in validated(worker, config).items() if one["value"]["errors"]}


def test_validation_asks_the_transforms_own_definition(worker: WorkerProcess) -> None:
    links = ("a", TROUBLE_TRANSFORM, {"suffix": "", "count": "10", "predicate": "p"})
    config = {"connector.class": FILE_SOURCE, "topic": "t", **chain(links, p="x")}
    found = validated(worker, config)
    definition = found["transforms.a.suffix"]["definition"]
    assert (definition["group"], definition["type"]) == ("Transforms: a: Trouble", "STRING")
    assert errors(worker, config) == {
        "transforms.a.suffix": ["Invalid value  for configuration suffix: String must be non-empty"],
        "transforms.a.count": ["Invalid value 10 for configuration count: Value must be no more than 9"],
    }
    del config["predicates.p.text"]
    assert errors(worker, config)["predicates.p.text"] == [
        'Missing required configuration "predicates.p.text" which has no default value.'
    ]


def test_what_cannot_run_is_refused_at_its_setting(worker: WorkerProcess) -> None:
    trouble = ("a", TROUBLE_TRANSFORM, {"predicate": "p"})
    sql = ("sql", "headrace.transforms.Sql", {"sql": "SELECT *"})
    java = {"connector.class": FILE_SOURCE, "topic": "t"}
    assert (
        "Move sql after a in transforms."
        in errors(worker, {**java, **chain(sql, trouble, p="x")})["transforms.sql.type"][0]
    )
    assert not errors(worker, {**java, **chain(trouble, sql, p="x")})
    java = {"connector.class": TROUBLE_SINK, "topics": "t", "mode": "note", "notes": "n"}
    assert (
        "Move sql before a in transforms."
        in errors(worker, {**java, **chain(trouble, sql, p="x")})["transforms.sql.type"][0]
    )
    assert not errors(worker, {**java, **chain(sql, trouble, p="x")})
    converted = errors(worker, {**java, **chain(sql), "key.converter": TROUBLE_CONVERTER})
    assert "key.converter is the Java plugin" in converted["transforms.sql.type"][0]


def test_a_source_runs_java_transforms_and_what_stands_before_them(worker: WorkerProcess, topic: Topic) -> None:
    router = {"regex": "(.*)", "replacement": "$1-routed"}
    links = (
        ("route", f"{APACHES}.RegexRouter", router),
        ("trouble", TROUBLE_TRANSFORM, {"predicate": "p", "suffix": "-more"}),
        ("hoist", f"{APACHES}.HoistField$Value", {"field": "line"}),
        ("head", f"{APACHES}.InsertHeader", {"header": "n", "value.literal": "5"}),
    )
    lines = ["line 1", "other", "line to drop", "slow line"]
    config = {**chain(*links, p="line"), "value.converter": JSON, "errors.retry.timeout": "10000"}
    file = source(worker, topic, lines, config)
    got = messages(topic, 3, f"{topic.name}-routed")
    assert [json.loads(one.value() or b"")["payload"] for one in got] == [
        {"line": "line 1-more"},
        {"line": "other"},
        {"line": "slow line-more"},
    ]
    assert [one.key() for one in got] == [b"key of line 1", None, b"key of slow line"]
    changed = [("by", b"trouble"), ("n", b"5")]
    assert [one.headers() for one in got] == [changed, [("n", b"5")], changed]
    assert got[0].timestamp()[1] == 1234
    assert topic.end() == 0
    told = "the transforms in the Java host are: route, trouble, those on Spark: hoist, head;"
    assert f"{topic.name}-0: {told} the converters in the Java host: none" in worker.log()
    stored = [{"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}]
    eventually(lambda: worker.offsets(topic.name) == stored, 60, lambda: worker.offsets(topic.name))
    with file.open("a") as more:
        more.write("the last is to drop, by a line\n")
    stored[0]["offset"] = {"position": file.stat().st_size}
    eventually(lambda: worker.offsets(topic.name) == stored, 60, lambda: worker.offsets(topic.name))


def test_apaches_transforms_do_in_java_what_ours_do(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    links = (
        ("mask", f"{APACHES}.MaskField$Value", {"fields": "text", "replacement": "***"}),
        ("cast", f"{APACHES}.Cast$Value", {"spec": "i8:string,i64:string,f64:float32,yes:int8"}),
        ("at", f"{APACHES}.TimestampConverter$Value", {"field": "at", "target.type": "string", "format": "yyyy-MM-dd"}),
        ("add", f"{APACHES}.InsertField$Value", {"topic.field": "came.from", "static.field": "s", "static.value": "v"}),
        ("name", f"{APACHES}.SetSchemaMetadata$Value", {"schema.name": "n", "schema.version": "9"}),
    )
    nothing = ("java", TROUBLE_TRANSFORM, {"predicate": "never"})
    config = {"connector.class": TROUBLE_SOURCE, "mode": "types", "topic": topic.name, "errors.tolerance": "all"}
    config |= {"value.converter": JSON, "errors.log.enable": "true"}
    create(worker, topic.name, {**config, **chain(*links, nothing, never="nowhere")})
    other = Topic(broker, "java-other", config=KEPT)
    try:
        create(worker, other.name, {**config, "topic": other.name, **chain(*links)})
        eventually(lambda: 0 < topic.end() == other.end() >= 2, 60, lambda: (topic.end(), other.end(), worker.log()))
        ours = [text and text.replace(other.name.encode(), topic.name.encode()) for text in other.values()]
        assert [text and json.loads(text) for text in topic.values()] == [text and json.loads(text) for text in ours]
    finally:
        worker.request("DELETE", f"/connectors/{other.name}")
    assert f"{topic.name}-0: the transforms in the Java host are: mask, cast, at, add, name, java" in worker.log()
    assert f"{other.name}-0: the transforms" not in worker.log()


def test_a_preferred_transform_runs_from_its_jar(worker: WorkerProcess, topic: Topic) -> None:
    links = (
        ("hoist", f"{APACHES}.HoistField$Value", {"field": "line"}),
        ("rename", FROM_JAR, {"renames": "line:text"}),
        ("add", f"{APACHES}.InsertField$Value", {"static.field": "s", "static.value": "v"}),
    )
    source(worker, topic, ["one"], {**chain(*links), "value.converter": JSON})
    eventually(lambda: topic.end() == 1, 60, worker.log)
    assert json.loads(topic.values()[0])["payload"] == {"text": "one", "s": "v"}
    told = "the transforms in the Java host are: hoist, rename, those on Spark: add;"
    assert f"{topic.name}-0: {told}" in worker.log()


def test_a_source_record_that_a_transform_refuses_fails_its_task(worker: WorkerProcess, topic: Topic) -> None:
    source(worker, topic, ["one", "a bad one", "two"], chain(("a", TROUBLE_TRANSFORM, {})))
    worker.wait_states(topic.name, "FAILED", within_s=60)
    assert "java.lang.IllegalStateException: it refuses a bad one" in worker.trace(topic.name)
    assert f"TRANSFORMATION ({TROUBLE_TRANSFORM})" in worker.trace(topic.name)
    assert topic.values() == [b"one!"]


def test_tolerated_source_records_are_dead_letters(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "java-dlq")
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters.name,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.log.enable": "true",
    }
    source(
        worker, topic, ["one", "a bad one", "a slow one", "two"], {**chain(("a", TROUBLE_TRANSFORM, {})), **tolerant}
    )
    eventually(lambda: topic.end() == 2, 60, worker.log)
    assert topic.values() == [b"one!", b"two!"]
    got = messages(letters, 2)
    assert [json.loads(letter.value() or b"")["payload"] for letter in got] == ["a bad one", "a slow one"]
    headers = dict(got[0].headers() or [])
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.class.name"] == TROUBLE_TRANSFORM.encode()
    assert "Executing stage 'TRANSFORMATION' with class 'org.example.TroubleTransform'" in worker.log()
    why = b"org.apache.kafka.connect.errors.RetriableException: not now"
    assert dict(got[1].headers() or [])["__connect.errors.exception.message"] == why


def test_a_sink_runs_the_first_java_transform_and_all_after_it(worker: WorkerProcess, topic: Topic) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    values = [b"line 1", b"other", b"line to drop", None, b"slow line"]
    for value in values:
        producer.produce(topic.name, value, b"k", timestamp=5, headers=[("n", b"5")])
    assert producer.flush(60) == 0
    links = (
        ("first", f"{APACHES}.InsertHeader", {"header": "first", "value.literal": "4"}),
        ("trouble", TROUBLE_TRANSFORM, {"predicate": "p", "negate": "true"}),
        ("head", f"{APACHES}.InsertHeader", {"header": "last", "value.literal": "6"}),
    )
    notes = sink(worker, topic, {**chain(*links, p="other"), "errors.retry.timeout": "-1"})
    eventually(lambda: len(noted(notes)) >= 18, 90, worker.log)  # started, opened, four lines of each record
    rows = noted(notes)[2:18]
    place = f"record {topic.name} 0"
    assert [line for line in rows if line.startswith("record")] == [
        f"{place} 0 1234 CreateTime {topic.name} n=5 INT8 first=4 INT8 by=trouble STRING last=6 INT8 ",
        f"{place} 1 5 CreateTime {topic.name} n=5 INT8 first=4 INT8 last=6 INT8 ",
        f"{place} 3 5 CreateTime {topic.name} n=5 INT8 first=4 INT8 last=6 INT8 ",
        f"{place} 4 1234 CreateTime {topic.name} n=5 INT8 first=4 INT8 by=trouble STRING last=6 INT8 ",
    ]
    assert [json.loads(line)["payload"] for line in rows[1::4]] == ["key of line 1", "k", "k", "key of slow line"]
    shown = [json.loads(line)["payload"] if line != "null" else None for line in rows[2::4]]
    assert shown == ["line 1!", "other", None, "slow line!"]
    counted = {"read": 5.0, "send": 4.0}
    eventually(lambda: counts(worker, topic.name) == counted, 60, lambda: counts(worker, topic.name))
    told = "the transforms in the Java host are: trouble, head, those on Spark: first;"
    assert f"{topic.name}-0: {told}" in worker.log()
    wait_offset(worker, topic, 5)
    topic.send([b"the last is to drop"])
    wait_offset(worker, topic, 6)


def test_a_sinks_record_that_a_transform_refuses_stops_its_partition(worker: WorkerProcess, topic: Topic) -> None:
    topic.send([b"one", b"two", b"a bad one", b"three"])
    notes = sink(worker, topic, chain(("a", TROUBLE_TRANSFORM, {})), "note")
    worker.wait_states(topic.name, "FAILED", within_s=60)
    trace = worker.trace(topic.name)
    assert f"TRANSFORMATION ({TROUBLE_TRANSFORM}), record of {topic.name}-0 at offset 2" in trace
    assert "java.lang.IllegalStateException: it refuses a bad one" in trace
    assert noted(notes, "put") == ["put one!", "put two!"]
    wait_offset(worker, topic, 2)


def test_tolerated_sink_records_are_dead_letters(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "java-dlq")
    topic.send([b"one", b"a bad one", b"two"])
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters.name,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "errors.log.enable": "true",
    }
    notes = sink(worker, topic, {**chain(("a", TROUBLE_TRANSFORM, {})), **tolerant}, "note")
    (letter,) = messages(letters, 1)
    assert letter.value() == b"a bad one"
    headers = dict(letter.headers() or [])
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.class.name"] == TROUBLE_TRANSFORM.encode()
    eventually(lambda: noted(notes, "put") == ["put one!", "put two!"], 60, lambda: noted(notes))
    wait_offset(worker, topic, 3)


def test_a_sources_java_converters_write_its_bytes(worker: WorkerProcess, topic: Topic) -> None:
    config = {
        **chain(("a", f"{APACHES}.InsertHeader", {"header": "n", "value.literal": "5"})),
        "value.converter": TROUBLE_CONVERTER,
        "value.converter.open": "(",
        "header.converter": TROUBLE_CONVERTER,
        "errors.tolerance": "all",
        "errors.log.enable": "true",
    }
    source(worker, topic, ["one", "unconvertible", "two"], config)
    got = messages(topic, 2)
    assert [(one.key(), one.value()) for one in got] == [(None, b"(one>"), (None, b"(two>")]
    assert got[0].headers() == [("n", b"<5>"), ("written", b"y")]
    told = "Executing stage 'VALUE_CONVERTER' with class 'org.example.TroubleConverter'"
    eventually(lambda: told in worker.log(), 60, worker.log)


def test_a_sinks_java_converters_read_its_bytes(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    letters = Topic(broker, "java-dlq")
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for value in (b"one", b"unconvertible", None):
        producer.produce(topic.name, value, b"k", timestamp=5, headers=[("n", b"5"), ("z", None)])
    assert producer.flush(60) == 0
    config = {
        **chain(("a", f"{APACHES}.InsertHeader", {"header": "last", "value.literal": "6"})),
        "value.converter": TROUBLE_CONVERTER,
        "value.converter.open": "(",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters.name,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    notes = sink(worker, topic, config)
    eventually(lambda: len(noted(notes)) >= 10, 90, worker.log)
    told = noted(notes)[2:10]
    headers = "n=5 INT8 z=null null last=6 INT8 "
    assert told[0::4] == [f"record {topic.name} 0 {at} 5 CreateTime {topic.name} {headers}" for at in (0, 2)]
    assert [json.loads(told[1])["payload"], json.loads(told[2])["payload"]] == ["k", "(one>"]
    assert told[6] == "null"
    eventually(lambda: letters.values() == [b"unconvertible"], 60, worker.log)


def test_a_file_sink_needs_no_transform_of_ours(worker: WorkerProcess, topic: Topic) -> None:
    file = worker.folder / f"{topic.name}.txt"
    topic.send([b"one", b"two"])
    config = {"connector.class": FILE_SINK, "file": str(file), "topics": topic.name}
    create(worker, topic.name, {**config, **chain(("a", TROUBLE_TRANSFORM, {}))})
    eventually(lambda: lines_of(file) == [b"one!", b"two!"], 60, worker.log)
