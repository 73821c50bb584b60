"""`ConfigTopic` over a real broker: what it writes, byte for byte, and what others then know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.errors import ConnectError, NotFound, TooLarge
from headrace.worker.model import TargetState, TaskId
from headrace.worker.requester import Requester, asked_by
from headrace.worker.storage import config_topic
from headrace.worker.storage.cluster_config import (
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    LevelChanged,
    RestartAsked,
    TargetChanged,
    TasksChanged,
)
from headrace.worker.storage.compacted_topic import CompactedTopic, TopicRecord, TopicSettings
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.history_topic import HistoryTopic
from headrace.worker.storage.signing import SessionKey
from tests.integration.test_compacted_topic import worker
from tests.integration.worker_process import eventually

_numbers = count()
Open = Callable[[], ConfigTopic]


@pytest.fixture
def name() -> str:
    return f"configs-{next(_numbers)}"


@pytest.fixture
def open_topic(broker: str, name: str) -> Iterator[Open]:
    opened: list[ConfigTopic] = []

    def open_() -> ConfigTopic:
        topic = ConfigTopic(worker(broker, name))
        opened.append(topic)
        topic.start(60)
        return topic

    yield open_
    for topic in opened:
        topic.stop()


@pytest.fixture
def written(broker: str, name: str) -> Iterator[Callable[[], list[tuple[str, str | None]]]]:
    """All that was written since it was asked last."""
    records: list[TopicRecord] = []
    raw = CompactedTopic(TopicSettings.of(worker(broker, name), "config"), records.append)
    raw.start(60)

    def since() -> list[tuple[str, str | None]]:
        raw.read_to_end(30)
        new = [((r.key or b"").decode(), None if r.value is None else r.value.decode()) for r in records]
        records.clear()
        return new

    yield since
    raw.stop()


def test_the_bytes_are_apaches(open_topic: Open, written: Callable[[], list[tuple[str, str | None]]]) -> None:
    topic = open_topic()
    topic.put_connector("c", {"connector.class": 'Say "x"/\n\x01é😀', "name": "c", "none": None}, TargetState.STARTED)
    assert written() == [
        (
            "connector-c",
            '{"properties":{"connector.class":"Say \\"x\\"/\\n\\u0001é\\uD83D\\uDE00","name":"c","none":null}}',
        )
    ]
    topic.put_connector("p", {"name": "p"}, TargetState.STOPPED)
    assert written() == [
        ("target-state-p", '{"state":"PAUSED","state.v2":"STOPPED"}'),
        ("connector-p", '{"properties":{"name":"p"}}'),
    ]
    topic.put_tasks("c", [{"task.class": "T"}, {"a": "1", "task.class": "T"}])
    assert written() == [
        ("task-c-0", '{"properties":{"task.class":"T"}}'),
        ("task-c-1", '{"properties":{"a":"1","task.class":"T"}}'),
        ("commit-c", '{"tasks":2}'),
    ]
    topic.put_tasks("p", [])
    topic.put_target("c", TargetState.PAUSED)
    topic.put_restart("c", True, False)
    topic.put_session_key(SessionKey(bytes(range(32)), "HmacSHA256", 1700000000000))
    topic.put_level("org.apache", "DEBUG")
    topic.remove_connector("c")
    assert written() == [
        ("commit-p", '{"tasks":0}'),
        ("target-state-c", '{"state":"PAUSED","state.v2":"PAUSED"}'),
        ("restart-connector-c", '{"include-tasks":true,"only-failed":false}'),
        (
            "session-key",
            '{"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","algorithm":"HmacSHA256",'
            '"creation-timestamp":1700000000000}',
        ),
        ("logger-cluster-org.apache", '{"level":"DEBUG"}'),
        ("connector-c", None),
        ("commit-c", None),
        ("target-state-c", None),
    ]


def test_what_one_worker_writes_all_know(open_topic: Open) -> None:
    leader, follower = open_topic(), open_topic()
    heard: list[tuple[Event, int]] = []
    follower.follow(lambda event, offset: heard.append((event, offset)))
    leader.put_connector("c", {"name": "c"}, TargetState.STARTED)
    leader.put_tasks("c", [{"n": "0"}])
    assert leader.snapshot().tasks("c") == (TaskId("c", 0),)
    follower.put_target("c", TargetState.PAUSED)
    leader.put_restart("c", True, True)
    follower.put_level("x", "TRACE")
    assert follower.refresh(60) == leader.refresh(60)
    leader.remove_connector("c")
    assert leader.snapshot().connectors == follower.refresh(60).connectors == {}
    assert heard == [
        (ConnectorChanged("c"), 1),
        (TasksChanged("c", (TaskId("c", 0),)), 3),
        (TargetChanged("c"), 4),
        (RestartAsked("c", True, True), 5),
        (LevelChanged("x", "TRACE"), 6),
        (ConnectorRemoved("c"), 7),
    ]
    late = open_topic()
    assert late.snapshot() == leader.snapshot()


def test_tasks_that_go_on_are_published_behind_their_connector(
    open_topic: Open, written: Callable[[], list[tuple[str, str | None]]]
) -> None:
    topic = open_topic()
    topic.put_connector("c", {"v": "1"})
    topic.put_tasks("c", [{"n": "0"}])
    written()

    def keys() -> list[str]:
        return [key for key, _ in written()]

    topic.put_connector("c", {"v": "1"})
    assert keys() == ["connector-c", "task-c-0", "commit-c"]
    topic.put_connector("c", {"v": "2"})
    assert keys() == ["connector-c"], "it runs, so that it publishes its tasks itself"
    assert topic.snapshot().applied["c"] == {"v": "1"}
    topic.put_target("c", TargetState.PAUSED)
    topic.put_connector("c", {"v": "3"})
    assert keys() == ["target-state-c", "connector-c", "task-c-0", "commit-c"]


def test_a_connector_that_is_gone_gets_no_tasks(
    open_topic: Open, written: Callable[[], list[tuple[str, str | None]]]
) -> None:
    topic = open_topic()
    with pytest.raises(NotFound, match="Connector gone not found"):
        topic.put_tasks("gone", [{}])
    assert written() == []


def test_what_cannot_be_written_is_said_as_apache_does(
    broker_process: Broker, open_topic: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = open_topic()
    topic.put_connector("c", {"name": "c"})
    monkeypatch.setattr(config_topic, "WRITE_SECONDS", 0.3)
    broker_process.stop()
    writes: list[tuple[Callable[[], None], str]] = [
        (lambda: topic.put_connector("d", {}), "Error writing connector configuration to Kafka"),
        (lambda: topic.remove_connector("c"), "Error removing connector configuration from Kafka"),
        (lambda: topic.put_tasks("c", [{}]), "Error writing task configurations to Kafka"),
        (lambda: topic.put_target("c", TargetState.PAUSED), "Error writing target state to Kafka"),
        (
            lambda: topic.put_restart("c", False, True),
            "Error writing restart request for {connectorName='c', onlyFailed=true, includeTasks=false} to Kafka",
        ),
        (lambda: topic.put_session_key(SessionKey.generate()), "Error writing session key to Kafka"),
        (lambda: topic.put_level("x", "INFO"), "Error writing logger level to Kafka"),
    ]
    for write, text in writes:
        with pytest.raises(ConnectError, match=f"^{re.escape(text)}$") as failed:
            write()
        assert failed.value.status == 500
    assert topic.snapshot().connectors == {"c": {"name": "c"}}
    broker_process.start()


def test_a_config_that_kafka_does_not_take_is_refused_as_too_large(open_topic: Open) -> None:
    topic = open_topic()
    with pytest.raises(
        TooLarge, match=r"larger than the topic configs-\d+-config takes.*max\.message\.bytes"
    ) as refused:
        topic.put_connector("c", {"name": "c", "x": "y" * (2 << 20)}, TargetState.STARTED)
    assert refused.value.status == 413
    topic.put_connector("c", {"name": "c"}, TargetState.STARTED)
    assert topic.snapshot().connectors["c"] == {"name": "c"}


@pytest.mark.parametrize("support", ["disabled", "preparing"])
def test_the_history_has_who_asked_however_the_leader_writes(broker: str, name: str, support: str) -> None:
    settings = {
        "config.history.topic": f"{name}-history",
        "config.history.replication.factor": "1",
        "exactly.once.source.support": support,
    }
    history = HistoryTopic(worker(broker, name, **settings), "w", others_s=(3600, 3600))
    topic = ConfigTopic(worker(broker, name, **settings), history)
    try:
        history.start(60)
        topic.start(60)
        history.begin(lambda: topic.refresh(60))
        topic.lead(True)
        with asked_by(Requester("alice", "10.0.0.1")):
            topic.put_connector("c", {"name": "c"}, TargetState.PAUSED)
            topic.put_target("c", TargetState.STARTED)
            topic.put_stopped("c")
            topic.remove_connector("c")
        expected = [(change, "alice") for change in ("config", "state", "state", "delete")]

        def shown() -> list[tuple[str, str | None]]:
            return [(one.change, one.requester and one.requester.by) for one in history.revisions("c")]

        eventually(lambda: shown() == expected, 60, lambda: str(shown()))
    finally:
        topic.stop()
        history.stop()
    again = HistoryTopic(worker(broker, name, **settings), "w")
    try:
        again.start(60)
        assert again.revisions("c") == history.revisions("c")
    finally:
        again.stop()
