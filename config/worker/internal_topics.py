"""Keeps connectors out of the topics in which Kafka Connect, MirrorMaker and Kafka keep their own state.

A reader of the config topic sees all configs, and the key that signs workers' requests. A writer to it can create
connectors.

Decided: a name is refused, and a pattern (`topics.regex`, the `topics` of a mirror) leaves these topics out, as Kafka's
own consumers leave `__consumer_offsets` out of patterns, because `.*` means the data; loses: only the log tells that
they are left out.
Decided: by name, in any cluster, because the workers' own cluster has other addresses, too; loses: a mirror in a
Connect cluster must be trusted to copy a topic of another cluster with such a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import Type, read
from headrace.config.worker.trusted import REMEDY, is_trusted

STORAGE: Final = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
"""The worker's settings with the names of the topics that it needs."""
OF_WORKERS: Final = (*STORAGE, "config.history.topic")
"""The worker's settings with the names of all its topics."""
BROKERS_OWN: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""The topics of Kafka itself."""
_CHECKPOINTS: Final = ".checkpoints.internal"
_LEAVE_OUT: Final = ("exclude", "opposite")
"""Words in the names of settings that list topics to leave out."""


@dataclass(frozen=True)
class InternalTopics:
    """The topics closed to a connector; small and picklable."""

    names: frozenset[str] = frozenset()
    of_mirrors: bool = False
    """True if MirrorMaker's topics, recognised by name, are closed, too."""
    keeps_checkpoints: bool = False
    """True if the connector writes MirrorMaker's checkpoints."""

    @classmethod
    def closed_to(cls, connector: str, settings: Mapping[str, Any]) -> Self:
        """The topics that a worker with these parsed settings closes to a connector; none if it is trusted."""
        if is_trusted(connector, settings):
            return cls()
        return cls(BROKERS_OWN.union(filter(None, (settings.get(name) for name in OF_WORKERS))), of_mirrors=True)

    def __contains__(self, topic: str) -> bool:
        if topic in self.names:
            return True
        has_checkpoints = topic.endswith(_CHECKPOINTS) and not self.keeps_checkpoints
        return self.of_mirrors and (has_checkpoints or _is_mirrors_state(topic))

    def refusal(self, topics: Iterable[str | None]) -> str | None:
        """The reason that records may not go to these topics; None if they may."""
        found = sorted(topic for topic in topics if topic is not None and topic in self)
        return f"{_why(found[0])} Have its records go elsewhere; {REMEDY}" if found else None


ALL_OPEN: Final = InternalTopics()
"""Closes no topic."""


def internal_topic_problems(
    config: Mapping[str, str | None], connector: str, settings: Mapping[str, Any]
) -> list[Problem]:
    """Problems of settings that name a topic closed to the connector; `config` is resolved.

    Every setting with `topic` in its name is checked, also a plugin's.
    """
    closed = InternalTopics.closed_to(connector, settings)
    problems = []
    for key, value in config.items():
        if value and "topic" in key.lower() and not any(word in key for word in _LEAVE_OUT):
            named = dict.fromkeys([read(key, Type.STRING, value).strip(), *read(key, Type.LIST, value)])
            found = [one for one in named if one in closed]
            problems += [Problem(key, one, _why(one), f"Name another topic; {REMEDY}") for one in found]
    return problems


def check_internal_topics(config: Mapping[str, str], connector: str, settings: Mapping[str, Any]) -> None:
    """Refuses settings that name a topic closed to the connector. Errors: ConfigError."""
    if problems := internal_topic_problems(config, connector, settings):
        raise ConfigError(problems)


def _is_mirrors_state(topic: str) -> bool:
    return topic.startswith("mm2-") and topic.endswith("internal")


def _why(topic: str) -> str:
    is_mirrors = _is_mirrors_state(topic) or topic.endswith(_CHECKPOINTS)
    keeper = "Kafka" if topic in BROKERS_OWN else "MirrorMaker" if is_mirrors else "Kafka Connect"
    return f"{topic} is an internal topic, in which {keeper} keeps its own state."
