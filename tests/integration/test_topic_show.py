"""`headrace topic show` on a real broker: which records, in which order, and how their bytes are shown."""

from __future__ import annotations

import json
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from headrace.converters.registry.client import SchemaRegistry
from headrace.worker.cli import commands
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic
from headrace.worker.errors import NotFound
from tests.integration.odd_headers import send_odd_header
from tests.integration.worker_process import Topic

pytestmark = pytest.mark.kafka

RAW = b"\x00\x00\x00\x00\x07\x02"


@pytest.fixture
def topic(broker: str) -> Topic:
    """Two partitions with six records, a second apart."""
    made = Topic(broker, "shown", partitions=2)
    made.create()
    producer = Producer({"bootstrap.servers": broker})
    values = [b'{"a": 1}', b"plain \x1b]0;t\x07", RAW, None, b"\xff\xfe", struct.pack(">i", 7)]
    for number, value in enumerate(values):
        headers = [("h", b"x"), ("h", None)] if number == 0 else None
        at = 1_700_000_000_000 + number * 1_000
        producer.produce(made.name, value, b"k%d" % number, number % 2, timestamp=at, headers=headers)
    producer.flush(60)
    return made


def run(broker: str, *words: str) -> Any:
    return CliRunner().invoke(commands.app, ["topic", "show", *words, "--bootstrap-server", broker])


def shown(broker: str, topic: Topic, *words: str) -> list[dict[str, Any]]:
    result = run(broker, topic.name, "--json", *words)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_last_records_of_all_partitions_are_shown_in_their_order(broker: str, topic: Topic) -> None:
    found = shown(broker, topic)
    assert [one["key"] for one in found] == [f"k{number}" for number in range(6)]
    assert found[0]["headers"] == [{"key": "h", "value": "x"}, {"key": "h", "value": None}]
    assert [(one["value"], one["value_as"]) for one in found[:1] + found[3:5]] == [
        ('{"a": 1}', "JSON"),
        (None, "null"),
        ("0xfffe", "bytes"),
    ]
    assert found[2]["value_as"] == "bytes that may have a schema in a registry (--registry)"
    assert [one["key"] for one in shown(broker, topic, "--last", "2")] == ["k4", "k5"]
    result = run(broker, topic.name)
    assert r"plain \x1b]0;t\x07" in result.stdout
    assert "null (a tombstone)" in result.stdout
    assert f"6 records of {topic.name}" in result.stderr
    admin = AdminClient({"bootstrap.servers": broker})  # a client that nobody keeps may go before it answers
    groups = admin.list_consumer_groups().result(60).valid
    assert "headrace-topic-show" not in {one.group_id for one in groups}


def test_where_to_begin_is_an_offset_a_time_or_the_beginning(broker: str, topic: Topic) -> None:
    assert [one["key"] for one in shown(broker, topic, "--from", "2", "--partition", "1")] == ["k5"]
    assert len(shown(broker, topic, "--from", "earliest", "--limit", "4")) == 4
    since = shown(broker, topic, "--from", "2023-11-14T22:13:24Z")
    assert sorted(one["key"] for one in since) == ["k4", "k5"]
    assert shown(broker, topic, "--from", "2099-01-01") == []
    wrong = run(broker, topic.name, "--from", "yesterday")
    assert (wrong.exit_code, "2026-11-28T09:30" in wrong.output) == (2, True)
    assert run(broker, topic.name, "--from", "1", "--last", "1").exit_code == 2
    assert "no partition 7" in run(broker, topic.name, "--partition", "7").output


def test_a_topic_that_is_not_there_is_not_created(broker: str) -> None:
    topic = Topic(broker, "mistyped")
    letters = LetterTopic("sink", topic.name, Clients({"bootstrap.servers": broker, "group.id": "none"}, {}, {}, {}))
    for _ in range(3):
        assert f"no topic {topic.name}" in run(broker, topic.name).output
        with letters.opened() as consumer, pytest.raises(NotFound):
            letters.ends(consumer)
    admin = AdminClient({"bootstrap.servers": broker})
    assert topic.name not in admin.list_topics(timeout=60).topics


def test_converters_read_what_they_can(
    broker: str, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = "org.apache.kafka.connect.converters.IntegerConverter"
    last = shown(broker, topic, "--last", "2", "--value-converter", number)
    assert [(one["value"], one["value_as"]) for one in last] == [
        ("0xfffe", "not IntegerConverter"),
        ("7", "IntegerConverter"),
    ]
    monkeypatch.setattr(SchemaRegistry, "schema", lambda *_: '"int"')
    at = ("--from", "1", "--partition", "0", "--limit", "1")
    assert shown(broker, topic, *at, "--registry", "http://127.0.0.1:1")[0]["value"] == "1"
    worker = tmp_path / "worker.properties"
    worker.write_text(
        f"bootstrap.servers={broker}\noffset.storage.file.filename={tmp_path}/offsets\n"
        f"key.converter={number}\nvalue.converter=AvroConverter\n"
        "value.converter.schema.registry.url=http://127.0.0.1:1\n"
    )
    words = ["topic", "show", topic.name, "--json", *at, "--worker", str(worker)]
    result = CliRunner().invoke(commands.app, words)
    assert (json.loads(result.stdout)["value_as"], json.loads(result.stdout)["value"]) == ("AvroConverter", "1")


def test_what_comes_is_followed(broker: str) -> None:
    topic, sent = Topic(broker, "followed"), 0
    topic.create()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(shown, broker, topic, "--last", "0", "--follow", "--limit", "3")
        until = time.monotonic() + 120
        while not following.done() and time.monotonic() < until:
            topic.send([b"%d" % sent])
            sent += 1
        values = [int(one["value"]) for one in following.result(0)]
    assert values == list(range(values[0], values[0] + 3))


def test_a_header_whose_name_is_no_text_stops_nobody(broker: str) -> None:
    topic = Topic(broker, "odd-header")
    topic.create()
    send_odd_header(broker, topic.name, b"odd")
    topic.send([b"next"])
    found = shown(broker, topic)
    assert [(one["value"], one["headers"]) for one in found] == [("odd", None), ("next", [])]
    assert "a name that is not UTF-8" in run(broker, topic.name).stdout
