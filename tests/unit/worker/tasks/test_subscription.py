"""The topics that `topics.regex` stands for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.config.problems import ConfigError
from headrace.config.worker.internal_topics import InternalTopics
from headrace.worker.tasks import subscription
from headrace.worker.tasks.subscription import TopicSubscription


class Client:
    """A consumer that keeps what it was subscribed to; `topics` are there, None: no broker answers."""

    def __init__(self, *topics: str) -> None:
        self.topics: tuple[str, ...] | None = topics
        self.subscribed: list[list[str]] = []
        self.asked = 0

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        if self.topics is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def subscribe(self, topics: list[str], on_assign: Any) -> None:
        assert on_assign is ask
        self.subscribed.append(topics)

    def unsubscribe(self) -> None:
        self.subscribed.append([])


def ask() -> None:
    """A callback."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(subscription, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_named_topics_are_read_without_asking() -> None:
    made, client = TopicSubscription(["b", "a"], "", 300), Client()
    made.renew(client, on_assign=ask)
    assert (client.subscribed, client.asked) == ([["a", "b"]], 0)


@pytest.mark.parametrize("regex", ["orders-(eu|us)", r"orders-(?:eu|us)", r"orders-\w+", "(?!.*dlq).*-[eu][us]"])
def test_the_whole_name_has_to_match_as_in_java(regex: str) -> None:
    made = TopicSubscription(["retry"], regex, 300)
    client = Client("orders-eu", "orders-us", "orders-eu-dlq", "my-orders-eu-old", "orders")
    made.renew(client, on_assign=ask)
    assert client.subscribed == [["orders-eu", "orders-us", "retry"]]


def test_the_brokers_own_topics_are_nobodys() -> None:
    client = Client("__consumer_offsets", "__transaction_state", "__mine")
    TopicSubscription([], ".*", 300).renew(client, on_assign=ask)
    assert client.subscribed == [["__mine"]]


def test_closed_topics_match_nothing_and_it_is_said_once(caplog: pytest.LogCaptureFixture, clock: list[float]) -> None:
    client = Client("configs", "orders", "mm2-configs.A.internal")
    closed = InternalTopics(frozenset({"configs"}), of_mirrors=True)
    made = TopicSubscription([], ".*", 300, closed)
    for _ in range(2):
        made.renew(client, on_assign=ask)
        clock[0] += 300
    assert client.subscribed == [["orders"]]
    said = "Internal topics that match topics.regex=.* are left out: configs, mm2-configs.A.internal"
    assert [one for one in caplog.messages if "left out" in one] == [said]


def test_topics_that_come_and_go_are_noticed_in_time(clock: list[float]) -> None:
    made, client = TopicSubscription([], "a.*", 300), Client()
    made.renew(client, on_assign=ask)
    client.topics = None
    clock[0] += 5
    made.renew(client, on_assign=ask)
    assert client.subscribed == []
    client.topics = ("a1", "b")
    clock[0] += 5
    made.renew(client, on_assign=ask)
    client.topics = ("a1", "a2")
    for later in (299, 1, 300):
        clock[0] += later
        made.renew(client, on_assign=ask)
    assert (client.subscribed, client.asked) == ([["a1"], ["a1", "a2"]], 5)
    client.topics = ()
    clock[0] += 300
    made.renew(client, on_assign=ask)
    assert client.subscribed[2:] == [[]]


def test_a_regex_that_is_refused_fails_the_task_with_the_reason() -> None:
    made = TopicSubscription([], "((a{900}){900})", 300)
    with pytest.raises(ConfigError, match=r"topics\.regex.* repetitions come to more than 10000"):
        made.renew(Client("a"), on_assign=ask)


def test_its_signature_changes_with_what_it_reads() -> None:
    def signature(topics: list[str], regex: str = "", **there: int) -> str:
        found = {topic: SimpleNamespace(partitions=dict.fromkeys(range(count))) for topic, count in there.items()}
        client = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=found))
        return TopicSubscription(topics, regex, 300).signature(client)

    assert signature(["a", "b"], a=1, b=2, c=3) == signature(["b", "a"], b=2, a=1)
    assert signature([], "a.*", a1=1, b=1) == signature([], "a.*", a1=1)
    assert signature([], ".*", a=1) == signature([], ".*", a=1, __consumer_offsets=50)
    named = [signature(["a"], a=1), signature(["a", "b"], a=1), signature(["a", "b"], a=1, b=1), signature(["a"], a=2)]
    matched = [signature([], "a.*", a1=1), signature([], "a.*", a1=1, a2=1), signature([], "a.*", a1=2)]
    assert len({*named, *matched}) == 7
