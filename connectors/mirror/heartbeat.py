"""MirrorHeartbeatConnector: writes a record every second into the target cluster, as a sign that the flow is alive.

The heartbeats topic is replicated onwards. In each cluster it shows the clusters upstream, and their distance in flows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.byte_records import (
    OFFSET,
    OFFSET_TYPE,
    ROW_TYPE,
    ByteRecord,
    ByteRecordReader,
    byte_records,
)
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.duties import Duties
from headrace.connectors.mirror.formats import Heartbeat
from headrace.connectors.mirror.internal_topics import InternalTopic
from headrace.connectors.mirror.policy import policy_of
from headrace.connectors.mirror.settings import HEARTBEAT
from headrace.connectors.mirror.source_offsets import check_offsets
from headrace.plugins.contracts import (
    ArrowReader,
    Connector,
    ConnectorContext,
    Limit,
    PartitionResult,
    Place,
    Plan,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.extensions import PacedSource, SourceProgress
from headrace.plugins.records import Records

_WAIT_S: Final = 0.5
"""The longest wait of a plan for the next heartbeat."""


class MirrorHeartbeatTask(SourceTask, PacedSource, SourceProgress):
    """Makes a heartbeat at each interval."""

    place = Place.WORKER_PROCESS
    waits_for_news = True
    row_type = ROW_TYPE
    offset_type = OFFSET_TYPE

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Prepares; the first heartbeat is due at once. Errors: ConfigError."""
        settings = HEARTBEAT.parse(config)
        self._source: str = settings["source.cluster.alias"]
        self._target: str = settings["target.cluster.alias"]
        self._interval_s: int = settings["emit.heartbeats.interval.seconds"]
        self._topic = policy_of(config).heartbeats_topic()
        self._stopping = context.stopping
        self._due = time.monotonic()

    def topics(self) -> Sequence[str]:
        """The heartbeats topic."""
        return (self._topic,)

    def partitions(self) -> Sequence[SourcePartition]:
        """No partitions: no heartbeat depends on an earlier one."""
        return ()

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Plans one heartbeat if it is due."""
        if (early_s := self._due - time.monotonic()) > 0:
            self._stopping.wait(min(early_s, _WAIT_S))
            return None
        heartbeat = Heartbeat(self._source, self._target, time.time_ns() // 1_000_000)
        self._record = ByteRecord(heartbeat.key(), heartbeat.value(), heartbeat.timestamp)
        flow = {"sourceClusterAlias": self._source, "targetClusterAlias": self._target}
        return Plan((Split(flow, None, OFFSET),), 1, len(self._record.key) + len(self._record.value))

    def reader(self, plan: Plan) -> ArrowReader:
        """A reader of the heartbeat."""
        return ByteRecordReader((self._record,))

    def records(self, frame: DataFrame) -> Records:
        """Records of the heartbeats topic."""
        return byte_records(frame, self._topic)

    def delivered(self, reached: Sequence[PartitionResult]) -> None:
        """Makes the next heartbeat due; an undelivered one is made anew, with the time of then."""
        if any(one.written or one.dropped or one.bad for one in reached):
            self._due = max(self._due + self._interval_s, time.monotonic())


class MirrorHeartbeatConnector(Connector):
    """Plans one task that writes heartbeats, whatever `enabled` says, as in MirrorMaker."""

    settings = HEARTBEAT
    undeclared = ("",)
    version = "4.3.1"
    task_class = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"
    task = MirrorHeartbeatTask

    def __init__(self) -> None:
        self._duties: Duties | None = None

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of the replication policy and of the clients."""
        try:
            policy_of(config)
        except ConfigError as e:
            return e.problems
        return MirrorClients(config).problems(("target", "admin"))

    def most_tasks(self, config: Mapping[str, str]) -> int:
        """One."""
        return 1

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Has the heartbeats topic created. Errors: ConfigError."""
        settings = HEARTBEAT.parse(config)
        self._config = dict(config)
        self._emits: bool = settings["emit.heartbeats.enabled"] and settings["emit.heartbeats.interval.seconds"] >= 0
        name, setting = policy_of(config).heartbeats_topic(), "heartbeats.topic.replication.factor"
        topic = InternalTopic(name, settings[setting], setting)
        clients, timeout_s = MirrorClients(config), settings["admin.timeout.ms"] / 1000
        admin = clients.target_admin("heartbeats-target-admin")
        duties = self._duties = Duties(clients.label)
        duties.once("creating the heartbeats topic", lambda: topic.ensure(admin, timeout_s, duties.stopping))

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config, the connector's; none if heartbeats are disabled."""
        return [dict(self._config)] if self._emits else []

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts an offset of 0, or null, for a flow between two clusters. Errors: OffsetError."""
        return check_offsets(offsets, ("sourceClusterAlias", "targetClusterAlias"), has_partition=False)

    def stop(self) -> None:
        """Ends the duties."""
        if self._duties is not None:
            self._duties.stop()
