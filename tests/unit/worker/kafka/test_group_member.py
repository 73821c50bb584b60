"""A consumer's place in its group as confluent-kafka hands it out, by its own clients."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer

from headrace.plugins.contracts import GroupMember
from headrace.worker.kafka.group_member import member_of

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


@pytest.mark.parametrize(
    ("config", "instance"), [({}, None), ({"group.instance.id": "task-0"}, "task-0"), ({"group.instance.id": "ü"}, "ü")]
)
def test_a_consumer_without_a_group_yet_has_no_generation(config: dict[str, str], instance: str | None) -> None:
    client = Consumer({**NOWHERE, "group.id": "connect-grün", **config})
    try:
        assert member_of(client) == GroupMember("connect-grün", -1, "", instance)
    finally:
        client.close()


def test_a_member_has_its_generation() -> None:
    told = b"CGMDv2:" + (7).to_bytes(4, "little") + b"g\0member-1\0\x01"
    assert member_of(SimpleNamespace(consumer_group_metadata=lambda: told)) == GroupMember("g", 7, "member-1", None)


def test_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="in a form that is not known: b'CGMDv3"):
        member_of(SimpleNamespace(consumer_group_metadata=lambda: b"CGMDv3:"))
