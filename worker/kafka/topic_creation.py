"""The topics of a source: made as its connector's `topic.creation.*` says, before the first record goes to them.

Without such settings nothing is made here: a topic that is missing is the broker's to make, and where the broker does
not, the producer refuses the record (`ProduceError`) instead of waiting for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from headrace.config.topic_creation import TopicCreation, TopicGroup
from headrace.plugins.errors import RetriableError
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.admin import admin_client
from headrace.worker.kafka.errors import RETRIABLE
from headrace.worker.kafka.writer import MOST_BYTES

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 10.0


class TopicError(Exception):
    """A topic can neither be found nor made: somebody must mend that."""


class SourceTopics:
    """Which topics a source task may write to."""

    def __init__(self, creation: TopicCreation | None, admin_config: Mapping[str, Any], stop: StopToken) -> None:
        self._creation = creation
        self._admin_config = admin_config
        self._stop = stop
        self._there: frozenset[str] = frozenset()
        self._most_bytes: dict[str, int] = {}

    @property
    def known(self) -> frozenset[str] | None:
        """Those that are there for certain; None where every topic may be written to."""
        return None if self._creation is None else self._there

    def ensure(self, topics: Collection[str]) -> bool:
        """True: these topics are there.

        Errors: TopicError, RetriableError, StoppedError.
        """
        creation = self._creation
        if creation is not None and not self._there.issuperset(topics):
            admin = self._admin()
            for topic in sorted(set(topics) - self._there):
                if not self._is_there(admin, topic):
                    self._make(admin, topic, creation.group_of(topic))
                self._there |= {topic}
        return True

    def most_bytes(self, topics: Collection[str]) -> int:
        """The largest record batch that all of these topics take, as far as the brokers tell.

        Errors: RetriableError, StoppedError.
        """
        new = sorted(set(topics) - self._most_bytes.keys())
        if new:
            resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in new]
            admin = self._admin()
            asked = admin.describe_configs(resources, request_timeout=_REQUEST_TIMEOUT_S)
            for resource in resources:
                try:
                    configs = self._answer(asked[resource])
                    self._most_bytes[resource.name] = int(configs["max.message.bytes"].value)
                except KafkaException as error:
                    if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                        continue  # it may be created soon
                    if error.args[0].code() in RETRIABLE:
                        raise _judged(error.args[0], resource.name, "described") from error
                    self._most_bytes[resource.name] = MOST_BYTES
        return min((self._most_bytes.get(topic, MOST_BYTES) for topic in topics), default=MOST_BYTES)

    def _admin(self) -> Any:
        return admin_client(self._admin_config)

    def _is_there(self, admin: Any, topic: str) -> bool:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_TIMEOUT_S)
        try:
            self._answer(asked[topic])
        except KafkaException as error:
            code = error.args[0].code()
            if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                return False  # who may not see a topic may still be allowed to make it
            raise _judged(error.args[0], topic, "looked for") from error
        return True

    def _make(self, admin: Any, topic: str, group: TopicGroup) -> None:
        new = NewTopic(topic, group.partitions, group.replication_factor, config=dict(group.config))
        asked = admin.create_topics([new], request_timeout=_REQUEST_TIMEOUT_S)
        try:
            self._answer(asked[topic])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _judged(error.args[0], topic, f"created as topic.creation.{group.name} says") from error
        else:
            log.info("Created topic %s as topic.creation.%s says: %s", topic, group.name, group)

    def _answer(self, asked: Future[Any]) -> Any:
        while True:
            try:
                return asked.result(0.25)
            except TimeoutError:
                self._stop.raise_if_set("waiting for a broker's answer")


def _judged(error: KafkaError, topic: str, tried: str) -> Exception:
    text = f"topic {topic} could not be {tried}: {error.str()}"
    if error.code() in RETRIABLE:
        return RetriableError(text)
    return TopicError(
        f"{text}. Ensure that the task is authorized to create topics and that its topic.creation settings suit the "
        "brokers, or create the topic, and restart the task"
    )
