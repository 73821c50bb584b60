"""ReplicatorSourceConnector: Confluent Replicator's configs over the mirror."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror import source_offsets
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import ConfigPropertyFilter
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.replicator.settings import SETTINGS
from headrace.connectors.mirror.replicator.task import CLUSTERS, ReplicatorSourceTask
from headrace.connectors.mirror.replicator.translation import mirror_config, problems_of
from headrace.connectors.mirror.source import doctor
from headrace.connectors.mirror.source.cluster import ClusterAdmin, Topic
from headrace.connectors.mirror.source.connector import MirrorSourceConnector
from headrace.connectors.mirror.source.opposite_flow import OppositeFlow
from headrace.connectors.mirror.source.remote_topics import RemoteTopics
from headrace.plugins.contracts import ConnectorContext, Finding
from headrace.plugins.errors import RetriableError

log = logging.getLogger(__name__)

_ANY: Final = "any-topic"
_ISOLATION: Final = ("src.consumer.isolation.level", "src.kafka.isolation.level")


def sign(source: str) -> str:
    """The topic of a destination that shows that names are kept from the cluster with this id."""
    return f"mm2-replicator.{source}.internal"


class FlowById(OppositeFlow):
    """The opposite flow, by the ids of the clusters: Replicator's configs have no names for them."""

    def refusal(self, source: ClusterAdmin, target: ClusterAdmin) -> ConfigError | None:
        """As the mirror's."""
        ids = source.listed()[0], target.listed()[0]
        if not self._selection.keeps_name(_ANY):
            return None
        if ids[0] == ids[1]:
            why = "Source and destination are one cluster, and topics would be copied onto themselves."
            remedy = "Correct the servers of one of them, or set topic.rename.format."
            return ConfigError(Problem("dest.kafka.bootstrap.servers", None, why, remedy))
        if not self.watched or (found := source.topics([sign(ids[1])]).get(sign(ids[1]))) is None:
            return None
        seen = "cannot be looked for" if isinstance(found, KafkaError) else "is there"
        why = (
            f"Topics keep their names, and the topic {sign(ids[1])} {seen} on the source: another connector may copy "
            "the same topics back, round and round. Nothing is copied."
        )
        remedy = (
            "Set provenance.header.enable=true for both, or topic.rename.format, or opposite.flow.topics to the topics "
            "that the other one copies (empty if it copies none any more)."
        )
        return ConfigError(Problem("provenance.header.enable", "false", why, remedy))


class ExistingTopics(RemoteTopics):
    """Copies that others create (`topic.auto.create=false`)."""

    def _created(self, topics: Mapping[str, Topic]) -> dict[str, int]:
        for topic in topics:
            log.warning(
                "Topic %s is not copied: there is no %s on the destination, and topic.auto.create is false",
                *(topic, self._selection.remote(topic)),
            )
        return {}

    def _grown(self, topics: Mapping[str, int]) -> dict[str, int]:
        for topic, count in topics.items():
            log.warning(
                "Topic %s has %d partitions, and %s on the destination fewer: the rest is not copied, because "
                "topic.auto.create is false",
                *(topic, count, self._selection.remote(topic)),
            )
        return {}


class ReplicatorSourceConnector(MirrorSourceConnector):
    """Copies topics of a source cluster by Replicator's settings."""

    settings = SETTINGS
    version = "8.0.0"
    task_class = "io.confluent.connect.replicator.ReplicatorSourceTask"
    task = ReplicatorSourceTask

    def __init__(self) -> None:
        super().__init__()
        self._clusters: str | None = None
        self._missing: list[str] = []

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of its settings together; none if a single one is wrong: that is reported elsewhere."""
        return [] if SETTINGS.problems(config) else problems_of(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True unless records of aborted transactions are read, or a group's offsets come before the stored ones."""
        level = next((config[key] for key in _ISOLATION if key in config), "read_committed")
        return level == "read_committed" and config.get("offset.start", "connect") == "connect"

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """As the mirror's."""
        return doctor.source_findings(mirror_config(config).config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept offsets of topics' partitions, and null. Errors: OffsetError."""
        return source_offsets.check_offsets(offsets, ("topic",), only_zero=False)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """As the mirror's. Errors: ConfigError, by Replicator's keys."""
        if problems := problems_of(config):
            raise ConfigError(problems)
        self._replicated = SETTINGS.parse(config)
        mirror = mirror_config(config)
        try:
            super().start(mirror.config, context)
        except ConfigError as error:
            raise ConfigError(mirror.named(error.problems), error.where) from error
        if self._duties is not None and not self._opposite.watched and self._selection.keeps_name(_ANY):
            # An opposite flow that marks nothing has to see it: its copies come back as new records, marked or not.
            self._duties.once("leaving the sign of this flow", self._create_offset_syncs)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """As the mirror's, with the ids of the clusters. Errors: RetriableError before these are known."""
        made = super().task_configs(max_tasks)
        if made and self._clusters is None:
            raise RetriableError("The ids of the clusters are not known yet; the log says why")
        return [{**one, CLUSTERS: self._clusters or ""} for one in made]

    def _opposite_flow(self, config: Mapping[str, str]) -> OppositeFlow:
        return FlowById(config, self._selection)

    def _topics_of_target(self, properties: ConfigPropertyFilter, factor: int) -> RemoteTopics:
        kind = RemoteTopics if self._replicated["topic.auto.create"] else ExistingTopics
        return kind(self._source, self._target, self._selection, properties, factor)

    def _create_offset_syncs(self) -> None:
        """Create the sign that this flow keeps names."""
        assert self._duties is not None
        client = MirrorClients(self._config).target_admin("replication-target-admin")
        factor = "dest.topic.replication.factor"
        topic = InternalTopic(sign(self._source.listed()[0]), self._replicated[factor] or -1, factor)
        topic.ensure(client, self._values["admin.timeout.ms"] / 1000, self._duties.stopping)

    def _find(self) -> None:
        if self._clusters is None:
            self._clusters = f"{self._source.listed()[0]}/{self._target.listed()[0]}"
        super()._find()
        assert self._known is not None
        missing = [name for name in self._replicated["topic.whitelist"] if name not in self._known.topics]
        if missing and missing != self._missing:
            log.warning("Topics %s of topic.whitelist are not on the source, or are left out", ", ".join(missing))
        self._missing = missing
