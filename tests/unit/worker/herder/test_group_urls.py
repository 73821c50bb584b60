"""The URLs of a group's other workers, as the brokers tell them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.worker.errors import ConnectError
from headrace.worker.group.protocol import Subscription
from headrace.worker.herder import group_urls
from headrace.worker.herder.group_urls import GroupUrls
from headrace.worker.kafka.consumer_groups import Member

OWN, JAVA = "http://own:1/", "https://java:2/"


def member(url: str) -> Member:
    return Member("a client", Subscription(url, 7).encode())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The answers of the brokers, one after the other."""
    told: list[Any] = []

    def members(*_: Any) -> list[Member]:
        answer = told.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [*answer]

    monkeypatch.setattr(group_urls, "members", members)
    monkeypatch.setattr(group_urls, "admin_client", lambda _: None)
    monkeypatch.setattr(group_urls.clients, "internal_admin", lambda _: SimpleNamespace(librdkafka=dict))
    return told


@pytest.fixture
def urls() -> GroupUrls:
    config: Any = {"group.id": "g"}
    return GroupUrls(config, OWN)


def pass_time(monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.monotonic() + 60
    monkeypatch.setattr(group_urls, "time", SimpleNamespace(monotonic=lambda: later))


def test_they_are_asked_for_at_most_every_ten_seconds(
    answers: list[Any], urls: GroupUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers += [[member(JAVA), member(OWN)], [member(OWN)]]
    assert urls.others() == urls.others() == [JAVA]
    pass_time(monkeypatch)
    assert urls.others() == []


def test_while_the_group_rebalances_those_known_last_hold(
    answers: list[Any], urls: GroupUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers += [[member(JAVA), member(OWN)], [Member("a client", b""), member(OWN)]]
    urls.others()
    pass_time(monkeypatch)
    assert urls.others() == [JAVA]


def test_while_kafka_is_away_nobody_waits_for_it_again_and_again(
    answers: list[Any], urls: GroupUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers += [ConnectError("away"), [member(JAVA)]]
    for _ in range(3):
        with pytest.raises(ConnectError, match="away"):
            urls.others()
    pass_time(monkeypatch)
    assert urls.others() == [JAVA]


def test_a_member_that_is_no_worker_is_told(answers: list[Any], urls: GroupUrls) -> None:
    answers += [[Member("a consumer", b"\x00")]]
    with pytest.raises(ConnectError, match="no worker"):
        urls.others()
