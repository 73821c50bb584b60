"""Detects a recreated topic by the id that Kafka gives each topic (Invariant 2).

Decided: requested when partitions are assigned, before offsets are committed and after a hint (an unknown topic, an
offset out of range, before a large batch), because neither librdkafka nor the commit of an offset tells a
topic from its namesake; loses: a request of some milliseconds for each commit with something to commit. The thread
that many sinks share does not wait for it (100 sinks of five records a second: p99 25 ms, not 36).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S
from headrace.worker.kafka.errors import NO_TOPIC, NOT_FOR_THIS_CLIENT


class AskedIds:
    """A pending request for the current ids of some topics."""

    def __init__(self, futures: Mapping[str, Future[Any]]) -> None:
        self._futures = futures

    def is_done(self) -> bool:
        """True if `answer` does not wait."""
        return all(future.done() for future in self._futures.values())

    def answer(self) -> dict[str, str]:
        """Return the ids that the brokers tell, by topic. Errors: RetriableError if they do not answer."""
        answers = {topic: _answer(asked, topic) for topic, asked in self._futures.items()}
        return {topic: str(answer.topic_id) for topic, answer in answers.items() if answer}


class TopicIds:
    """Known ids of the topics that one task reads."""

    def __init__(self, admin_config: Mapping[str, Any]) -> None:
        self._admin_config = dict(admin_config)
        self._ids: dict[str, str] = {}

    def remade(self, asked: AskedIds) -> set[str]:
        """Return topics whose id differs from the last known one; remembers the ids. Errors: as `AskedIds.answer`."""
        found = asked.answer()
        changed = {topic for topic, new in found.items() if self._ids.get(topic, new) != new}
        self._ids |= found
        return changed

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the current ids that the brokers tell, by topic. Errors: as `AskedIds.answer`."""
        return self.ask(topics).answer()

    def ask(self, topics: Collection[str]) -> AskedIds:
        """Request the topics' current ids; does not wait."""
        if not topics:
            return AskedIds({})
        admin = admin_client(self._admin_config)
        return AskedIds(admin.describe_topics(TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT_S))


def _answer(asked: Future[Any], topic: str) -> Any:
    try:
        return asked.result()
    except KafkaException as error:
        if error.args[0].code() in NO_TOPIC | NOT_FOR_THIS_CLIENT:
            return None
        raise RetriableError(f"which topic {topic} is now: {error.args[0].str()}") from error
