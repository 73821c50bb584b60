"""MirrorSourceConnector: finds the topics to copy, prepares the target for them and divides them among tasks.

Source: Apache's connector of 4.3.1 in settings, task configs, names and duties. Better are: partitions are divided by
traffic and stay where they are (`assignment`), topics that keep their names cannot go round (`opposite_flow`), failed
creations hold nothing else up and are tried again (`remote_topics`).

All duties run on one thread; `task_configs` reads their last findings.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.internal_topics import InternalTopics
from headrace.config.worker.trusted import TRUSTED
from headrace.connectors.mirror import settings as mirror_settings
from headrace.connectors.mirror import source_offsets
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.duties import Duties, Duty
from headrace.connectors.mirror.filters import ConfigPropertyFilter, config_property_filter
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.source import assignment, doctor, validation
from headrace.connectors.mirror.source.acls import AclSync
from headrace.connectors.mirror.source.cluster import ClusterAdmin, Topic
from headrace.connectors.mirror.source.opposite_flow import OppositeFlow
from headrace.connectors.mirror.source.remote_topics import RemoteTopics
from headrace.connectors.mirror.source.selection import TopicSelection
from headrace.connectors.mirror.source.task import ASSIGNED, MirrorSourceTask
from headrace.plugins.contracts import Connector, ConnectorContext, Finding
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

log = logging.getLogger(__name__)

_FIRST_LOOK_S: Final = 10.0
"""A start waits so long for the first list of topics: then the tasks are right at once."""
_LOOK_FOR_OPPOSITE_S: Final = 5
_TASKS_END_S: Final = 2.0
"""The worker has so long to notice that there are no tasks, before the connector fails."""


class _Findings(NamedTuple):
    """The last findings of the duties; replaced as a whole."""

    topics: Mapping[str, Topic]
    partitions: frozenset[TopicPartition]
    """The partitions that are copied: they have their counterpart on the target."""


class MirrorSourceConnector(Connector):
    """Copies topics of a source cluster, and keeps their copies' partitions, settings and ACLs like theirs."""

    settings = mirror_settings.SOURCE
    undeclared = ("",)
    version = "4.3.1"
    task_class = "org.apache.kafka.connect.mirror.MirrorSourceTask"
    task = MirrorSourceTask
    default_tasks_max = os.cpu_count() or 1
    """One a core: a task copies with one thread, and all take what the brokers can give."""

    def __init__(self) -> None:
        self._duties: Duties | None = None
        self._known: _Findings | None = None
        self._refused: ConfigError | None = None
        self._withdrawn_at: float | None = None
        self._started = False
        self._looked = threading.Event()
        self._traffic = assignment.PartitionTraffic()
        self._layout: assignment.Layout = ()
        self._most_tasks = 1
        self._left_out: frozenset[str] = frozenset()
        self._internal: list[str] = []

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of its settings together; no cluster is asked."""
        return validation.source_problems(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True if it can deliver exactly once: with records of aborted transactions it could not."""
        return validation.reads_committed(config)

    def diagnose(self, config: Mapping[str, str]) -> Iterator[Finding]:
        """The doctor's findings: the answers of both clusters, the copied topics, the missing rights."""
        return doctor.source_findings(config)

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts offsets of topics' partitions, and null. Errors: OffsetError."""
        return source_offsets.check_offsets(offsets, ("cluster", "topic"), only_zero=False)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Begin the duties; wait some seconds for the first list of topics. Errors: ConfigError."""
        self._config, self._context = dict(config), context
        self._values = values = mirror_settings.SOURCE.parse(config)
        if not values["enabled"]:
            return
        clients, timeout_s = MirrorClients(config), values["admin.timeout.ms"] / 1000
        closed = InternalTopics.closed_to(config.get("name", ""), self.worker)
        self._selection = TopicSelection(config, closed)
        self._opposite = self._opposite_flow(config)
        properties = config_property_filter(config)
        source_admin = clients.source_admin("replication-source-admin")
        target_admin = clients.target_admin("replication-target-admin")
        self._duties = duties = Duties(clients.label)
        self._source = ClusterAdmin(values["source.cluster.alias"], source_admin, timeout_s, duties.stopping)
        self._target = ClusterAdmin(values["target.cluster.alias"], target_admin, timeout_s, duties.stopping)
        self._remote_topics = self._topics_of_target(properties, values["replication.factor"])
        self._acls = AclSync(self._source, self._target, self._selection)
        if not self._opposite.watched and values["emit.offset-syncs.enabled"]:
            duties.once("creating the offset-syncs topic", self._create_offset_syncs)
        duties.once("finding the topics", self._begin)
        self._looked.wait(_FIRST_LOOK_S)
        self._started = True

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The partitions of each task; none while nothing is copied. Errors: RetriableError before topics are known."""
        if self._duties is None:
            return []
        if self._refused is not None:
            self._withdrawn_at = time.monotonic()
            return []
        if self._known is None:
            raise RetriableError(f"The topics of {self._source.alias} are not known yet; the log says why")
        self._most_tasks = max_tasks
        self._layout = self._shared_out(self._known)
        return [
            {
                **self._config,
                ASSIGNED: ",".join(map(str, partitions)),
                mirror_settings.TASK_INDEX: str(number),
            }
            for number, partitions in enumerate(self._layout)
        ]

    def stop(self) -> None:
        """End the duties."""
        if self._duties is not None:
            self._duties.stop()

    def _opposite_flow(self, config: Mapping[str, str]) -> OppositeFlow:
        return OppositeFlow(config, self._selection)

    def _topics_of_target(self, properties: ConfigPropertyFilter, factor: int) -> RemoteTopics:
        return RemoteTopics(self._source, self._target, self._selection, properties, factor)

    def _begin(self) -> None:
        """Look for the first time, and only then begin the duties that depend on it."""
        assert self._duties is not None
        try:
            self._check_opposite()
            if self._refused is None and self._opposite.watched:
                self._create_offset_syncs()
                self._check_opposite()
            if self._refused is None:
                self._find()
                self._every("sync.topic.acls", "copying ACLs of topics", self._acls.run, at_once=True)
                self._every("sync.topic.configs", "copying settings of topics", self._sync_configs, at_once=True)
                self._every("refresh.topics", "looking for new topics", self._refresh)
            if self._refused is not None or self._opposite.watched:
                self._duties.every(_LOOK_FOR_OPPOSITE_S, "looking for the opposite flow", self._check_opposite)
        finally:
            self._looked.set()
        if self._started:
            self._context.reconfigure()

    def _every(self, name: str, what: str, duty: Duty, at_once: bool = False) -> None:
        assert self._duties is not None
        if self._values[f"{name}.enabled"]:
            self._duties.every(self._values[f"{name}.interval.seconds"], what, duty, at_once)

    def _check_opposite(self) -> None:
        """Stop copying if the opposite flow may copy the same topics back: first the tasks, then the connector."""
        if self._refused is None:
            self._refused = self._opposite.refusal(self._source, self._target)
            if self._refused is not None and self._started:
                self._context.reconfigure()
        elif self._withdrawn_at is not None and time.monotonic() > self._withdrawn_at + _TASKS_END_S:
            self._withdrawn_at = None
            self._context.fail(self._refused)

    def _create_offset_syncs(self) -> None:
        """Create the topic of offset syncs; if names are kept, also without offset syncs, as the sign of this flow."""
        assert self._duties is not None
        values, clients, policy = self._values, MirrorClients(self._config), self._selection.policy
        if values["offset-syncs.topic.location"] == "source":
            client, name = clients.source_admin("offset-syncs-source-admin"), self._target.alias
        else:
            client, name = clients.target_admin("offset-syncs-target-admin"), self._source.alias
        factor = "offset-syncs.topic.replication.factor"
        topic = InternalTopic(policy.offset_syncs_topic(name), values[factor], factor)
        topic.ensure(client, values["admin.timeout.ms"] / 1000, self._duties.stopping)

    def _refresh(self) -> None:
        if self._refused is not None:
            return
        self._find()
        if self._known is not None and self._shared_out(self._known) != self._layout:
            self._context.reconfigure()

    def _find(self) -> None:
        """Look at the topics of the source, and prepare the target for them."""
        _, _, names = self._source.listed()
        self._tell_internal(self._selection.closed_among(names))
        seen = self._source.topics(self._without_cycles(self._selection.chosen(names)))
        topics = {name: topic for name, topic in seen.items() if isinstance(topic, Topic)}
        for name in seen.keys() - topics.keys():
            log.warning("Topic %s on %s cannot be described: %s", name, self._source.alias, seen[name])
        if self._known is not None:
            self._tell_changes(self._known.topics, topics)
        ready = self._remote_topics.ensure(topics)
        partitions = frozenset(TopicPartition(topic, number) for topic in ready for number in range(ready[topic]))
        self._known = _Findings(topics, partitions)
        try:
            self._traffic.measure(self._source.ends(partitions), time.monotonic())
        except KafkaException as error:
            log.warning("The traffic on %s is unknown: %s", self._source.alias, error.args[0].str())

    def _tell_internal(self, topics: list[str]) -> None:
        if topics and topics != self._internal:
            log.warning(
                "Topics %s are left out: they, or their copies on %s, have names of internal topics of Kafka Connect, "
                "MirrorMaker or Kafka. To copy them all the same, name this connector in %s of all workers",
                *(", ".join(topics), self._target.alias, TRUSTED),
            )
        self._internal = topics

    def _without_cycles(self, topics: list[str]) -> list[str]:
        left_out = frozenset(topic for topic in topics if self._opposite.copies_back(topic))
        if left_out and left_out != self._left_out:
            log.error(
                "Topics %s are copied from %s to %s, too, and would go round for ever: they are left out. Have one of "
                "the two flows exclude them, by topics.exclude",
                *(", ".join(sorted(left_out)), self._target.alias, self._source.alias),
            )
        self._left_out = left_out
        return [topic for topic in topics if topic not in left_out]

    def _tell_changes(self, before: Mapping[str, Topic], now: Mapping[str, Topic]) -> None:
        source, target = self._source.alias, self._target.alias
        if new := sorted(now.keys() - before.keys()):
            log.info("New topics on %s: %s", source, ", ".join(new))
        for topic in sorted(before.keys() - now.keys()):
            log.warning(
                "Topic %s on %s is gone and is not copied any more. %s on %s stays as it is: delete it if it is not "
                "needed. If the topic is still there, grant this connector's user Read on it at %s",
                *(topic, source, self._selection.remote(topic), target, source),
            )
        for topic in sorted(before.keys() & now.keys()):
            if before[topic].id != now[topic].id:
                log.warning(
                    "Topic %s on %s was deleted and created again. %s on %s keeps the old records, and the new ones "
                    "follow them: delete it before the next refresh if it is to have the new ones alone",
                    *(topic, source, self._selection.remote(topic), target),
                )
            elif before[topic].partitions != now[topic].partitions:
                log.info("Topic %s on %s has %d partitions now", topic, source, now[topic].partitions)

    def _sync_configs(self) -> None:
        if self._known is None or self._refused is not None:
            return
        copied = sorted({one.topic for one in self._known.partitions})
        try:
            self._remote_topics.sync_configs(copied)
        except ConfigError as error:
            self._context.fail(error)

    def _shared_out(self, known: _Findings) -> assignment.Layout:
        return assignment.layout(known.partitions, self._most_tasks, self._traffic.rates, self._layout)
