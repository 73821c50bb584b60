"""A group's offsets are asked for again while its coordinator changes; a plain refusal is told at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.plugins.interop.kafka.group_offsets import GroupOffset
from headrace.plugins.offsets import TopicPartition
from headrace.worker.errors import ConnectError
from headrace.worker.kafka import consumer_groups
from headrace.worker.kafka.consumer_groups import SinkGroup

AT = TopicPartition("t", 0)


class Client:
    """Gives these answers, one after the other."""

    def __init__(self, *answers: KafkaError | list[GroupOffset]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Sequence[GroupOffset]]] = []
        self.committed = partial(self._ask, "committed")
        self.commit, self.forget = partial(self._ask, "commit"), partial(self._ask, "forget")
        self.delete = partial(self._ask, "delete")

    def _ask(self, what: str, group: str, offsets: Sequence[GroupOffset] = (), timeout_s: float = 0.0) -> Any:
        self.asked.append((what, offsets))
        return self

    def result(self) -> list[GroupOffset]:
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return answer


def group_of(client: Any, monkeypatch: pytest.MonkeyPatch) -> SinkGroup:
    monkeypatch.setattr(consumer_groups, "_PAUSE_S", 0.0)
    group = SinkGroup.__new__(SinkGroup)
    group._connector, group.id, group._offsets = "c", "connect-c", client
    return group


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_a_broker_that_takes_the_group_over_is_waited_for(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = KafkaError(getattr(KafkaError, code))
    group = group_of(Client(moves, moves, [GroupOffset("t", 0, 7), GroupOffset("t", 1)]), monkeypatch)
    assert group.offsets() == {AT: 7}


def test_a_broker_that_never_does_is_told_of_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_groups, "_TIMEOUT_S", 0.0)
    group = group_of(Client(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)), monkeypatch)
    with pytest.raises(ConnectError, match=r"^Failed to retrieve consumer group offsets for connector c: .*load"):
        group.offsets()


def test_what_kafka_refuses_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), [])
    with pytest.raises(ConnectError, match=r"connector c: .*[Aa]uthorization"):
        group_of(client, monkeypatch).offsets()
    assert client.answers == [[]]


def test_offsets_are_set_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = GroupOffset("t", 0, error=KafkaError(KafkaError.NOT_COORDINATOR))
    client = Client([moves], [GroupOffset("t", 0)], [GroupOffset("t", 1)])
    group_of(client, monkeypatch).alter({AT: 7, TopicPartition("t", 1): None})
    set_once = "commit", [GroupOffset("t", 0, 7)]
    assert client.asked == [set_once, set_once, ("forget", [GroupOffset("t", 1)])]


def test_offsets_of_a_group_with_members_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = GroupOffset("t", 0, error=KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    with pytest.raises(ConnectError, match=r"tasks haven't stopped completely yet"):
        group_of(Client([refused]), monkeypatch).alter({AT: 7})


def test_a_group_is_deleted_and_one_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in ([], KafkaError(KafkaError.GROUP_ID_NOT_FOUND)):
        client = Client(answer)
        group_of(client, monkeypatch).delete()
        assert [what for what, _ in client.asked] == ["delete"]
