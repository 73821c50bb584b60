"""Apache's own MirrorMaker 2 as a dedicated process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from tests.compat.apache_process import ApacheProcess
from tests.integration.worker_process import eventually

SOURCE_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CHECKPOINT_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
HEARTBEAT_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class ApacheMirrorMaker(ApacheProcess):
    """`connect-mirror-maker` with this file, for the clusters that `arguments` name or for all."""

    main: ClassVar = "org.apache.kafka.connect.mirror.MirrorMaker"

    def __init__(self, directory: Path, settings: Mapping[str, str], clusters: tuple[str, ...] = ()) -> None:
        found = {f"{alias.strip()}.plugin.discovery": "service_load" for alias in settings["clusters"].split(",")}
        super().__init__(directory, {"plugin.discovery": "service_load", **found, **settings})
        self.arguments = ("--clusters", *clusters) if clusters else ()

    def wait_replicating(self, flow: str, tasks: int = 1, within_s: float = 60) -> Self:
        """So many tasks of a flow (`A->B`) have said that they replicate."""

        def replicating() -> bool:
            return len(set(re.findall(rf"(\S+) replicating \d+ topic-partitions {flow}:", self.log))) >= tasks

        eventually(replicating, within_s, lambda: self.log[-3000:])
        return self


def mirror_maker_settings(source: str, target: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The file of a flow from broker `source` as A to broker `target` as B, all topics, quick intervals.

    MirrorMaker's own topics have one replica, as both clusters are of one broker.
    """
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "B->A.enabled": "false",
        "replication.factor": "1",
        **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "status", "config")},
        **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
        **{f"refresh.{what}.interval.seconds": "2" for what in ("topics", "groups")},
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        **{f"{alias}.offset.flush.interval.ms": "1000" for alias in "AB"},
        **(more or {}),
    }
