"""Where a sink's consumer goes on after rests, seeks that fail and partitions that went and came back."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

from headrace.plugins.contracts import TopicPartition
from headrace.worker import sink_consumer
from headrace.worker.positions import Positions
from headrace.worker.sink_consumer import SinkConsumer
from headrace.worker.subscription import Subscription

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Message:
    """A record of t-0, or its end."""

    def __init__(self, offset: int, end: bool = False) -> None:
        self.offset = lambda: offset
        self.topic, self.partition = (lambda: "t"), (lambda: 0)
        self.error = lambda: KafkaError(KafkaError._PARTITION_EOF) if end else None


class Client:
    """Gives what `script` holds; whatever in it can be called happens first."""

    def __init__(self, _config: Any, logger: Any) -> None:
        self.script: list[Message | Callable[[], None]] = []
        self.assigned: dict[tuple[str, int], int] = {}
        self.paused: set[int] = set()
        self.seeks_fail = False

    def subscribe(self, _topics: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.on_assign, self.on_lost = on_assign, on_lost

    def comes(self, *numbers: int) -> None:
        self.on_assign(self, [Position("t", number) for number in numbers])

    def goes(self, *numbers: int) -> None:
        self.on_lost(self, [Position("t", number) for number in numbers])

    def poll(self, _seconds: float) -> Message | None:
        while self.script:
            step = self.script.pop(0)
            if isinstance(step, Message):
                return step
            step()
        return None

    def consume(self, _most: int, _seconds: float) -> list[Message]:
        return [message for message in iter(lambda: self.poll(0), None) if message is not None]

    def committed(self, positions: list[Any], timeout: float) -> list[Any]:
        return [Position(p.topic, p.partition, 10) for p in positions]

    def assign(self, positions: list[Any]) -> None:
        self.assigned = {(p.topic, p.partition): p.offset for p in positions}
        self.paused.clear()

    def pause(self, positions: list[Any]) -> None:
        self.paused |= {p.partition for p in positions}

    def resume(self, positions: list[Any]) -> None:
        self.paused -= {p.partition for p in positions}

    def seek(self, position: Any) -> None:
        if self.seeks_fail:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.assigned[position.topic, position.partition] = position.offset


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sink_consumer, "Consumer", Client)
        self.ended: list[bool] = []
        """For each end of a batch, whether its partitions were lost."""
        self.remade: set[str] = set()
        owner: Any = SimpleNamespace(
            open=lambda _: {},
            close=lambda _: None,
            end_batch=lambda lost: self.ended.append(lost),
            stopping=False,
            abandoned=False,
        )
        generations: Any = SimpleNamespace(remade=lambda topics: self.remade & set(topics))
        self.positions = Positions("earliest")
        self.consumer = SinkConsumer({}, Subscription(["t"], "", 300), generations, self.positions, owner)
        self.client: Client = self.consumer._client
        self.client.script = [lambda: self.client.comes(0, 1)]
        assert self.fetch() == []
        assert self.client.assigned == {P0: 10, P1: 10}

    def fetch(self, *script: Message | Callable[[], None]) -> list[int]:
        self.client.script += script
        return [message.offset() for message in self.consumer.fetch(0, 100)]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


@pytest.mark.parametrize("seeks_fail", [False, True])
def test_each_partition_rests_where_the_task_has_come_to(rig: Rig, seeks_fail: bool) -> None:
    rig.client.seeks_fail = seeks_fail
    rig.positions.go_on({P0: 12, P1: 15})
    for partition in (P0, P1):
        rig.consumer.rest(partition, time.monotonic() + 60)
    assert rig.client.assigned == {P0: 12, P1: 15}
    assert rig.client.paused == {0, 1}
    assert 50 < (rig.consumer.wake() or 0) <= 60
    rig.consumer.rest(P1, 0)
    assert rig.consumer.wake() is not None
    assert rig.client.paused == {0}


def test_the_end_of_a_partition_that_went_is_forgotten(rig: Rig) -> None:
    assert rig.fetch(Message(10), Message(20, end=True)) == [10]
    rig.client.script = [lambda: rig.client.goes(0, 1), lambda: rig.client.comes(0, 1)]
    rig.consumer.stay(0)
    assert rig.consumer.kept == set()
    rig.consumer.pass_ends()
    assert rig.positions.next(P0) == 10
    assert rig.fetch(Message(10)) == [10]
    assert rig.consumer.kept == {P0, P1}


def test_what_comes_while_partitions_go_is_read_anew(rig: Rig) -> None:
    back = (lambda: rig.client.goes(0, 1)), (lambda: rig.client.comes(0, 1))
    assert rig.fetch(Message(10), *back, Message(11), Message(12, end=True)) == []
    assert rig.client.assigned == {P0: 10, P1: 10}
    rig.consumer.pass_ends()
    assert rig.positions.next(P0) == 10


def test_what_runs_on_a_topic_that_was_made_again_counts_no_more(rig: Rig) -> None:
    rig.positions.go_on({P0: 12, P1: 15})
    assert not rig.consumer.restart_remade({"t"})
    assert rig.ended == []
    rig.remade = {"t"}
    assert rig.consumer.restart_remade({"t"})
    assert rig.ended == [True]
    assert rig.positions.next(P0) is None
