"""MirrorCheckpointConnector: finds the consumer groups of the source cluster and divides them among tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.checkpoint.groups import ConsumerGroups
from headrace.connectors.mirror.checkpoint.task import ASSIGNED_GROUPS, MirrorCheckpointTask
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.duties import Duties
from headrace.connectors.mirror.filters import group_filter, topic_filter
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.settings import CHECKPOINT, TASK_INDEX
from headrace.connectors.mirror.source_offsets import check_offsets
from headrace.plugins.contracts import Connector, ConnectorContext, RetriableError
from headrace.plugins.grouping import group_partitions

log = logging.getLogger(__name__)

_FIRST_LISTING_S: Final = 5.0
"""A start waits so long for the first list of groups; then its wait goes on in the background."""


class MirrorCheckpointConnector(Connector):
    """Watches the groups of the source cluster that have offsets of replicated topics."""

    settings = CHECKPOINT
    undeclared = ("",)
    version = "4.3.1"
    task_class = "org.apache.kafka.connect.mirror.MirrorCheckpointTask"
    task = MirrorCheckpointTask

    def __init__(self) -> None:
        self._duties: Duties | None = None
        self._known: list[str] | None = None
        self._listed = threading.Event()

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of its settings together, and of the replication policy, filters and clients."""
        if config.get("enabled") == "false":
            return []
        found = []
        for key, why in _NEEDED.items():
            if config.get(key) == "false":
                found.append(Problem(key, "false", why))
        for make in (policy_of, topic_filter, group_filter):
            try:
                make(config)
            except ConfigError as e:
                found += e.problems
        clients = [(cluster, kind) for cluster in ("source", "target") for kind in ("admin", "consumer")]
        return found + MirrorClients(config).problems(*clients)

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Has the checkpoints topic created and begins to watch the groups. Errors: ConfigError."""
        settings = CHECKPOINT.parse(config)
        self._config, self._context = dict(config), context
        emits = settings["emit.checkpoints.enabled"] and settings["emit.checkpoints.interval.seconds"] >= 0
        self._is_enabled: bool = settings["enabled"] and emits
        if not self._is_enabled:
            return
        self._topics, self._filter = topic_filter(config), group_filter(config)
        name, setting = policy_of(config).checkpoints_topic(settings["source.cluster.alias"]), _FACTOR
        topic = InternalTopic(name, settings[setting], setting)
        clients, timeout_s = MirrorClients(config), settings["admin.timeout.ms"] / 1000
        target, source = (
            clients.target_admin("checkpoint-target-admin"),
            clients.source_admin("checkpoint-source-admin"),
        )
        duties = self._duties = Duties(clients.label)
        self._groups = ConsumerGroups(source, settings["source.cluster.alias"], timeout_s, duties.stopping)
        duties.once("creating the checkpoints topic", lambda: topic.ensure(target, timeout_s, duties.stopping))
        duties.once("loading consumer groups", self._refresh)
        if settings["refresh.groups.enabled"]:
            seconds = settings["refresh.groups.interval.seconds"]
            duties.every(seconds, "looking for new consumer groups", self._refresh)
        self._listed.wait(_FIRST_LISTING_S)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The groups in contiguous parts; none if there are no groups.

        Errors: RetriableError while they are not known: the old tasks go on, and configs are asked for again.
        """
        if not self._is_enabled:
            return []
        if self._known is None:
            raise RetriableError("Timeout while loading consumer groups.")
        return [
            {**self._config, ASSIGNED_GROUPS: ",".join(part), TASK_INDEX: str(index)}
            for index, part in enumerate(group_partitions(self._known, max_tasks))
        ]

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts an offset of 0, or null, for a group and a partition. Errors: OffsetError."""
        return check_offsets(offsets, ("group", "topic"))

    def stop(self) -> None:
        """Ends the watch."""
        if self._duties is not None:
            self._duties.stop()

    def _refresh(self) -> None:
        groups, before = self._found(), self._known
        if groups == before:
            return
        name, count = self._config.get("name"), 0 if before is None else len(before)
        log.info("Connector %s follows %d consumer groups, %d before", name, len(groups), count)
        self._known = groups
        self._listed.set()
        self._context.reconfigure()

    def _found(self) -> list[str]:
        """The passing groups with offsets of passing topics; sorted, so that the tasks of a restart get the same."""
        named = [group for group in self._groups.states() if self._filter.passes(group)]
        listed = {group for group in named if "," not in group and group == group.strip()}
        if unlisted := sorted(set(named) - listed):
            log.warning("Groups with commas or outer blanks in their names cannot be followed: %s", unlisted)
        offsets = self._groups.offsets(sorted(listed))
        return [group for group, of in offsets.items() if any(self._topics.passes(at.topic) for at in of)]


_FACTOR: Final = "checkpoints.topic.replication.factor"
_NEEDED: Final = {
    "emit.checkpoints.enabled": "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
    "emit.offset-syncs.enabled": "MirrorCheckpointConnector can't run without offset syncs",
}
"""Settings that a checkpoint connector needs enabled, with the messages if they are not."""
