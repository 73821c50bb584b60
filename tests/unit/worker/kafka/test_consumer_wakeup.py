"""A thread that waits for a consumer wakes when there is something for it, and when it is told to."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.plugins.interop.kafka import librdkafka_internals
from headrace.worker.kafka.consumer_wakeup import ConsumerWakeup
from tests.mock_cluster import MockCluster

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the client waits itself")

SECONDS: Final = 120
SOON_S: Final = 60.0
"""Less than the waits of these tests, and far more than a wake-up takes."""


class Rig:
    """A consumer of an empty topic on a broker of its own, whose first events have been taken."""

    def __init__(self) -> None:
        self._cluster = MockCluster()
        servers = self._cluster.bootstrap
        config = {"bootstrap.servers": servers, "group.id": "g", "fetch.wait.max.ms": 10}
        self.client = Consumer(config, logger=logging.getLogger("tests.consumer_news"))
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.send(b"first")
        self.client.assign([TopicPartition("t", 0, 0)])
        news = ConsumerWakeup.of(self.client)
        assert news is not None, "confluent-kafka's consumer is another one than is known"
        self.news = news

    def send(self, value: bytes) -> None:
        self._producer.produce("t", value, partition=0)
        assert self._producer.flush(SECONDS) == 0

    def next(self) -> Any:
        """The next message, waited for as a sink waits."""
        until = time.monotonic() + SECONDS
        while (message := self.client.poll(0)) is None:
            left = until - time.monotonic()
            assert left > 0, "no message came"
            self.news.wait(left)
        assert message.error() is None, message.error()
        return message.value()

    def wait_woken(self) -> None:
        """Return once `wake` has ended a wait; what the broker says besides, which is no message, may come before."""
        while self.news.wait(2 * SOON_S):
            assert self.client.poll(0) is None


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.news.close()
    rig.client.close()


def test_each_message_ends_the_wait(rig: Rig) -> None:
    assert rig.next() == b"first"
    for number in range(3):
        sends = threading.Timer(0.1, rig.send, [b"%d" % number])
        began = time.monotonic()
        sends.start()
        assert rig.next() == b"%d" % number
        assert time.monotonic() - began < SOON_S
        sends.join()


def test_nothing_new_is_waited_for_as_long_as_was_asked(rig: Rig) -> None:
    assert rig.next() == b"first"
    began = time.monotonic()
    while time.monotonic() - began < 0.2:  # what the broker says besides may come meanwhile
        assert rig.client.poll(0) is None
        rig.news.wait(began + 0.2 - time.monotonic())


def test_a_wait_is_ended_by_others_also_before_it_begins(rig: Rig) -> None:
    assert rig.next() == b"first"
    threading.Timer(0.1, rig.news.wake).start()
    began = time.monotonic()
    rig.wait_woken()
    rig.news.wake()
    rig.wait_woken()
    assert time.monotonic() - began < SOON_S
    rig.send(b"second")
    assert rig.news.wait(SECONDS)


def test_a_consumer_that_was_let_go_is_left_alone(rig: Rig) -> None:
    rig.news.close()
    rig.send(b"second")
    rig.news.wake()
    rig.news.close()
    assert rig.client.poll(SECONDS).value() == b"first"
    assert rig.client.poll(SECONDS).value() == b"second"


def test_what_is_no_known_consumer_waits_itself(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ConsumerWakeup.of(object()) is None
    monkeypatch.setattr(librdkafka_internals, "_BYTES", 168)
    assert ConsumerWakeup.of(rig.client) is None
