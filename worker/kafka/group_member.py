"""Reads a consumer's place in its group from confluent-kafka's opaque metadata, and expels members.

Source: `rd_kafka_consumer_group_metadata_write` in librdkafka's rdkafka_cgrp.c.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from headrace.config.kafka.client_config import ClientConfig
from headrace.plugins.contracts import GroupMember

_BEGINS: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")


def member_of(client: Any) -> GroupMember:
    """Return this consumer's place in its group. Errors: ValueError if confluent-kafka's form of it is unknown."""
    told: bytes = client.consumer_group_metadata()
    if not told.startswith(_BEGINS):
        raise ValueError(f"confluent-kafka tells a consumer's place in its group in a form that is not known: {told!r}")
    (generation,) = _GENERATION.unpack_from(told, len(_BEGINS))
    group, member, rest = told[len(_BEGINS) + _GENERATION.size :].split(b"\0", 2)
    is_static = rest[:1] == b"\0"
    return GroupMember(group.decode(), generation, member.decode(), rest[1:-1].decode() if is_static else None)


def expel(admin: ClientConfig, member: GroupMember) -> None:
    """Remove a consumer with a hanging thread from its group, so that others get its partitions at once.

    Its client goes on sending heartbeats until `max.poll.interval.ms` is over, and the others would wait for it.
    A member that has come back under the same `group.instance.id` stays. Errors: KafkaError; ConfigError.
    """
    # kafka-python takes half a second to import; a standalone worker needs it only here.
    from kafka.admin import KafkaAdminClient, MemberToRemove

    from headrace.plugins.interop.kafka.tokens import kafka_python

    if not member.member:
        return
    client = KafkaAdminClient(**kafka_python(admin))
    try:
        who = MemberToRemove(member.member, member.instance, "its task was abandoned")
        client.remove_group_members(member.group, [who])
    finally:
        client.close()
