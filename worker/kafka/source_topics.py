"""Topics of a source: created as its connector's `topic.creation.*` says, before the first record goes to them.

Without such settings nothing is created here; the broker may create a missing topic. If it does not, and the task has
not written to the topic before, the task fails and is restarted automatically, instead of waiting for ever. If it has,
the topic was deleted, and the batch is retried until the topic is back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic

from headrace.config.connector.topic_creation import TopicCreation, TopicGroup
from headrace.config.kafka.topic_names import refusal
from headrace.config.worker.internal_topics import InternalTopics
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S, answered
from headrace.worker.kafka.errors import RETRIABLE
from headrace.worker.kafka.topic_creation import TopicError, ensure_task_topic
from headrace.worker.kafka.writer import MOST_BYTES, ProduceError, TopicMissing, check_open

log = logging.getLogger(__name__)

_REMEDY: Final = (
    "Ensure that the task is authorized to create topics and that its topic.creation settings suit the brokers, or "
    "create the topic, and restart the task"
)


class SourceTopics:
    """Topics that a source task may write to; `closed` ones are refused."""

    def __init__(
        self, creation: TopicCreation | None, admin_config: Mapping[str, Any], stop: StopToken, closed: InternalTopics
    ) -> None:
        self.closed = closed
        self._creation = creation
        self._admin_config = admin_config
        self._stop = stop
        self._existing: frozenset[str] = frozenset()
        self._written: frozenset[str] = frozenset()
        self._most_bytes: dict[str, int] = {}

    @property
    def known(self) -> frozenset[str] | None:
        """Topics known to exist; None if every topic may be written to."""
        return None if self._creation is None else self._existing

    def ensure(self, topics: Collection[str]) -> bool:
        """Create the missing topics; returns True once all exist.

        Errors: ProduceError for a closed topic; TopicError; RetriableError; StoppedError.
        """
        check_open(self.closed, topics)
        if self._creation is not None:
            if (why := refusal(set(topics) - self._existing)) is not None:
                raise TopicError(why)
            for topic in sorted(set(topics) - self._existing):
                self._create(topic, self._creation.group_of(topic))
                self._existing |= {topic}
        return True

    def written(self, topics: Collection[str]) -> None:
        """Note topics that records have arrived in."""
        if not self._written.issuperset(topics):
            self._written = self._written.union(topics)

    def missed(self, error: TopicMissing) -> Exception:
        """Return the error for a batch to missing topics; the next batch looks for them again, and may create them."""
        self._existing = frozenset()
        self._most_bytes.clear()
        may_come_back = self._creation is not None or self._written.issuperset(error.topics)
        return error if may_come_back else ProduceError(str(error))

    def _create(self, topic: str, group: TopicGroup) -> None:
        new = NewTopic(topic, group.partitions, group.replication_factor, config=dict(group.config))
        failed = f"topic {topic} could not be created as topic.creation.{group.name} says"
        if ensure_task_topic(self._admin_config, new, self._stop, failed, _REMEDY):
            log.info("Created topic %s as topic.creation.%s says: %s", topic, group.name, group)

    def most_bytes(self, topics: Collection[str]) -> int:
        """Return the largest record batch, in bytes, that all these topics take, as far as the brokers tell.

        Errors: RetriableError; StoppedError.
        """
        new = sorted(set(topics) - self._most_bytes.keys())
        if new:
            resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in new]
            asked = admin_client(self._admin_config).describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
            for resource in resources:
                try:
                    configs = answered(asked[resource], lambda: self._stop.raise_if_set("describing topics"))
                    self._most_bytes[resource.name] = int(configs["max.message.bytes"].value)
                except KafkaException as raised:
                    error = raised.args[0]
                    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue  # it may be created soon
                    if error.code() in RETRIABLE:
                        raise RetriableError(f"topic {resource.name} could not be described: {error.str()}") from raised
                    self._most_bytes[resource.name] = MOST_BYTES
        return min((self._most_bytes.get(topic, MOST_BYTES) for topic in topics), default=MOST_BYTES)
