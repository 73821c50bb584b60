"""Whether a topic is still the one whose offsets a sink knows, by the id that Kafka gives each topic (Invariant 2).

Decided: requested when partitions are assigned, before offsets are committed and after a hint (an unknown topic, an
offset out of range, before a large batch), because neither librdkafka nor the commit of an offset tells a
topic from its namesake; loses: a request of some milliseconds for each commit that has something to commit, for which
the thread that many sinks share does not wait (100 sinks of five records a second: p99 36 ms, and 25 so).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicCollection

from headrace.plugins.errors import RetriableError
from headrace.plugins.kafka.admin_clients import admin_client
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S
from headrace.worker.kafka.errors import NO_TOPIC, NOT_FOR_THIS_CLIENT


class AskedIds:
    """A request for the ids that some topics have now."""

    def __init__(self, futures: Mapping[str, Future[Any]]) -> None:
        self._futures = futures

    def is_done(self) -> bool:
        """Whether `answer` waits for nothing."""
        return all(future.done() for future in self._futures.values())

    def answer(self) -> dict[str, str]:
        """The ids, as far as the brokers tell. Errors: RetriableError where they do not answer."""
        answers = {topic: _answer(asked, topic) for topic, asked in self._futures.items()}
        return {topic: str(answer.topic_id) for topic, answer in answers.items() if answer}


class TopicIds:
    """The ids of the topics that one task reads."""

    def __init__(self, admin_config: Mapping[str, Any]) -> None:
        self._admin_config = dict(admin_config)
        self._ids: dict[str, str] = {}

    def remade(self, asked: AskedIds) -> set[str]:
        """The topics that are not what they were when they were asked for last. Errors: as `AskedIds.answer`."""
        found = asked.answer()
        changed = {topic for topic, new in found.items() if self._ids.get(topic, new) != new}
        self._ids |= found
        return changed

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids that these topics have now, as far as the brokers tell. Errors: as `AskedIds.answer`."""
        return self.ask(topics).answer()

    def ask(self, topics: Collection[str]) -> AskedIds:
        """Ask for the ids that these topics have now."""
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
