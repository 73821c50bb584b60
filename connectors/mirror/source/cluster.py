"""One of the two clusters, with the source connector's requests and changes.

Requests about several topics answer for each: a failed one leaves the others alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.clients import admin_client, answered, explained
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

K = TypeVar("K")

NOT_ALLOWED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_LIST_S: Final = 10.0
"""A list of all topics is waited for in pieces of so many seconds: it cannot be interrupted."""
_OFFSETS: Final[Mapping[str, Callable[[], Any]]] = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}
_ANY: Final[Any] = None
_ANY_TOPIC_ACL: Final = AclBindingFilter(
    ResourceType.TOPIC, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY
)


class Topic(NamedTuple):
    """An existing topic."""

    id: str
    """Tells it from a topic that had its name before."""
    partitions: int


class ClusterAdmin:
    """The admin side of one cluster. Errors of all methods: KafkaException, StoppedError."""

    def __init__(self, alias: str, client: ClientConfig, timeout_s: float, stopping: StopToken) -> None:
        self.alias = alias
        self._client = client
        self._timeout_s = timeout_s
        self._stopping = stopping

    def listed(self) -> tuple[str, int, list[str]]:
        """The cluster's id, the number of its brokers, and the topics that this client may see."""
        until = time.monotonic() + self._timeout_s
        while True:
            self._stopping.raise_if_set("listing topics")
            left_s = until - time.monotonic()
            try:
                found = self._admin.list_topics(timeout=max(0.1, min(_LIST_S, left_s)))
            except KafkaException as raised:
                error = explained(self._client, raised)
                if error is not raised or left_s <= _LIST_S:
                    raise error from None
                continue
            return str(found.cluster_id), len(found.brokers), list(found.topics)

    def topics(self, names: Collection[str]) -> dict[str, Topic | KafkaError]:
        """These topics, without missing ones; an error stands for a topic that cannot be seen."""
        if not names:
            return {}
        asked = self._admin.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout_s)
        found = self._each(asked, lambda told: Topic(str(told.topic_id), len(told.partitions)))
        missing = KafkaError.UNKNOWN_TOPIC_OR_PART
        return {n: t for n, t in found.items() if not (isinstance(t, KafkaError) and t.code() == missing)}

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that answers."""
        return self.offsets("latest", partitions)

    def offsets(self, reset: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The beginning (`earliest`) or the end (`latest`) of each partition that answers.

        Errors: KafkaException if none answers.
        """
        asked = {Position(*one): _OFFSETS[reset]() for one in partitions}
        if not asked:
            return {}
        found: dict[TopicPartition, int] = {}
        for at, future in self._admin.list_offsets(asked, request_timeout=self._timeout_s).items():
            partition = TopicPartition(at.topic, at.partition)
            try:
                found[partition] = answered(future, self._stopping).offset
            except KafkaException as raised:
                log.info("Cluster %s does not say where %s is: %s", self.alias, partition, raised.args[0].str())
                error = raised
        if not found:
            raise explained(self._client, error) from None
        return found

    def create(self, topics: Sequence[NewTopic]) -> dict[str, KafkaError | None]:
        """Create these topics; return the error of each, None for a created one."""
        return self._each(self._admin.create_topics(list(topics), request_timeout=self._timeout_s), lambda _: None)

    def grow(self, counts: Mapping[str, int]) -> dict[str, KafkaError | None]:
        """Give these topics so many partitions; return the error of each, None for a grown one."""
        wanted = [NewPartitions(topic, count) for topic, count in counts.items()]
        return self._each(self._admin.create_partitions(wanted, request_timeout=self._timeout_s), lambda _: None)

    def configs(self, topics: Collection[str]) -> dict[str, Mapping[str, ConfigEntry] | KafkaError]:
        """The settings of these topics, defaults included."""
        if not topics:
            return {}
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in sorted(topics)]
        asked = self._admin.describe_configs(wanted, request_timeout=self._timeout_s)
        return self._each({one.name: future for one, future in asked.items()}, lambda told: told)

    def alter_configs(self, changes: Mapping[str, Sequence[ConfigEntry]]) -> dict[str, KafkaError | None]:
        """Make these changes of topics' settings; return the error of each topic, None for a changed one."""
        wanted = [
            ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=list(entries))
            for topic, entries in changes.items()
        ]
        asked = self._admin.incremental_alter_configs(wanted, request_timeout=self._timeout_s)
        return self._each({one.name: future for one, future in asked.items()}, lambda _: None)

    def acls(self) -> list[AclBinding]:
        """All ACLs of topics."""
        asked = self._admin.describe_acls(_ANY_TOPIC_ACL, request_timeout=self._timeout_s)
        return list(answered(asked, self._stopping))

    def create_acls(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, KafkaError | None]:
        """Create these ACLs if they are missing; return the error of each, None for a created one."""
        return self._each(self._admin.create_acls(list(bindings), request_timeout=self._timeout_s), lambda _: None)

    def allowed(self) -> set[AclOperation]:
        """This client's rights on the cluster itself."""
        asked = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout_s)
        return set(answered(asked, self._stopping).authorized_operations or ())

    def allowed_on(self, topics: Collection[str]) -> dict[str, set[AclOperation]]:
        """This client's rights on each of these topics that it sees."""
        asked = self._admin.describe_topics(
            TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        found = self._each(asked, lambda told: set(told.authorized_operations or ()))
        return {topic: operations for topic, operations in found.items() if isinstance(operations, set)}

    @property
    def _admin(self) -> Any:
        return admin_client(self._client)

    def _each(self, futures: Mapping[K, Future[Any]], of: Callable[[Any], Any]) -> dict[K, Any]:
        """The answers, with the error in place of a failed one. Errors: KafkaException if the brokers do not answer."""
        found: dict[K, Any] = {}
        for key, future in futures.items():
            try:
                found[key] = of(answered(future, self._stopping))
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._RESOLVE):
                    raise explained(self._client, raised) from None
                found[key] = error
        return found
