"""The settings of the history that the workers of a cluster keep of its connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import NonEmpty, PositiveOrBrokers, Range
from headrace.config.worker.internal_topics import STORAGE

HISTORY_TOPIC: Final = "config.history.topic"
HISTORY_REPLICATION: Final = "config.history.replication.factor"
HISTORY_RETENTION: Final = "config.history.retention.ms"

HISTORY: Final = Settings(
    Setting(
        HISTORY_TOPIC,
        Type.STRING,
        None,
        NonEmpty(),
        Importance.MEDIUM,
        "The topic in which the workers of the cluster record each change of a connector's config, target state and "
        "offsets, with who asked for it; the same for all workers. Without it no history is kept.",
    ),
    Setting(
        HISTORY_REPLICATION,
        Type.SHORT,
        3,
        PositiveOrBrokers("Replication factor must be positive"),
        Importance.LOW,
        "Its replicas, when it is created.",
    ),
    Setting(
        HISTORY_RETENTION,
        Type.LONG,
        7_776_000_000,
        Range(1),
        Importance.LOW,
        "After this time a change is removed from it, unless it is the last one of a connector that exists. At most "
        "100 changes of a connector are kept.",
    ),
)


def problems(values: Mapping[str, Any]) -> list[Problem]:
    """Problems of a history topic that is another internal topic, too."""
    topic = values.get(HISTORY_TOPIC)
    return [
        Problem(HISTORY_TOPIC, topic, f"It is the topic of {other}, too.", "Name a topic of its own.")
        for other in STORAGE
        if topic is not None and values.get(other) == topic
    ]
