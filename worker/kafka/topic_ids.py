"""Whether a topic is still the one whose offsets a sink knows, by the id that Kafka gives each topic (Invariant 2).

Decided: requested when partitions are assigned, before offsets are committed and after a hint (an unknown topic, an
offset out of range, before a large batch), because neither librdkafka nor the commit of an offset tells a
topic from its namesake; loses: a request of some milliseconds for each commit that has something to commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from headrace.plugins.errors import RetriableError
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S, admin_client
from headrace.worker.kafka.errors import NO_TOPIC, NOT_FOR_THIS_CLIENT


class TopicIds:
    """The ids of the topics that one task reads."""

    def __init__(self, admin_config: Mapping[str, Any]) -> None:
        self._admin_config = dict(admin_config)
        self._ids: dict[str, str] = {}

    def remade(self, topics: Collection[str]) -> set[str]:
        """Those of them that are not what they were when they were asked for last.

        Errors: RetriableError where the brokers do not answer.
        """
        found = self.ids(topics)
        changed = {topic for topic, new in found.items() if self._ids.get(topic, new) != new}
        self._ids |= found
        return changed

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids that these topics have now, as far as the brokers tell. Errors: as `remade`."""
        if not topics:
            return {}
        admin = admin_client(self._admin_config)
        asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT_S)
        return {topic: str(answer.topic_id) for topic in topics if (answer := _answer(asked[topic], topic))}


def _answer(asked: Any, topic: str) -> Any:
    try:
        return asked.result()
    except KafkaException as error:
        if error.args[0].code() in NO_TOPIC | NOT_FOR_THIS_CLIENT:
            return None
        raise RetriableError(f"which topic {topic} is now: {error.args[0].str()}") from error
