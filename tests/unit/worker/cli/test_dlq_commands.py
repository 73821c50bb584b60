"""Letters that `headrace dlq` shows, sends and commits, and its exits, against a topic that plays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner

from headrace.converters.registry.client import SchemaRegistry
from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.worker.cli import commands
from headrace.worker.cli.dlq_commands import replay, show
from headrace.worker.cli.dlq_topic import Found, config_of
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import Login
from headrace.worker.deadletters import letter_topic
from headrace.worker.deadletters.letter_topic import Clients, LetterTopic
from headrace.worker.kafka import topic_reading
from tests.unit.converters.registry.scripted_registry import scripted

TOLD = {"topic": "t", "partition": "0", "connector.name": "mine"}


class Letter:
    """A message of partition 0, or an error in its place."""

    def __init__(self, offset: int, told: dict[str, str] | None = None, value: bytes = b"v", error: Any = None) -> None:
        headers = [(f"__connect.errors.{k}", v.encode()) for k, v in (TOLD if told is None else told).items()]
        self.offset, self.headers = (lambda: offset), (lambda: [("own", b"h"), *headers])
        self.topic, self.partition, self.key = (lambda: "dlq"), (lambda: 0), (lambda: None)
        self.value, self.timestamp, self.error = (lambda: value), (lambda: (1, offset)), (lambda: error)


class Topic:
    """A dead letter topic, its consumers and its producer."""

    def __init__(self, *letters: Letter) -> None:
        self.letters = list(letters)
        self.begin = self.committed_at = 0
        self.metadata = ""
        self.sent: list[tuple[str, bytes]] = []
        self.refuse: Callable[[bytes], Exception | str | None] = lambda _: None
        self.waiting: list[Callable[[], None]] = []

    # -- a consumer
    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0])})

    def get_watermark_offsets(self, _position: Any, timeout: float) -> tuple[int, int]:
        return 0, len(self.letters)

    def committed(self, group: str, asked: list[Any], timeout_s: float) -> Any:
        return SimpleNamespace(result=lambda: [GroupOffset("dlq", 0, self.committed_at, self.metadata)])

    def assign(self, positions: list[Any]) -> None:
        self.begin = positions[0].offset

    def poll(self, _seconds: float) -> Letter | None:
        self.begin += 1
        return self.letters[min(self.begin, len(self.letters)) - 1]

    def commit(self, group: str, offsets: list[Any], timeout_s: float) -> Any:
        self.committed_at, self.metadata = offsets[0].offset, offsets[0].metadata
        return SimpleNamespace(result=lambda: offsets)

    def close(self) -> None: ...

    # -- a producer
    def produce(self, topic: str, value: bytes, key: Any, on_delivery: Any, **more: Any) -> None:
        why = self.refuse(value)
        if isinstance(why, Exception):
            raise why
        if not why:
            self.sent.append((topic, value))
        self.waiting.append(lambda: on_delivery(why, SimpleNamespace(topic=lambda: topic)))

    def flush(self, _seconds: float) -> None:
        while self.waiting:
            self.waiting.pop(0)()


CLIENTS = Clients({"bootstrap.servers": "nowhere:1"}, {}, {}, {})


def mine(monkeypatch: pytest.MonkeyPatch, *letters: Letter) -> tuple[Topic, Found]:
    topic = Topic(*letters)
    monkeypatch.setattr(letter_topic, "Consumer", lambda _: topic)
    monkeypatch.setattr(letter_topic, "Producer", lambda _: topic)
    monkeypatch.setattr(letter_topic, "kept_client", lambda _: topic)
    return topic, Found(LetterTopic("mine", "dlq", CLIENTS))


def run(letters: Found, to: str | None = None, limit: int | None = None) -> list[str]:
    said: list[str] = []
    assert replay(letters, to, limit, False, said.append) == 0
    return said


def values(*numbers: int) -> list[tuple[str, bytes]]:
    return [("t", b"%d" % number) for number in numbers]


def letters(count: int, **odd: Letter) -> list[Letter]:
    return [odd.get(f"at_{n}", Letter(n, value=b"%d" % n)) for n in range(count)]


def test_what_cannot_be_sent_does_not_bring_back_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, dead = mine(monkeypatch, *letters(5, at_3=Letter(3, told={}, value=b"3")))
    for _ in range(2):
        with pytest.raises(CommandFailed, match=r"dead letter dlq-0 at offset 3 does not say where .* --to"):
            run(dead)
    assert (topic.sent, topic.committed_at) == (values(0, 1, 2), 3)
    run(dead, to="other", limit=1)
    assert "1 replayed to t" in run(dead)
    assert (topic.sent[3:], topic.committed_at) == ([("other", b"3"), ("t", b"4")], 5)


@pytest.mark.parametrize("how", [KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), "refused"])
def test_what_is_refused_is_not_committed(monkeypatch: pytest.MonkeyPatch, how: Exception | str) -> None:
    topic, dead = mine(monkeypatch, *letters(5))
    topic.refuse = lambda value: how if value == b"2" else None
    with pytest.raises(CommandFailed, match="--to"):
        run(dead)
    assert topic.committed_at == 2
    topic.refuse = lambda _: None
    run(dead)
    assert sorted(topic.sent) == values(0, 1, 2, 3, 4)
    assert topic.committed_at == 5


def test_a_full_queue_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, dead = mine(monkeypatch, *letters(5))
    topic.refuse = lambda _: BufferError() if len(topic.waiting) >= 2 else None
    assert run(dead)[0] == "5 replayed to t"
    assert topic.sent == values(0, 1, 2, 3, 4)


def test_other_connectors_letters_are_left_to_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**TOLD, "connector.name": "other"}
    topic, dead = mine(monkeypatch, *letters(40, **{f"at_{n}": Letter(n, told=other) for n in range(2, 39)}))
    assert show(dead, 2, as_json=True) == 0
    assert [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()] == ["1", "39"]
    assert "3 of mine's dead letters replayed" in run(dead)
    assert (topic.sent, topic.committed_at) == (values(0, 1, 39), 40)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (rb"a\[/x]", r"a\[/x]"),
        (rb"C:\[b]", r"C:\[b]"),
        (b"[red]:smile:", "[red]:smile:"),
        (b"\x1b]0;t\x07", r"\x1b]0;t\x07"),
    ],
)
def test_values_are_shown_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: bytes, shown: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, dead = mine(monkeypatch, Letter(0, value=value))
    assert show(Found(replace(dead.topic, connector="mine[/x]")), 5, as_json=False) == 0
    assert show(dead, 5, as_json=False) == 0
    out = capsys.readouterr().out
    assert shown in out
    assert "\x1b]0" not in out


@pytest.mark.parametrize("letter", [Letter(0, error=KafkaError(KafkaError._TRANSPORT, "away", False, True)), None])
def test_kafka_that_gives_nothing_is_said_in_time(monkeypatch: pytest.MonkeyPatch, letter: Any) -> None:
    _, dead = mine(monkeypatch, letter)
    monkeypatch.setattr(topic_reading, "TIMEOUT_S", 0.0)
    for run_it in (lambda: run(dead), lambda: show(dead, 5, as_json=False)):
        with pytest.raises(CommandFailed, match="gives no records of dlq"):
            run_it()


@pytest.mark.parametrize("command", ["show", "replay"])
def test_what_kafkas_client_refuses_has_a_reason_and_an_exit_code(command: str) -> None:
    words = ["dlq", command, "c", "--topic", "t", "--bootstrap-server", "no.such.host.invalid:1"]
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(topic_reading, "TIMEOUT_S", 0.2)
    try:
        result = CliRunner().invoke(commands.app, words)
    finally:
        monkeypatch.undo()
    assert (result.exit_code, "--bootstrap-server" in result.output) == (3, True), result.output


@pytest.mark.parametrize("body", [b"<html>", [1, 2], 3])
def test_what_is_no_worker_is_said(body: Any) -> None:
    with scripted((200, body)) as played, pytest.raises(CommandFailed, match=r"no worker.*; --topic names") as told:
        config_of("c", Login(played.url))
    assert told.value.code == 3


def test_an_unknown_connector_is_wrong_use() -> None:
    answer = (404, {"error_code": 404, "message": "Connector c not found"})
    with scripted(answer) as played, pytest.raises(CommandFailed, match="Connector c not found") as told:
        config_of("c", Login(played.url))
    assert told.value.code == 2


def test_the_connectors_converter_says_what_bytes_mean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, dead = mine(monkeypatch, Letter(0, value=b"\x00\x00\x00\x00\x01\x02"), Letter(1, value=b"no avro"))
    monkeypatch.setattr(SchemaRegistry, "schema", lambda *_: '"int"')
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://127.0.0.1:1",
    }
    assert show(replace(dead, config=avro), 5, as_json=True) == 0
    assert [json.loads(line)["value"] for line in capsys.readouterr().out.splitlines()] == ["1", "no avro"]
    assert show(replace(dead, config={"value.converter": "no.such.Converter"}), 5, as_json=True) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["value"] == "no avro"
