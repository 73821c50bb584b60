"""The names of topics on the other cluster: replication policies, as MirrorMaker 2 has them.

Another policy is a subclass of `ReplicationPolicy` in the entry point group `headrace.replication_policy`;
`replication.policy.class` names the entry:

    [project.entry-points."headrace.replication_policy"]
    "org.example.MyPolicy" = "my_package:MyPolicy"

A class is only ever looked up among these, never imported because a configuration names it.

Source: Apache Kafka 4.3.1, whose internal topics are narrower than those of 3.x: a name that merely ends with
`.internal` or `-internal` is an ordinary topic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from headrace.config.problems import ConfigError, Problem

GROUP: Final = "headrace.replication_policy"
POLICY: Final = "replication.policy.class"
SEPARATOR: Final = "replication.policy.separator"
INTERNAL_SEPARATOR: Final = "replication.policy.internal.topic.separator.enabled"

_JAVA: Final = "org.apache.kafka.connect.mirror."
_DEFAULT: Final = f"{_JAVA}DefaultReplicationPolicy"


class ReplicationPolicy(ABC):
    """Names remote topics (those copied from another cluster) and the internal topics of the replication."""

    def configure(self, config: Mapping[str, str]) -> None:  # noqa: B027
        """Get ready; called once, first, with the connector's config. Errors: ConfigError."""

    @abstractmethod
    def format_remote_topic(self, alias: str, topic: str) -> str:
        """Return the target's name for a topic of the cluster with this alias."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that this topic was copied from; None if it is no remote topic."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the topic's name on the cluster that it was copied from; None if it is no remote topic."""

    def original_topic(self, topic: str) -> str:
        """Return the topic's name on the first of the clusters that it went through."""
        upstream = self.upstream_topic(topic)
        return topic if upstream is None or upstream == topic else self.original_topic(upstream)

    def heartbeats_topic(self) -> str:
        """Return the topic of heartbeats."""
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic of offset syncs; `alias` is the flow's other cluster, seen from the topic's own."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the topic of the checkpoints from the cluster with this alias."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """True for a topic of heartbeats: this cluster's own, or a copy of another's."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """True for a topic of checkpoints, from whichever cluster they are."""
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """True for topics with the replication's own state."""
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """True for topics that are never copied: Kafka's own, hidden ones, and those of the replication."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)


class DefaultReplicationPolicy(ReplicationPolicy):
    """Puts the alias of the source cluster before a topic's name: `orders` of cluster `A` becomes `A.orders`.

    Every name with a separator in it looks like a remote topic, as in Java.
    """

    def __init__(self) -> None:
        self._separator = "."
        self._internal = "."

    def configure(self, config: Mapping[str, str]) -> None:
        separator = config.get(SEPARATOR)
        if separator is None:
            return
        if not separator:
            remedy = f"Set {SEPARATOR} to characters that topic names may have, or remove it: the default is '.'."
            raise ConfigError(Problem(SEPARATOR, separator, "An empty separator leaves no alias to be found.", remedy))
        self._separator = separator
        if config.get(INTERNAL_SEPARATOR, "true").strip().lower() == "true":
            self._internal = separator

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return f"{alias}{self._separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        source, found, rest = topic.partition(self._separator)
        # Java's split forgets empty parts at the end: `a.` is one part, `a..b` has three.
        return source if found and rest.replace(self._separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self._separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self.checkpoints_topic(""))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        own = topic.startswith("mm2") and topic.endswith(f"{self._internal}internal")
        return own or self.is_checkpoints_topic(topic)


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Keeps names; only heartbeats are renamed, as by `DefaultReplicationPolicy`.

    No name tells a topic's origin: all count as topics from `source.cluster.alias`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._source: str | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._source = config.get("source.cluster.alias")

    def format_remote_topic(self, alias: str, topic: str) -> str:
        return super().format_remote_topic(alias, topic) if self._is_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._is_heartbeat(topic) else self._source

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if self._is_heartbeat(topic) else topic

    def _is_heartbeat(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


@cache
def policies() -> Mapping[str, type[ReplicationPolicy]]:
    """The installed policies: ours, and those of other packages, by the names of their entry points."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def policy_of(config: Mapping[str, str]) -> ReplicationPolicy:
    """The config's policy, by its full or simple class name, configured. Errors: ConfigError that names the choices."""
    name = config.get(POLICY, _DEFAULT).strip()
    named = [cls for full, cls in policies().items() if name in (full, full.rpartition(".")[2])]
    if len(set(named)) != 1:
        what = f"{len(set(named))} replication policies have this name" if named else "No replication policy has it"
        remedy = f"Use one of {', '.join(policies())}; a package brings one in the entry point group {GROUP}."
        raise ConfigError(Problem(POLICY, name, f"{what}.", remedy))
    policy = named[0]()
    policy.configure(config)
    return policy
