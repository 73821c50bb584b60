"""A source's topics against an admin client that plays."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.config.connector.topic_creation import TopicCreation
from headrace.config.kafka.client_failures import ClientFailures
from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.contracts import LoginRefused, RetriableError
from headrace.plugins.errors import StoppedError
from headrace.plugins.interop.kafka.admin_clients import KeptClient
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka import topic_creation
from headrace.worker.kafka.source_topics import SourceTopics
from headrace.worker.kafka.topic_creation import TopicError
from headrace.worker.kafka.writer import ProduceError, TopicMissing

CREATION = {
    "topic.creation.groups": "logs",
    "topic.creation.logs.include": "log-.*",
    "topic.creation.logs.cleanup.policy": "delete",
    "topic.creation.default.partitions": "-1",
    "topic.creation.default.replication.factor": "1",
}


def answered(code: int | None) -> Future[Any]:
    future: Future[Any] = Future()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


class Cluster:
    """The topics that are there, and with what code requests end."""

    def __init__(self, *there: str, describe: int | None = None, create: int | None = None) -> None:
        self.there = set(there)
        self.made: list[Any] = []
        self.asked: list[str] = []
        self.silent = self._began = False
        self.failures = ClientFailures()
        self.hears: list[KafkaError] = []
        self._describe, self._create = describe, create

    def poll(self, _: float) -> None:
        """Tell what it has heard of its connections."""
        while self._began and self.hears:
            self.failures(self.hears.pop())

    def describe_topics(self, wanted: Any, **_: Any) -> dict[str, Future[Any]]:
        (name,) = wanted.topic_names
        self.asked.append(name)
        self._began = True
        if self.silent:
            return {name: Future()}
        missing = None if name in self.there else KafkaError.UNKNOWN_TOPIC_OR_PART
        return {name: answered(self._describe or missing)}

    def create_topics(self, wanted: list[Any], **_: Any) -> dict[str, Future[Any]]:
        (topic,) = wanted
        if self._create is None:
            self.made.append(topic)
            self.there.add(topic.topic)
        return {topic.topic: answered(self._create)}


@pytest.fixture
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    played = Cluster(*getattr(request, "param", ()))
    monkeypatch.setattr(topic_creation, "kept_client", lambda *_, **__: KeptClient(played, played.failures))
    return played


def source_topics(config: dict[str, str] = CREATION, stop: bool = False) -> SourceTopics:
    token = StopToken()
    if stop:
        token.set()
    return SourceTopics(TopicCreation.of(config), {}, token, InternalTopics(frozenset({"configs"})))


def test_without_settings_nothing_is_asked_nor_made(cluster: Cluster) -> None:
    made = source_topics({})
    assert made.ensure({"t"})
    assert made.known is None
    assert cluster.asked == []


@pytest.mark.parametrize("config", [{}, CREATION])
def test_a_closed_topic_is_refused_before_anything_is_made(cluster: Cluster, config: dict[str, str]) -> None:
    with pytest.raises(ProduceError, match="configs is an internal topic"):
        source_topics(config).ensure({"t", "configs"})
    assert cluster.asked == []


def test_a_missing_topic_is_made_as_its_group_says_and_asked_for_once(cluster: Cluster) -> None:
    made = source_topics()
    assert made.known == frozenset()
    for wanted in ({"log-1"}, {"log-1", "t"}, {"t"}):
        assert made.ensure(wanted)
    assert cluster.asked == ["log-1", "t"]
    assert [(t.topic, t.num_partitions, t.replication_factor, t.config) for t in cluster.made] == [
        ("log-1", -1, 1, {"cleanup.policy": "delete"}),
        ("t", -1, 1, {}),
    ]
    assert made.known == {"log-1", "t"}


def test_a_topic_that_is_gone_is_made_anew(cluster: Cluster) -> None:
    made = source_topics()
    made.ensure({"t"})
    cluster.there.clear()
    missing = TopicMissing("t is not there", {"t"})
    assert made.missed(missing) is missing
    made.ensure({"t"})
    assert [topic.topic for topic in cluster.made] == ["t", "t"]


def test_without_settings_a_topic_that_was_there_may_come_back() -> None:
    made, missing = source_topics({}), TopicMissing("t is not there", {"t", "other"})
    made.written({"t"})
    assert isinstance(made.missed(missing), ProduceError)
    made.written({"other"})
    assert made.missed(missing) is missing


@pytest.mark.parametrize("name", ["order lines", "größe", "", "..", "x" * 250])
def test_a_topic_whose_name_is_not_allowed_is_told_with_the_remedy(name: str, cluster: Cluster) -> None:
    with pytest.raises(TopicError, match=r"Kafka allows no topic '.*RegexRouter"):
        source_topics().ensure({"t", name})
    assert cluster.asked == []


def test_a_refused_login_is_told_apart_from_a_broker_that_is_away(cluster: Cluster) -> None:
    cluster._describe = KafkaError._TIMED_OUT
    cluster.hears = [KafkaError(KafkaError._AUTHENTICATION, "wrong password")]
    with pytest.raises(LoginRefused, match=r"refuses the login \(wrong password\); look at .*sasl\.jaas\.config"):
        source_topics().ensure({"t"})
    with pytest.raises(RetriableError, match="topic t could not be"):
        source_topics().ensure({"t"})


@pytest.mark.parametrize("cluster", [["t"]], indirect=True)
def test_a_topic_that_is_there_stays_as_it_is(cluster: Cluster) -> None:
    assert source_topics().ensure({"t"})
    assert cluster.made == []


def test_another_worker_may_have_been_faster(cluster: Cluster) -> None:
    cluster._create = KafkaError.TOPIC_ALREADY_EXISTS
    made = source_topics()
    assert made.ensure({"t"})
    assert made.known == {"t"}


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_CONTROLLER])
@pytest.mark.parametrize("request_", ["_describe", "_create"])
def test_what_may_pass_is_tried_again(code: int, request_: str, cluster: Cluster) -> None:
    setattr(cluster, request_, code)
    made = source_topics()
    with pytest.raises(RetriableError, match="topic t could not be"):
        made.ensure({"t"})
    setattr(cluster, request_, None)
    assert made.ensure({"t"})
    assert cluster.there == {"t"}


@pytest.mark.parametrize(
    "code",
    [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION],
)
def test_a_topic_that_can_neither_be_found_nor_made_fails_the_task_and_says_so(code: int, cluster: Cluster) -> None:
    cluster._create = code
    with pytest.raises(TopicError, match=r"topic log-1 could not be created as topic\.creation\.logs says: .*restart"):
        source_topics().ensure({"log-1"})


def test_who_may_not_see_a_topic_may_still_make_it(cluster: Cluster) -> None:
    cluster._describe = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert source_topics().ensure({"t"})
    assert cluster.there == {"t"}


def test_who_is_asked_to_stop_waits_for_no_answer(cluster: Cluster) -> None:
    cluster.silent = True
    with pytest.raises(StoppedError):
        source_topics(stop=True).ensure({"t"})
