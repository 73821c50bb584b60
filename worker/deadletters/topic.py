"""The topics that failed records go to: made when the task starts, where they are missing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.cimpl import NewTopic

from headrace.plugins.errors import RetriableError
from headrace.worker.deadletters.reporting import DeadLetterError
from headrace.worker.kafka.admin import admin_client
from headrace.worker.kafka.errors import RETRIABLE

log = logging.getLogger(__name__)

_ADMIN_S: Final = 10.0


def make_topic(admin_config: Mapping[str, Any], topic: str, replication_factor: int, what: str) -> None:
    """The topic is there; where it was not, it has one partition now.

    Errors: RetriableError; DeadLetterError where somebody must mend something.
    """
    admin = admin_client(admin_config)
    try:
        admin.describe_topics(TopicCollection([topic]), request_timeout=_ADMIN_S)[topic].result()
        return
    except KafkaException as error:
        code = error.args[0].code()
        if code not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise _not_made(error.args[0], topic, what) from error
    try:
        new = NewTopic(topic, 1, replication_factor)
        admin.create_topics([new], request_timeout=_ADMIN_S)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _not_made(error.args[0], topic, what) from error
    else:
        log.info("Created the %s topic %s with 1 partition and %d replicas", what, topic, replication_factor)


def _not_made(error: KafkaError, topic: str, what: str) -> Exception:
    text = f"Could not initialize {what} with topic={topic}: {error.str()}"
    if error.code() in RETRIABLE:
        return RetriableError(text)
    return DeadLetterError(
        f"{text}. Create the topic, or set errors.deadletterqueue.topic.replication.factor to what the brokers have "
        "and let the task create topics"
    )
