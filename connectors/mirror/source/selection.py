"""Chooses the topics of the source cluster to copy, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.config.worker.internal_topics import ALL_OPEN, InternalTopics
from headrace.connectors.mirror.filters import topic_filter
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.settings import SOURCE


class TopicSelection:
    """The topics that pass the filter, and heartbeats; never internal topics, nor topics from the target itself."""

    def __init__(self, config: Mapping[str, str], closed: InternalTopics = ALL_OPEN) -> None:
        """`closed`: the topics that are neither read nor written. Errors: ConfigError."""
        self._closed = closed
        self.policy = policy_of(config)
        self._filter = topic_filter(config)
        self._source: str = SOURCE["source.cluster.alias"].judge(config).value
        self._target: str = SOURCE["target.cluster.alias"].judge(config).value
        self._heartbeats = bool(SOURCE["heartbeats.replication.enabled"].judge(config).value)

    def replicates(self, topic: str) -> bool:
        """True if this topic of the source is copied."""
        return self._passes(topic) and not self._is_closed(topic)

    def closed_among(self, topics: Iterable[str]) -> list[str]:
        """The topics, sorted, that pass the filter but are left out because they are internal."""
        return sorted(topic for topic in topics if self._is_closed(topic) and self._passes(topic))

    def _is_closed(self, topic: str) -> bool:
        return topic in self._closed or self.remote(topic) in self._closed

    def _passes(self, topic: str) -> bool:
        chosen = self._filter.passes(topic) or (self._heartbeats and self.policy.is_heartbeats_topic(topic))
        return chosen and not self.policy.is_internal_topic(topic) and not self._came_from_target(topic)

    def chosen(self, topics: Iterable[str]) -> list[str]:
        """The topics among these that are copied, sorted."""
        return sorted(topic for topic in topics if self.replicates(topic))

    def remote(self, topic: str) -> str:
        """The target's name for this topic of the source."""
        return self.policy.format_remote_topic(self._source, topic)

    def keeps_name(self, topic: str) -> bool:
        """True if the topic has the same name on both clusters, so that no name shows the origin of records."""
        return self.remote(topic) == topic

    def _came_from_target(self, topic: str) -> bool:
        """True if the target is among the clusters in the topic's name."""
        source = self.policy.topic_source(topic)
        while source is not None and source != self._target:
            upstream = self.policy.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return False
            topic, source = upstream, self.policy.topic_source(upstream)
        return source is not None
