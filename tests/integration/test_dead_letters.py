"""Records that fail, on a real worker and broker: their dead letters, the log, the retry topic, and their replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from headrace.worker.cli import commands
from tests.integration.odd_headers import send_odd_header
from tests.integration.partitions import messages
from tests.integration.stranger_plugins import CHOOSY
from tests.integration.worker_process import SINK, SOURCE, Topic, WorkerProcess, envelope, eventually, lines_of
from tests.unit.converters.registry.scripted_registry import scripted, send

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WITHIN_S = 250
"""Much more than is needed, for a machine that others use, too: Spark starts within."""
BAD = b"{no json"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def letters_to(topic: str, **more: str) -> dict[str, str]:
    """Settings of a connector with a dead letter topic."""
    return {
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **more,
    }


def put(worker: WorkerProcess, name: str, config: dict[str, str]) -> None:
    once = {"tasks.max": "1", "task.restart.enabled": "false"}
    worker.request("PUT", f"/connectors/{name}/config", {**once, **config})


def told(message: Any) -> dict[str, str]:
    """The context headers of a dead letter."""
    return {
        key.removeprefix("__connect.errors."): value.decode()
        for key, value in message.headers() or ()
        if key.startswith("__connect.errors.")
    }


def committed(worker: WorkerProcess, sink: str, topic: str) -> int | None:
    found = [e for e in worker.offsets(sink) if e["partition"]["kafka_topic"] == topic]
    return found[0]["offset"]["kafka_offset"] if found else None


@pytest.mark.parametrize(("before", "after"), [(3, 3), (15_000, 52_000)], ids=["here", "there"])
def test_bad_records_are_dead_lettered_as_they_came(
    worker: WorkerProcess, broker: str, tmp_path: Path, before: int, after: int
) -> None:
    topic, sink, name = Topic(broker, "bad"), tmp_path / "sink.txt", f"letters-{before}"
    values = [envelope(f"line {number}") for number in range(before + after)]
    topic.send(values[:before])
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(
        topic.name, BAD, key=b'{"k', timestamp=1_700_000_000_000, headers=[("h", b"\x00\xff"), ("n", None)]
    )
    producer.produce(topic.name, b"", key=None)
    producer.flush(60)
    topic.send(values[before:])
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "errors.tolerance": "all"}
    config |= {"key.converter": STRING, "errors.log.enable": "true", "errors.log.include.messages": "true"}
    put(worker, name, config | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: committed(worker, name, topic.name) == len(values) + 2, WITHIN_S, worker.log)
    assert lines_of(sink) == [f"line {number}".encode() for number in range(before + after)]
    assert (f"{name}-0: a job moved " in worker.log()) == (before > 3)
    letters = messages(broker, f"{topic.name}-dlq")
    assert [(m.key(), m.value()) for m in letters] == [(b'{"k', BAD), (None, b"")]
    assert letters[0].timestamp()[1] == 1_700_000_000_000
    assert letters[0].headers()[:2] == [("h", b"\x00\xff"), ("n", None)]
    said = told(letters[0])
    message = said.pop("exception.message")
    assert said.pop("exception.stacktrace") == f"org.apache.kafka.connect.errors.DataException: {message}\n"
    assert message.startswith("Converting byte[] to Kafka Connect data failed due to serialization error")
    assert said == {
        "topic": topic.name,
        "partition": "0",
        "offset": str(before),
        "connector.name": name,
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
        "class.name": "org.apache.kafka.connect.json.JsonConverter",
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
    }
    assert (
        f"Error encountered in task {name}-0. Executing stage 'VALUE_CONVERTER' with class "
        f"'org.apache.kafka.connect.json.JsonConverter', where consumed record is {{topic='{topic.name}', partition=0, "
        f"offset={before}, timestamp=1700000000000, timestampType=CreateTime}}." in worker.log()
    )
    metrics = worker.http.get("/metrics").text
    of_it = f'{{connector="{name}",task="0"}}'
    assert f"kafka_connect_task_error_deadletterqueue_produce_requests{of_it} {len(letters)}\n" in metrics


def test_a_regex_reads_whole_names_and_new_topics_and_not_its_own_dead_letters(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    eu, sink = Topic(broker, "orders"), tmp_path / "sink.txt"
    eu.send([envelope("a"), BAD])
    config = {"connector.class": SINK, "topics.regex": rf"{eu.name}(?:-\d+)?", "file": str(sink)}
    config |= {"errors.tolerance": "all", "consumer.override.metadata.max.age.ms": "1000"}
    put(worker, "regex", config | letters_to(f"{eu.name}-dlq"))
    eventually(lambda: committed(worker, "regex", eu.name) == 2, WITHIN_S, worker.log)
    new = Topic(broker, "orders")
    new.name = f"{eu.name}-2"
    new.create()
    new.send([envelope("b")])
    eventually(lambda: lines_of(sink) == [b"a", b"b"], WITHIN_S, worker.log)
    assert len(messages(broker, f"{eu.name}-dlq")) == 1
    assert {e["partition"]["kafka_topic"] for e in worker.offsets("regex")} <= {eu.name, new.name}


def test_good_records_are_no_dead_letters_of_a_server_that_is_no_registry(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    """The server is away when it is asked if it is a registry, and answers look-ups with a 404 and JSON of its own."""

    def no_registry(request: Any) -> None:
        away = "/schemas/ids/0?" in request.path
        send(request, 503 if away else 404, b'{"status":404,"title":"Could not find resource"}')

    topic, sink = Topic(broker, "avro"), tmp_path / "sink.txt"
    topic.send([b"\x00\x00\x00\x00\x07\x02a"] * 40)
    with scripted((0, no_registry)) as server:
        config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "errors.tolerance": "all"}
        config |= {"value.converter": "AvroConverter", "value.converter.schema.registry.url": server.url}
        put(worker, "avro", config | letters_to(f"{topic.name}-dlq"))
        worker.wait_states("avro", "FAILED", within_s=WITHIN_S)
        assert f"schema.registry.url (= '{server.url}'): No schema registry answers there: 404" in worker.trace("avro")
    assert committed(worker, "avro", topic.name) in (None, 0)
    assert messages(broker, f"{topic.name}-dlq") == []


def test_a_dead_letter_is_written_although_the_task_fails(worker: WorkerProcess, broker: str, tmp_path: Path) -> None:
    topic, sink = Topic(broker, "fatal"), tmp_path / "sink.txt"
    topic.send([envelope("a"), BAD, envelope("b"), BAD])
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink)}
    letters = letters_to(f"{topic.name}-dlq", **{"errors.deadletterqueue.context.headers.enable": "false"})
    put(worker, "fatal", config | letters)
    worker.wait_states("fatal", "FAILED", within_s=WITHIN_S)
    assert "VALUE_CONVERTER" in worker.trace("fatal")
    assert [(m.value(), m.headers()) for m in messages(broker, f"{topic.name}-dlq")] == [(BAD, None)]
    assert lines_of(sink) == [b"a"]
    eventually(lambda: committed(worker, "fatal", topic.name) == 1, WITHIN_S)


def test_dead_letters_that_can_go_nowhere_fail_the_task_and_lose_nothing(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, sink = Topic(broker, "nowhere"), tmp_path / "sink.txt"
    tight = Topic(broker, "tight", config={"max.message.bytes": "300"})
    topic.send([envelope("a"), BAD + b"x" * 1000, envelope("b")])
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "errors.tolerance": "all"}
    put(worker, "nowhere", config | letters_to(tight.name))
    worker.wait_states("nowhere", "FAILED", within_s=WITHIN_S)
    assert "dead letters are refused" in worker.trace("nowhere")
    assert "max.message.bytes" in worker.trace("nowhere")
    assert committed(worker, "nowhere", topic.name) in (None, 0)
    put(worker, "nowhere", config | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: committed(worker, "nowhere", topic.name) == 3, WITHIN_S, worker.log)
    assert [m.value() for m in messages(broker, f"{topic.name}-dlq")] == [BAD + b"x" * 1000]
    put(worker, "replicas", config | letters_to("many", **{"errors.deadletterqueue.topic.replication.factor": "3"}))
    worker.wait_states("replicas", "FAILED", within_s=WITHIN_S)
    assert "Could not initialize dead letter queue with topic=many" in worker.trace("replicas")


def test_a_header_whose_name_is_no_text_fails_its_task_alone(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, sink, process = Topic(broker, "odd-header"), tmp_path / "sink.txt", worker.process.pid
    topic.send([b"first"])
    send_odd_header(broker, topic.name, b"odd")
    topic.send([b"next"])
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "value.converter": STRING}
    put(worker, "odd-header", config)
    worker.wait_states("odd-header", "FAILED", within_s=WITHIN_S)
    told = f"The record of {topic.name}-0 at offset 1 has a header whose name is not UTF-8"
    assert told in worker.trace("odd-header")
    assert "(PATCH /connectors/<name>/offsets)" in worker.trace("odd-header")
    assert lines_of(sink) == [b"first"], "all before it is done"
    path = "/connectors/odd-header"
    worker.request("PUT", f"{path}/stop")
    eventually(lambda: worker.get(f"{path}/status")["connector"]["state"] == "STOPPED", WITHIN_S)
    place = {"kafka_topic": topic.name, "kafka_partition": 0}
    worker.request("PATCH", f"{path}/offsets", {"offsets": [{"partition": place, "offset": {"kafka_offset": 2}}]})
    worker.request("PUT", f"{path}/resume")
    eventually(lambda: lines_of(sink) == [b"first", b"next"], WITHIN_S, worker.log)
    assert (worker.process.pid, worker.process.poll()) == (process, None)


def test_a_sink_says_which_records_it_cannot_write_or_it_is_found_out(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, file = Topic(broker, "choosy"), tmp_path / "choosy.txt"
    values = [f"{'named' if n % 7 == 3 else 'hidden' if n in (20, 41) else 'ok'} {n}" for n in range(60)]
    topic.send([value.encode() for value in values])
    config = {"connector.class": CHOOSY, "topics": topic.name, "file": str(file), "value.converter": STRING}
    put(worker, "choosy", {**config, "errors.tolerance": "all"} | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: committed(worker, "choosy", topic.name) == 60, WITHIN_S, worker.log)
    assert sorted(lines_of(file)) == sorted(value.encode() for value in values if value.startswith("ok"))
    letters = messages(broker, f"{topic.name}-dlq")
    assert sorted(m.value().decode() for m in letters) == sorted(v for v in values if not v.startswith("ok"))
    said = {m.value().decode(): told(m) for m in letters}
    assert {one["stage"] for one in said.values()} == {"TASK_PUT"}
    assert {one["class.name"] for one in said.values()} == {"org.example.ChoosySinkTask"}
    assert said["named 3"]["exception.message"] == "I do not take this"
    assert said["hidden 20"]["exception.message"] == "a record is not to my taste"
    assert all(values[int(one["offset"])] == value for value, one in said.items())

    strict = tmp_path / "strict.txt"
    put(worker, "strict", {**config, "file": str(strict)})
    worker.wait_states("strict", "FAILED", within_s=WITHIN_S)
    assert f"{topic.name}-0 at offset 3: I do not take this" in worker.trace("strict")
    eventually(lambda: committed(worker, "strict", topic.name) == 3, WITHIN_S)


def test_a_slow_record_waits_in_the_retry_topic_and_holds_nobody(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, file = Topic(broker, "slow"), tmp_path / "slow.txt"
    retry = f"{topic.name}-retry"
    topic.send([b"ok 0", b"slow later", b"ok 1"], keys=[b"k0", b"k1", b"k2"])
    config = {"connector.class": CHOOSY, "topics": topic.name, "file": str(file), "value.converter": STRING}
    config |= {"key.converter": STRING, "errors.retry.topic.name": retry, "errors.retry.delay.max.ms": "1000"}
    refused = worker.http.put("/connectors/slow/config", json=config)
    assert (refused.status_code, "needs errors.retry.timeout" in refused.text) == (400, True)
    put(worker, "slow", {**config, "errors.retry.timeout": "600000"} | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: committed(worker, "slow", topic.name) == 3, WITHIN_S, worker.log)
    assert lines_of(file) == [b"ok 0", b"ok 1"]
    eventually(lambda: len(messages(broker, retry)) >= 3, WITHIN_S, worker.log)
    headers = dict(messages(broker, retry)[-1].headers())
    assert headers["__headrace.retry.topic"] == topic.name.encode()
    assert headers["__headrace.retry.offset"] == b"1"
    assert int(headers["__headrace.retry.attempt"]) >= 3
    topic.send([b"ok 2"])
    eventually(lambda: lines_of(file)[2:] == [b"ok 2"], WITHIN_S, worker.log)
    Path(f"{file}.later").touch()
    eventually(lambda: lines_of(file)[3:] == [b"slow later"], WITHIN_S, worker.log)
    eventually(lambda: committed(worker, "slow", retry) == len(messages(broker, retry)), 60, worker.log)
    assert messages(broker, f"{topic.name}-dlq") == []

    put(
        worker,
        "slow",
        {**config, "errors.retry.timeout": "1500", "errors.tolerance": "all"} | letters_to(f"{topic.name}-dlq"),
    )
    topic.send([b"slow never"], keys=[b"key"])
    (letter,) = eventually(lambda: messages(broker, f"{topic.name}-dlq"), WITHIN_S, worker.log)
    assert (letter.key(), letter.value()) == (b"key", b"slow never")
    said = told(letter)
    assert (said["topic"], said["offset"], said["stage"]) == (topic.name, "4", "TASK_PUT")
    assert said["exception.message"].startswith("not ready for never (given up after ")
    assert not any(name.startswith("__headrace") for name, _ in letter.headers())


def test_a_sources_record_is_dead_lettered_as_it_was_before_transforms(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, file, name = Topic(broker, "from-file"), tmp_path / "lines.txt", "from-file"
    file.write_text("1\ntwo\n3\n", encoding="utf-8")
    config = {"connector.class": SOURCE, "topic": topic.name, "file": str(file), "errors.tolerance": "all"}
    config |= {"transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value"}
    config |= {"transforms.cast.spec": "int32", "errors.log.enable": "true", "errors.log.include.messages": "true"}
    put(worker, name, config | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: topic.end() == 2, WITHIN_S, worker.log)
    (letter,) = eventually(lambda: messages(broker, f"{topic.name}-dlq"), WITHIN_S, worker.log)
    assert letter.value() == envelope("two")
    said = told(letter)
    assert said["source.partition"] == f'{{"filename": "{file}"}}'
    assert said["source.offset"].startswith('{"position": 6')
    assert said["stage"] == "TRANSFORMATION"
    assert f"where source record is = SourceRecord{{sourcePartition={{filename={file}}}" in worker.log()


def test_dead_letters_are_shown_and_replayed_once(worker: WorkerProcess, broker: str, tmp_path: Path) -> None:
    topic, sink, name = Topic(broker, "again", partitions=2), tmp_path / "sink.txt", "again"
    topic.send([envelope("a"), b'"b"', b'"c"'], partition=1)
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "errors.tolerance": "all"}
    put(worker, name, config | letters_to(f"{topic.name}-dlq"))
    eventually(lambda: len(messages(broker, f"{topic.name}-dlq")) == 2, WITHIN_S, worker.log)

    def run(*command: str) -> str:
        words = ["dlq", *command, "--rest", worker.url, "--bootstrap-server", broker]
        result = CliRunner().invoke(commands.app, words)
        assert result.exit_code == 0, result.output
        return result.output

    shown = [json.loads(line) for line in run("show", name, "--json").splitlines()]
    assert [(one["value"], one["error"]["offset"]) for one in shown] == [('"b"', "1"), ('"c"', "2")]
    assert "VALUE_CONVERTER" in run("show", name, "--limit", "1")
    assert "2 of again's dead letters would be replayed" in run("replay", name, "--dry-run")
    put(worker, name, config | {"value.converter": STRING})
    eventually(lambda: "value.converter" in worker.get(f"/connectors/{name}/config"), 60)
    put(worker, name, config | {"value.converter": STRING} | letters_to(f"{topic.name}-dlq"))
    assert f"2 replayed to {topic.name}" in run("replay", name)
    eventually(lambda: lines_of(sink)[1:] == [b'"b"', b'"c"'], WITHIN_S, worker.log)
    assert topic.end(1) == 5
    assert "0 of again's dead letters replayed" in run("replay", name)
    missing = CliRunner().invoke(commands.app, ["dlq", "show", "none", "--rest", worker.url])
    assert (missing.exit_code, "Connector none not found" in missing.output) == (2, True)


def test_dead_letters_are_seen_replayed_and_deleted_over_rest(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, sink, name = Topic(broker, "rest-letters"), tmp_path / "sink.txt", "rest-letters"
    letters, path = f"{topic.name}-dlq", "/connectors/rest-letters/dead-letters"
    producer = Producer({"bootstrap.servers": broker})
    hostile = [("\u202e<script>", b"\x00\xff"), ("__connect.errors.topic", b"connect-configs"), ("n", None)]
    producer.produce(topic.name, BAD, key=b"k", headers=hostile, timestamp=1_700_000_000_000)
    producer.produce(topic.name, b"\xff" * 900_000)
    producer.produce(topic.name, b'"b"')
    producer.flush(60)
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "errors.tolerance": "all"}
    config |= {"key.converter": STRING}
    put(worker, name, config | letters_to(letters))
    eventually(lambda: len(messages(broker, letters)) == 3, WITHIN_S, worker.log)

    first = worker.get(f"{path}?limit=2")
    assert (first["records"][0]["offset"], first["records"][0]["value"]) == (2, '"b"')
    assert first["records"][1]["value"].endswith("more bytes)")
    assert (len(first["records"][1]["value"]) < 10_000, first["records"][1]["value_bytes"]) == (True, 900_000)
    (last,) = (second := worker.get(f"{path}?limit=2&before={first['before']}"))["records"]
    assert (second["before"], second["with_data"]) == (None, True)
    assert (last["key"], last["value"], last["timestamp"]) == ("k", "{no json", 1_700_000_000_000)
    assert last["headers"] == [{"key": "\u202e<script>", "value": "0x00ff"}, {"key": "n", "value": None}]
    assert last["origin"] | {"partition": 0, "offset": 0} == last["origin"]
    assert (last["origin"]["topic"], last["stage"], last["replayed"]) == (topic.name, "VALUE_CONVERTER", False)
    assert last["class"] == "org.apache.kafka.connect.json.JsonConverter"

    shown = worker.get(f"/connectors/{name}/logs")["lines"]
    assert any(line["text"].startswith(f"[{name}|task-0]") and line["worker"] for line in shown)

    found = worker.get(f"{path}/causes")
    assert (found["looked_at"], found["is_all"]) == (3, True)
    cause = next(one for one in found["causes"] if one["example"]["offset"] == 2)
    assert cause["count"] == cause["waiting"] == 1

    put(worker, name, config | {"value.converter": STRING} | letters_to(letters))

    def changed(method: str, rest: str, body: Any = None) -> Any:
        return worker.request(method, path + rest, body).json()

    once = {"replayed": 1, "topics": {topic.name: 1}, "before": 0, "more": False}
    assert changed("POST", "/replay", {"cause": cause["cause"]}) == once
    places = {"records": [{"partition": 0, "offset": 0}, {"partition": 0, "offset": 2}]}
    assert changed("POST", "/replay", places) == {**once, "before": 1}
    assert [one["replayed"] for one in worker.get(path)["records"]] == [True, False, True]
    eventually(lambda: lines_of(sink) == [b'"b"', BAD], WITHIN_S, worker.log)
    assert changed("POST", "/replay", {}) == once
    assert changed("POST", "/replay", {})["replayed"] == 0
    assert topic.end() == 6
    missing = worker.http.post(f"{path}/replay", json={"records": [{"partition": 0, "offset": 77}]})
    assert (missing.status_code, "no dead letter of rest-letters at offset 77" in missing.text) == (404, True)

    assert changed("DELETE", "?upto=0:1") == {"first": "0:2", "more": False}
    assert [one["offset"] for one in worker.get(path)["records"]] == [2]
    other = {"connector.class": SINK, "topics": letters, "file": str(tmp_path / "other.txt")}
    put(worker, "reads-letters", {**other, "value.converter": STRING})
    refused = worker.http.delete(f"{path}?upto=all")
    assert (refused.status_code, "reads-letters uses the topic" in refused.text) == (409, True)
    worker.request("DELETE", "/connectors/reads-letters")
    producer.produce(letters, b"", headers=[("__connect.errors.connector.name", b"another")])
    producer.flush(60)
    refused = worker.http.delete(f"{path}?upto=all")
    assert (refused.status_code, "is connector another's" in refused.text) == (409, True)
    assert changed("DELETE", "?upto=0:2") == {"first": "0:3", "more": False}
    assert worker.get(path) == {"records": [], "before": None, "with_data": True}


def test_a_forged_letter_reaches_no_topic_that_its_connector_does_not_read(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic, victim, name = Topic(broker, "forged"), Topic(broker, "victim"), "forged"
    config = {"connector.class": SINK, "topics": topic.name, "file": str(tmp_path / "sink.txt")}
    put(worker, name, config | letters_to(f"{topic.name}-dlq"))
    worker.wait_states(name, "RUNNING", within_s=WITHIN_S)
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(f"{topic.name}-dlq", b"x", headers=[("__connect.errors.topic", victim.name.encode())])
    producer.flush(60)
    refused = worker.http.post(f"/connectors/{name}/dead-letters/replay", json={})
    assert (refused.status_code, f"{victim.name}, which forged does not read" in refused.text) == (400, True)
    assert victim.end() == 0
