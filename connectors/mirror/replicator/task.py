"""ReplicatorSourceTask: the mirror's task with Replicator's offsets, its group, and provenance.

Source offsets are Replicator's: `{"topic": "t", "partition": 0}`, with `{"offset": 41}`, beside which stands the topic
id, as the mirror has it.

Decided: an offset without the topic id, which Java's Replicator or an operator stored, is copied again itself, because
it is not published if it is the last record's or the next one's; loses: one record may come twice after a move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.replicator.group import ProgressGroup
from headrace.connectors.mirror.replicator.policy import RenamePolicy
from headrace.connectors.mirror.replicator.provenance import Provenance
from headrace.connectors.mirror.replicator.settings import SETTINGS
from headrace.connectors.mirror.replicator.translation import TARGET, mirror_config
from headrace.connectors.mirror.source.cluster import ClusterAdmin
from headrace.connectors.mirror.source.positions import TOPIC_ID
from headrace.connectors.mirror.source.reader import MirrorReader
from headrace.connectors.mirror.source.task import MirrorSourceTask
from headrace.plugins.contracts import Limit, PartitionResult, Plan, SourceOffset, SourcePartition, TaskContext
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.records import Records

CLUSTERS: Final = "replicator.clusters"
"""The ids of source and destination, in a task's config."""
_ASKED_S: Final = 30.0


@dataclass
class ReplicatorReader(MirrorReader):
    """Checks the destination before anything is written to it; marked records are read one by one."""

    check: Callable[[ClientConfig], None] | None = None
    marks: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "check": None}

    def can_copy(self, target: ClientConfig) -> bool:
        """As the mirror's. Errors: ConfigError if the producer's cluster is not the destination; RetriableError."""
        if self.check is not None:
            self.check(target)
        return not self.marks and super().can_copy(target)


class ReplicatorSourceTask(MirrorSourceTask):
    """Copies the partitions that its connector assigned to it; its config is the mirror's."""

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepare to plan. Errors: ConfigError."""
        super().start(config, context)
        values = SETTINGS.parse(config)
        source, _, target = config.get(CLUSTERS, "").partition("/")
        policy = policy_of(config)
        assert isinstance(policy, RenamePolicy)
        self._provenance = Provenance(source, target, policy) if values["provenance.header.enable"] else None
        self._target_id = target
        self._checked = not target
        self._prefers_group = values["offset.start"] == "consumer"
        admin = self._clients.source_admin("replication-source-admin")
        groups = ConsumerGroups(admin, self._alias, _ASKED_S, context.stopping)
        period_s = values["offset.topic.commit.batch.period.ms"] / 1000 if values["offset.topic.commit"] else None
        self._group = ProgressGroup(groups, config["source.consumer.group.id"], period_s)
        self._has_begun = False

    def start_preview(self, config: Mapping[str, str], context: TaskContext) -> None:
        """As the mirror's; provenance is shown without the clusters' ids."""
        super().start_preview(mirror_config(config).config, context)

    def _stored_as(self, partition: TopicPartition) -> SourcePartition:
        return {"topic": partition.topic, "partition": partition.partition}

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """As the mirror's; the group's commits are made in between."""
        self._group.commit_if_due()
        return super().plan(after, limit)

    def _begin_at(self, stored: Mapping[TopicPartition, SourceOffset | None]) -> None:
        begun = {one: _last(offset) for one, offset in stored.items()}
        if not self._has_begun:
            wanted = [one for one, offset in begun.items() if offset is None or self._prefers_group]
            begun |= {one: {"offset": at - 1} for one, at in self._group.positions(wanted).items()}
        super()._begin_at(begun)
        self._has_begun = True

    def reader(self, plan: Plan) -> MirrorReader:
        """A reader of the planned ranges."""
        made = super().reader(plan)
        marks = self._provenance is not None
        return ReplicatorReader(made.flow, made.ranges, made.as_records, made.opened, self._check, marks)

    def _check(self, producer: ClientConfig) -> None:
        """Refuse a producer of another cluster than the destination. Errors: ConfigError; RetriableError."""
        if self._checked:
            return
        admin = ClientConfig("admin", producer.java)
        try:
            found = ClusterAdmin(TARGET, admin, _ASKED_S, self._stopping).listed()[0]
        except KafkaException as error:
            raise RetriableError(
                f"the Kafka of the worker's producer does not answer: {error.args[0].str()}"
            ) from error
        if found != self._target_id:
            why = (
                f"It is the cluster {self._target_id}, but this worker's producer writes to {found}: topics would be "
                "created in one cluster and records written to another."
            )
            remedy = "Run the connector on workers of the destination, or set producer.override.bootstrap.servers."
            raise ConfigError(Problem("dest.kafka.bootstrap.servers", None, why, remedy))
        self._checked = True

    def records(self, frame: DataFrame) -> Records:
        """Kafka's records, with their provenance if that is wanted."""
        records = super().records(frame)
        return records if self._provenance is None else self._provenance.marked(records)

    def committed(self, reached: Sequence[PartitionResult]) -> None:
        """Notes the progress for the group."""
        super().committed(reached)
        self._group.reached(reached)


def _last(offset: SourceOffset | None) -> SourceOffset | None:
    """Return the offset of the last record that need not be copied again."""
    return offset if offset is None or TOPIC_ID in offset else {**offset, "offset": offset["offset"] - 1}
