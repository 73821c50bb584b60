"""One of the two clusters: its topics, the ends of their partitions, settings, consumer groups, and records.

Errors: UnreachableError, which names the cluster and the request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.clients import admin_client, explained, group_offsets
from headrace.connectors.mirror.source.topic_configs import Entries
from headrace.connectors.mirror.verify import reading
from headrace.connectors.mirror.verify.reading import OffsetRange, UnreachableError
from headrace.plugins.interop.kafka.group_offsets import Answer
from headrace.plugins.offsets import TopicPartition

_AT_ONCE: Final = 2000
"""So many partitions or topics are asked for in one request."""


class Newest(NamedTuple):
    """The record of a partition with the greatest timestamp."""

    offset: int
    timestamp_ms: int


class ClusterReader:
    """Asks the cluster of an alias."""

    def __init__(self, alias: str, admin: ClientConfig, consumer: ClientConfig, timeout_s: float) -> None:
        self.alias = alias
        self.committed_only = consumer["isolation.level"] == "read_committed"
        self._consumer_config = consumer
        self._client = admin
        self._admin: AdminClient = admin_client(admin)
        self._timeout_s = timeout_s

    # -- topics --------------------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        """The cluster's topics, with their counts of partitions."""
        try:
            found = self._admin.list_topics(timeout=self._timeout_s)
        except KafkaException as e:
            raise self._unreachable("its topics", e) from e
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def ranges(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        """The first offset of each partition, and the one after its last record."""
        starts = self._offsets(partitions, OffsetSpec.earliest)
        ends = self._offsets(partitions, OffsetSpec.latest)
        return {at: OffsetRange(starts[at].offset, ends[at].offset) for at in partitions}

    def newest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Newest]:
        """The newest record of each partition that has one."""
        found = self._offsets(partitions, OffsetSpec.max_timestamp)
        return {at: Newest(one.offset, one.timestamp) for at, one in found.items() if one.offset >= 0}

    def offsets_since(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset of each partition's first record that is not older; none for partitions without one."""
        found = self._offsets(times, lambda: None, lambda at: OffsetSpec.for_timestamp(times[at]))
        return {at: one.offset for at, one in found.items() if one.offset >= 0}

    def _offsets(
        self,
        partitions: Collection[TopicPartition],
        spec: Callable[[], Any],
        of: Callable[[TopicPartition], Any] | None = None,
    ) -> dict[TopicPartition, Any]:
        level = IsolationLevel.READ_COMMITTED if self.committed_only else IsolationLevel.READ_UNCOMMITTED
        found: dict[TopicPartition, Any] = {}
        for some in _cut(sorted(partitions)):
            asked = {Position(*at): of(at) if of else spec() for at in some}
            answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=self._timeout_s)
            for at, answer in answers.items():
                partition = TopicPartition(at.topic, at.partition)
                found[partition] = self._result(answer, f"offsets of {partition}")
        return found

    def settings(self, topics: Collection[str]) -> dict[str, Entries]:
        """The settings of each topic."""
        found: dict[str, Entries] = {}
        for some in _cut(sorted(topics)):
            asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in some]
            answers = self._admin.describe_configs(asked, request_timeout=self._timeout_s)
            for resource, answer in answers.items():
                found[resource.name] = self._result(answer, f"the settings of {resource.name}")
        return found

    # -- consumer groups -----------------------------------------------------------------------------------------------

    def groups(self) -> dict[str, bool]:
        """The consumer groups; true for those with members."""
        found = self._result(self._admin.list_consumer_groups(request_timeout=self._timeout_s), "its consumer groups")
        return {
            one.group_id: one.state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD) for one in found.valid
        }

    def group_offsets(self, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
        """The committed offsets of each group."""
        client = group_offsets(self._client)
        asked = {group: client.committed(group, timeout_s=self._timeout_s) for group in groups}
        return {group: self._committed(group, answer) for group, answer in asked.items()}

    def _committed(self, group: str, answer: Answer) -> dict[TopicPartition, int]:
        found = self._result(answer, f"the offsets of group {group}")
        return {
            TopicPartition(at.topic, at.partition): at.offset for at in found if at.error is None and at.offset >= 0
        }

    # -- records -------------------------------------------------------------------------------------------------------

    def read(
        self, ranges: Mapping[TopicPartition, OffsetRange], progress: Callable[[int], None] = lambda offsets: None
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield the records of these ranges, in batches of one partition each."""
        try:
            yield from reading.read(self._consumer_config, ranges, self._timeout_s, progress)
        except KafkaException as e:
            raise self._unreachable("records", e) from e
        except UnreachableError as e:
            raise UnreachableError(f"cluster {self.alias}: {e}") from e

    def _result(self, answer: Future[Any] | Answer, what: str) -> Any:
        try:
            return answer.result()
        except KafkaException as e:
            raise self._unreachable(what, e) from e

    def _unreachable(self, what: str, error: KafkaException) -> UnreachableError:
        found = explained(self._client, error).args[0]
        why = found.str() if isinstance(found, KafkaError) else str(found)
        return UnreachableError(f"cluster {self.alias} does not answer for {what}: {why}")


def _cut(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), _AT_ONCE):
        yield items[first : first + _AT_ONCE]
