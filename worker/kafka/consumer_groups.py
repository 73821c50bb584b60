"""The consumer group of a sink connector: its committed offsets, and how an operator changes them.

Decided: confluent-kafka, and kafka-python for the one request that it lacks, deleting the offset of one partition;
loses: a second connection to the cluster for as long as that request takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.config import clients
from headrace.config.worker import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.errors import ConnectError
from headrace.worker.kafka.admin import admin_client
from headrace.worker.kafka.errors import is_retriable

_TIMEOUT_S: Final = 30.0

_MEMBERS_LEFT: Final = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    KafkaError.NON_EMPTY_GROUP,
)
"""Kafka's codes while the group has members."""


class SinkGroup:
    """The group of the sink connector with this config; `consumer.override.group.id` counts."""

    def __init__(self, config: WorkerConfig, connector: Mapping[str, str]) -> None:
        self._connector = connector["name"]
        self._settings = clients.admin(config, connector)
        self._admin = admin_client(self._settings.librdkafka())
        self.id: str = clients.sink_consumer(config, connector, 0)["group.id"]

    def offsets(self, failure: str = "Failed to retrieve consumer group offsets for connector") -> dict[Any, int]:
        """Each partition's committed offset; none for an unknown group.

        Shape: by `plugins.contracts.TopicPartition`.
        Errors: ConnectError that begins with `failure`.
        """
        try:
            asked = ConsumerGroupTopicPartitions(self.id)
            answer = _answer(self._admin.list_consumer_group_offsets([asked], request_timeout=_TIMEOUT_S))
        except KafkaException as error:
            raise ConnectError(f"{failure} {self._connector}: {error.args[0].str()}") from error
        return {TopicPartition(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the group's offsets; None removes that of a partition.

        Errors: ConnectError, and some of them may be altered.
        """
        moved = [KafkaPartition(p.topic, p.partition, to) for p, to in offsets.items() if to is not None]
        removed = [partition for partition, to in offsets.items() if to is None]
        if moved:
            self._attempt("alter", "consumer group offsets for connector", lambda: self._move(moved))
        if removed:
            self._attempt("alter", "consumer group offsets for connector", lambda: self._remove(removed))

    def delete(self) -> None:
        """Delete the group.

        Errors: ConnectError.
        """

        def delete() -> None:
            _answer(self._admin.delete_consumer_groups([self.id], request_timeout=_TIMEOUT_S))

        self._attempt("reset", "consumer group offsets for sink connector", delete)

    def _move(self, partitions: Sequence[KafkaPartition]) -> None:
        wanted = ConsumerGroupTopicPartitions(self.id, list(partitions))
        _partitions(self._admin.alter_consumer_group_offsets([wanted], request_timeout=_TIMEOUT_S))

    def _remove(self, partitions: Collection[TopicPartition]) -> None:
        # Imported here: importing it takes long, and few workers need it.
        from kafka import KafkaAdminClient
        from kafka import TopicPartition as PythonPartition
        from kafka import errors as python_errors

        from headrace.plugins.kafka_tokens import kafka_python

        admin = KafkaAdminClient(**kafka_python(self._settings))
        try:
            asked = [PythonPartition(partition.topic, partition.partition) for partition in partitions]
            errors = admin.delete_group_offsets(self.id, asked).values()
        except python_errors.KafkaError as error:
            errors = [type(error)]
        finally:
            admin.close()
        for one in errors:
            if one is not python_errors.NoError:
                raise KafkaException(KafkaError(getattr(one, "errno", KafkaError.UNKNOWN), one.__name__))

    def _attempt(self, verb: str, what: str, change: Callable[[], None]) -> None:
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


def stable_offsets(
    admin: Mapping[str, Any], group: str, partitions: Sequence[KafkaPartition]
) -> Sequence[KafkaPartition]:
    """The group's committed offsets of these partitions, asked with this admin client's configuration.

    confluent-kafka's consumer tells what was committed before a transaction that is open, unless it reads committed
    records only; Java's waits for its end.
    Errors: RetriableError, also while one is open; KafkaException.
    """
    if not partitions:
        return []
    asked = ConsumerGroupTopicPartitions(group, [KafkaPartition(p.topic, p.partition) for p in partitions])
    try:
        return _partitions(
            admin_client(admin).list_consumer_group_offsets([asked], require_stable=True, request_timeout=_TIMEOUT_S)
        )
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise RetriableError(f"a transaction that commits offsets of {group} is open") from error
        if is_retriable(error):
            raise RetriableError(f"Kafka cannot tell the offsets of {group}: {error.args[0].str()}") from error
        raise


def _partitions(futures: Mapping[Any, Future[Any]]) -> Sequence[KafkaPartition]:
    """Kafka's answer for each partition of one group. Errors: KafkaException, also that of a partition."""
    found: Sequence[KafkaPartition] = _answer(futures).topic_partitions
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
    return found


def _answer(futures: Mapping[Any, Future[Any]]) -> Any:
    """Kafka's answer to a request for one group."""
    (future,) = futures.values()
    return future.result()
