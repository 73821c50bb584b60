"""The topics that a source's records would have made, with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import KafkaException

from headrace.config.connector.error_handling import ErrorHandling
from headrace.config.connector.topic_creation import TopicCreation
from headrace.plugins.interop.kafka.admin_clients import admin_client
from headrace.worker.errors import ConnectError
from headrace.worker.preview.model import EffectShown, Preview

_REQUEST_S: Final = 5.0
CREATE_TOPIC: Final = "create topic"


def with_new_topics(
    preview: Preview, creation: TopicCreation | None, admin: Mapping[str, Any], handling: ErrorHandling
) -> Preview:
    """Add the topics that do not exist yet; `admin`: the librdkafka configuration. Errors: ConnectError."""
    wanted = sorted({s.topic for one in preview.records for s in one.stages if s.stage == "written" and s.topic})
    letters = [topic for topic in (handling.dead_letters, handling.retry_topic) if topic]
    if not wanted and not letters:
        return preview
    try:
        there = admin_client(admin).list_topics(timeout=_REQUEST_S).topics
    except KafkaException as error:
        raise ConnectError(f"The topics cannot be listed: {error.args[0].str()}") from error
    effects, notes = [*preview.effects], [*preview.notes]
    for topic in letters:
        if topic not in there:
            detail: dict[str, Any] = {"partitions": 1, "replication.factor": handling.replication_factor}
            effects.append(EffectShown(CREATE_TOPIC, topic, detail))
    for topic in wanted:
        if topic in there:
            continue
        if creation is None:
            notes.append(
                f"There is no topic {topic}, and the config has no topic.creation.* settings: the brokers create it if "
                "auto.create.topics.enable allows it; otherwise the task fails."
            )
            continue
        group = creation.group_of(topic)
        detail = {
            "partitions": group.partitions,
            "replication.factor": group.replication_factor,
            "config": dict(group.config),
            "group": group.name,
        }
        effects.append(EffectShown(CREATE_TOPIC, topic, detail))
    return replace(preview, effects=effects, notes=notes)
