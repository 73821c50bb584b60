"""Consumer group of a sink connector: reads, alters and deletes its committed offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.config.connector import clients
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.interop.kafka.group_offsets import Answer, GroupOffset, kept_client, without_errors
from headrace.plugins.offsets import TopicPartition
from headrace.worker.errors import ConnectError
from headrace.worker.kafka.errors import is_retriable

_TIMEOUT_S: Final = 30.0

_LEAST_S: Final = 1.0
_PAUSE_S: Final = 0.1
NO_COORDINATOR_YET: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""Codes while a broker takes over a group: at the start of a cluster, or after a broker has gone."""
_MEMBERS_LEFT: Final = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    KafkaError.NON_EMPTY_GROUP,
)
"""Codes while the group has members."""


class SinkGroup:
    """The consumer group of a sink connector; obeys `consumer.override.group.id`."""

    def __init__(self, config: WorkerConfig, connector: Mapping[str, str]) -> None:
        self._connector = connector["name"]
        self._admin = clients.admin(config, connector).librdkafka()
        self._offsets = kept_client(self._admin)
        self.id: str = clients.sink_consumer(config, connector, 0)["group.id"]

    def offsets(self, failure: str = "Failed to retrieve consumer group offsets for connector") -> dict[Any, int]:
        """Return each partition's committed offset; empty for an unknown group.

        Shape: by `plugins.contracts.TopicPartition`.
        Errors: ConnectError that begins with `failure`.
        """
        try:
            found = _answered(partial(self._offsets.committed, self.id))
        except KafkaException as error:
            raise ConnectError(f"{failure} {self._connector}: {error.args[0].str()}") from error
        return {TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def offsets_at(self, at_ms: int) -> dict[Any, int]:
        """Return, for each partition with a committed offset, the offset of the first record since an instant.

        It is the partition's end if there is no such record. Shape: as `offsets`. Errors: ConnectError.
        """
        partitions = self.offsets()
        found = self._listed(partitions, OffsetSpec.for_timestamp(at_ms))
        none = [at for at, offset in found.items() if offset < 0]
        latest: Any = OffsetSpec  # its methods have no types
        return found | self._listed(none, latest.latest())

    def _listed(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[Any, int]:
        asked = {KafkaPartition(at.topic, at.partition): spec for at in partitions}
        if not asked:
            return {}
        try:
            answers = admin_client(self._admin).list_offsets(asked, request_timeout=_TIMEOUT_S)
            return {TopicPartition(at.topic, at.partition): one.result().offset for at, one in answers.items()}
        except KafkaException as error:
            failure = f"Failed to list the offsets of the topics of connector {self._connector}"
            raise ConnectError(f"{failure}: {error.args[0].str()}") from error

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the group's offsets; None removes a partition's. Errors: ConnectError; some may be altered by then."""
        moved = [GroupOffset(*partition, to) for partition, to in offsets.items() if to is not None]
        removed = [GroupOffset(*partition) for partition, to in offsets.items() if to is None]
        for change, these in ((self._offsets.commit, moved), (self._offsets.forget, removed)):
            if these:
                attempt = partial(_answered, partial(change, self.id, these))
                self._attempt("alter", "consumer group offsets for connector", attempt)

    def delete(self) -> None:
        """Delete the group. Errors: ConnectError."""
        attempt = partial(_answered, partial(self._offsets.delete, self.id))
        self._attempt("reset", "consumer group offsets for sink connector", attempt)

    def _attempt(self, verb: str, what: str, change: Callable[[], object]) -> None:
        try:
            change()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return
            if code in _MEMBERS_LEFT:
                raise ConnectError(
                    f"Failed to {verb} consumer group offsets for connector {self._connector} either because its tasks "
                    "haven't stopped completely yet or the connector was resumed before the request to "
                    f"{verb} its offsets could be successfully completed. If the connector is in a stopped state, this "
                    "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster may need "
                    "to be restarted to get rid of the zombie sink tasks."
                ) from error
            raise ConnectError(f"Failed to {verb} {what} {self._connector}: {error.args[0].str()}") from error


class Member(NamedTuple):
    """A member of a group of any protocol."""

    name: str
    """Its client id and host."""
    subscription: bytes
    """The message that it joined with; empty while the group rebalances."""


def members(admin: AdminClient, group: str, timeout_s: float = _TIMEOUT_S) -> list[Member]:
    """List a group's members; empty for an unknown group. Errors: ConnectError."""
    try:
        found = admin.list_groups(group, timeout_s)
    except KafkaException as error:
        raise ConnectError(f"The members of group {group} cannot be listed: {error.args[0].str()}") from error
    return [
        Member(f"{member.client_id} at {member.client_host}", member.metadata or b"")
        for one in found
        for member in one.members
    ]


def stable_offsets(admin: Mapping[str, Any], group: str, partitions: Sequence[KafkaPartition]) -> Sequence[GroupOffset]:
    """Return the group's committed offsets of these partitions; -1001 for none.

    confluent-kafka's consumer returns what was committed before an open transaction unless it reads committed records
    only; Java's waits for the transaction's end.
    Errors: RetriableError, also while a transaction is open; KafkaException.
    """
    if not partitions:
        return []
    asked = [GroupOffset(partition.topic, partition.partition) for partition in partitions]
    try:
        answer = kept_client(admin).committed(group, asked, stable=True, timeout_s=_TIMEOUT_S)
        return without_errors(answer.result())
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise RetriableError(f"a transaction that commits offsets of {group} is open") from error
        if is_retriable(error):
            raise RetriableError(f"Kafka cannot tell the offsets of {group}: {error.args[0].str()}") from error
        raise


def _answered(request: Callable[..., Answer]) -> Sequence[GroupOffset]:
    """Request offsets of one group; repeats the request while a broker takes over the group.

    Errors: KafkaException, also a single partition's.
    """
    until = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return without_errors(request(timeout_s=max(_LEAST_S, until - time.monotonic())).result())
        except KafkaException as raised:
            if raised.args[0].code() not in NO_COORDINATOR_YET or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE_S)
