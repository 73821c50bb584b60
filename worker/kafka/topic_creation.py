"""Creates a topic: describes it, creates it if it is missing, waits for the answers.

Source topics, topics of failed records and internal topics are all created here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic

from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.kafka.admin_clients import kept_client
from headrace.plugins.stopping import StopToken
from headrace.worker.kafka.admin import REQUEST_TIMEOUT_S, answered
from headrace.worker.kafka.errors import RETRIABLE, refused

_MAY_BE_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})
"""A client without Describe on a topic may still have Create."""


class TopicError(Exception):
    """A topic can neither be found nor created; retries do not help, an operator must act."""


def ensure_topic(admin: Any, topic: NewTopic, check: Callable[[], object]) -> bool:
    """Create the topic unless it exists; returns True if this call created it.

    Errors: KafkaException; what `check` raises (see `admin.answered`).
    """
    described = admin.describe_topics(TopicCollection([topic.topic]), request_timeout=REQUEST_TIMEOUT_S)
    try:
        answered(described[topic.topic], check)
        return False
    except KafkaException as error:
        if error.args[0].code() not in _MAY_BE_MISSING:
            raise
    created = admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
    try:
        answered(created[topic.topic], check)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False  # another worker was faster, or Describe is missing
    return True


def ensure_task_topic(
    admin_config: Mapping[str, Any], topic: NewTopic, stop: StopToken, failed: str, remedy: str
) -> bool:
    """Create a topic that a task writes to, unless it exists; returns True if this call created it.

    Errors: RetriableError; LoginRefused; StoppedError; TopicError with the texts `failed` and `remedy`.
    """
    admin, failures = kept_client(admin_config)
    failures.forget(admin)
    try:
        return ensure_topic(admin, topic, lambda: stop.raise_if_set(f"creating {topic.topic}"))
    except KafkaException as error:
        text = f"{failed}: {error.args[0].str()}"
        if error.args[0].code() in RETRIABLE:
            admin.poll(0)
            raise (refused(failures, admin_config, after_s=0) or RetriableError(text)) from error
        raise TopicError(f"{text}. {remedy}") from error
