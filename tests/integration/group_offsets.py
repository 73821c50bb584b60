"""Committed offsets of consumer groups, once their coordinator is ready."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException

from headrace.plugins.interop.kafka.group_offsets import GroupOffset, kept_client
from headrace.worker.kafka.consumer_groups import NO_COORDINATOR_YET
from tests.integration.worker_process import eventually


def commit(bootstrap: str, group: str, offsets: Sequence[GroupOffset]) -> None:
    """The group, which has no members, has these."""

    def done() -> bool:  # a coordinator that is not ready says so of each partition
        answer = kept_client({"bootstrap.servers": bootstrap}).commit(group, offsets).result()
        return all(one.error is None for one in answer)

    eventually(done, 60)


def committed(bootstrap: str, group: str) -> list[GroupOffset]:
    """Return the committed offsets of the group."""
    found: list[list[GroupOffset]] = []

    def done() -> bool:
        try:
            found.append(kept_client({"bootstrap.servers": bootstrap}).committed(group).result())
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR_YET:
                raise
        return bool(found)

    eventually(done, 60)
    return found[0]
