"""The remote topics: created if they are missing, grown with their sources, and configured like them.

Decided: partitions without a counterpart on the target are not copied until they have one, because the error of one
topic would otherwise stop all that its task copies; loses: brokers that create topics by themselves are not asked to.

Decided: only settings that differ are sent to the target, and each is logged; loses: a request for the target's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.filters import ConfigPropertyFilter
from headrace.connectors.mirror.source import topic_configs
from headrace.connectors.mirror.source.cluster import NOT_ALLOWED, ClusterAdmin, Topic
from headrace.connectors.mirror.source.selection import TopicSelection

log = logging.getLogger(__name__)

_REMEDIES: Final = {
    KafkaError.INVALID_REPLICATION_FACTOR: "Set replication.factor to at most the number of its brokers, or to -1.",
    KafkaError.INVALID_CONFIG: "Exclude the setting by config.properties.exclude.",
    KafkaError.POLICY_VIOLATION: "Create it by hand, or have create.topic.policy.class.name of the brokers allow it.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Allow this connector's user CREATE and ALTER there, or do it by hand.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Allow this connector's user CREATE and ALTER there, or do it by hand.",
    KafkaError.TOPIC_EXCEPTION: "Its name is longer than 249 characters or has others than letters, digits, "
    "'.', '_' and '-': exclude it by topics.exclude.",
}
_OTHERWISE: Final = "It is tried again at the next refresh of topics."


class RemoteTopics:
    """The target's side of the copied topics."""

    def __init__(
        self,
        source: ClusterAdmin,
        target: ClusterAdmin,
        selection: TopicSelection,
        properties: ConfigPropertyFilter,
        replication_factor: int,
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._properties = properties
        self._replication_factor = replication_factor
        self._had: set[str] = set()
        """The remote topics that existed once."""

    def ensure(self, found: Mapping[str, Topic]) -> dict[str, int]:
        """Create missing topics and partitions on the target; return each topic's count of partitions to copy.

        Failures are logged. Errors: KafkaException, StoppedError.
        """
        remote = {topic: self._selection.remote(topic) for topic in found}
        there = self._target.topics(set(remote.values()))
        new = [topic for topic in found if remote[topic] not in there]
        ready = self._created({topic: found[topic] for topic in new})
        small = {}
        for topic, (_, count) in found.items():
            seen = there.get(remote[topic])
            if isinstance(seen, Topic):
                ready[topic] = min(count, seen.partitions)
                if seen.partitions < count:
                    small[topic] = count
            elif seen is not None:  # it may be there: only who may see it knows
                ready[topic] = count
        ready |= self._grown(small)
        self._had |= {remote[topic] for topic in ready}
        return ready

    def sync_configs(self, topics: list[str]) -> None:
        """Give the remote topics of these the settings of their sources.

        Errors: KafkaException, StoppedError; ConfigError if the target's brokers are too old.
        """
        remote = {topic: self._selection.remote(topic) for topic in topics}
        sources, targets = self._source.configs(topics), self._target.configs(set(remote.values()))
        wanted: dict[str, list[topic_configs.ConfigChange]] = {}
        for topic, source in sources.items():
            target = targets[remote[topic]]
            if isinstance(source, KafkaError):
                log.warning("The settings of topic %s on %s are unknown: %s", topic, self._source.alias, source.str())
                continue
            known = None if isinstance(target, KafkaError) else target
            if isinstance(target, KafkaError) and target.code() not in NOT_ALLOWED:
                log.debug("Topic %s on %s is not there: %s", remote[topic], self._target.alias, target.str())
            elif found := topic_configs.changes(source, known, self._properties):
                wanted[remote[topic]] = found
        if wanted:
            self._alter(wanted)

    def _created(self, topics: Mapping[str, Topic]) -> dict[str, int]:
        configs = self._source.configs(topics)
        wanted, made = {}, {}
        for topic, (_, count) in topics.items():
            config, remote = configs[topic], self._selection.remote(topic)
            if isinstance(config, KafkaError):
                # Not without: a compacted topic's copy would lose its oldest records.
                log.error(
                    "Topic %s is not created on %s, because the settings of %s on %s cannot be read: %s. Allow this "
                    "connector's user DESCRIBE_CONFIGS there",
                    *(remote, self._target.alias, topic, self._source.alias, config.str()),
                )
                continue
            own = topic_configs.of_new_topic(config, self._properties)
            wanted[remote] = (
                topic,
                NewTopic(remote, num_partitions=count, replication_factor=self._replication_factor, config=own),
            )
        for remote, error in self._target.create([new for _, new in wanted.values()]).items() if wanted else ():
            topic = wanted[remote][0]
            if error is None and remote in self._had:
                log.warning(
                    "Topic %s on %s was deleted, and is created again with partitions: %d. It gets the records that "
                    "were not copied before; to copy all once more, reset the connector's offsets",
                    *(remote, self._target.alias, topics[topic].partitions),
                )
            elif error is None:
                log.info("Created topic %s on %s, partitions: %d", remote, self._target.alias, topics[topic].partitions)
            if error is None or error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                made[topic] = topics[topic].partitions
            else:
                self._refused("created", remote, error)
        return made

    def _grown(self, topics: Mapping[str, int]) -> dict[str, int]:
        names = {self._selection.remote(topic): topic for topic in topics}
        wanted = {remote: topics[topic] for remote, topic in names.items()}
        grown = {}
        for remote, error in self._target.grow(wanted).items() if wanted else ():
            if error is None:
                log.info("Topic %s on %s has %d partitions now", remote, self._target.alias, wanted[remote])
            if error is None or error.code() == KafkaError.INVALID_PARTITIONS:  # another was faster
                grown[names[remote]] = wanted[remote]
            else:
                self._refused(f"given {wanted[remote]} partitions", remote, error)
        return grown

    def _refused(self, what: str, remote: str, error: KafkaError) -> None:
        remedy = _REMEDIES.get(error.code(), _OTHERWISE)
        log.error("Topic %s on %s cannot be %s: %s. %s", remote, self._target.alias, what, error.str(), remedy)

    def _alter(self, wanted: Mapping[str, list[topic_configs.ConfigChange]]) -> None:
        alias = self._target.alias
        entries = {remote: [change.entry() for change in changes] for remote, changes in wanted.items()}
        for remote, error in self._target.alter_configs(entries).items():
            if error is None:
                log.info("Changed topic %s on %s: %s", remote, alias, ", ".join(map(str, wanted[remote])))
            elif error.code() in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
                message = f"the target cluster '{alias}' is not compatible with IncrementalAlterConfigs API"
                remedy = "Set it to false, or use brokers of Kafka 2.3 or later."
                raise ConfigError(Problem("sync.topic.configs.enabled", "true", message, remedy)) from KafkaException(
                    error
                )
            else:
                remedy = _REMEDIES.get(error.code(), "It is tried again at the next sync.")
                log.warning("The settings of topic %s on %s cannot be changed: %s. %s", remote, alias, error, remedy)
