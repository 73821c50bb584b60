"""Offsets of groups are asked for and changed by who is no member, and a broker that moves ends no process."""

from __future__ import annotations

from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.plugins.interop.kafka import group_offsets, librdkafka_internals
from headrace.plugins.interop.kafka.group_offsets import GroupOffset, GroupOffsets
from tests.mock_cluster import MockCluster

_OFFSET_FETCH: Final = 9


@pytest.fixture
def cluster() -> MockCluster:
    cluster = MockCluster(brokers=2)
    cluster.create("t", 2)
    return cluster


@pytest.fixture
def offsets(cluster: MockCluster) -> GroupOffsets:
    return GroupOffsets({"bootstrap.servers": cluster.bootstrap})


def test_what_is_committed_is_read(offsets: GroupOffsets) -> None:
    assert offsets.commit("other", [GroupOffset("t", 0, 7, "é"), GroupOffset("t", 1, 0)]).result() == [
        GroupOffset("t", 0, 7, "é"), GroupOffset("t", 1, 0)
    ]  # fmt: skip
    asked = [GroupOffset("t", 0), GroupOffset("t", 1)]
    assert offsets.committed("other", asked).result() == [GroupOffset("t", 0, 7, "é"), GroupOffset("t", 1, 0)]


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_a_group_that_moves_is_found(cluster: MockCluster, offsets: GroupOffsets, code: int) -> None:
    def asked() -> int:
        return offsets.committed("other", [GroupOffset("t", 0)], timeout_s=60).result()[0].offset

    offsets.committed("own", [GroupOffset("t", 0)]).result()  # librdkafka follows its client's own group by itself
    cluster.coordinates("other", 1)
    assert asked() < 0
    cluster.answers(1, _OFFSET_FETCH, code, times=400)
    cluster.coordinates("other", 2)
    assert asked() < 0, "the group's former broker is asked for ever"


def test_a_group_is_changed_whose_broker_does_not_know_it_yet(cluster: MockCluster, offsets: GroupOffsets) -> None:
    cluster.coordinates("other", 1)
    cluster.answers(1, _OFFSET_FETCH, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, times=3)
    changed = [GroupOffset("t", 0, 7)]
    assert offsets.commit("other", changed, timeout_s=60).result() == changed


def test_a_group_whose_broker_never_knows_it_is_told_of(cluster: MockCluster, offsets: GroupOffsets) -> None:
    cluster.coordinates("other", 1)
    cluster.answers(1, _OFFSET_FETCH, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, times=400)
    with pytest.raises(KafkaException, match=r"COORDINATOR_LOAD_IN_PROGRESS|_TIMED_OUT"):
        offsets.committed("other", [GroupOffset("t", 0)], timeout_s=1.0).result()


def test_an_answer_can_be_waited_for_in_parts() -> None:
    answer = GroupOffsets({"bootstrap.servers": "127.0.0.1:1"}).committed("other", timeout_s=1.0)
    with pytest.raises(TimeoutError):
        answer.result(0.05)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        answer.result()


def test_one_configuration_has_one_client(cluster: MockCluster) -> None:
    config = {"bootstrap.servers": cluster.bootstrap}
    kept = group_offsets.kept_client({**config, "client.id": "a"})
    assert group_offsets.kept_client({**config, "client.id": "b"}) is kept
    assert group_offsets.kept_client({**config, "client.rack": "r"}) is not kept
    assert group_offsets.kept_client(config, failures=lambda _: None) is not kept
    group_offsets.poll_clients()


def test_another_confluent_kafka_is_refused(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka_internals, "_BYTES", 168)
    with pytest.raises(ImportError, match=r"pip install 'confluent-kafka>=2.16,<2.17'"):
        GroupOffsets({"bootstrap.servers": cluster.bootstrap}).committed("g")
