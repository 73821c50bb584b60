"""A MirrorMaker process as an operator has it: the command, its file, its listener, its topics in two clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests import short_jvms
from tests.integration.partitions import messages
from tests.integration.worker_process import WorkerProcess

ONE_REPLICA = {
    "replication.factor": "1",
    **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
    **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "status", "config")},
    **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
}
"""For clusters of one broker."""


def two_clusters(a: str, b: str) -> dict[str, str]:
    """The file of clusters A and B, in which rebalances come faster than by default."""
    quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "scheduled.rebalance.max.delay.ms": "2000"}
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": a,
        "B.bootstrap.servers": b,
        **{f"{alias}.{key}": value for alias in "AB" for key, value in quick.items()},
        **{f"{alias}.offset.flush.interval.ms": "1000" for alias in "AB"},
        **ONE_REPLICA,
        **{f"refresh.{what}.interval.seconds": "1" for what in ("topics", "groups")},
    }


class MirrorProcess(WorkerProcess):
    """One process; it listens at `url`, for other processes too where the settings say so."""

    command: ClassVar = "connect-mirror-maker"

    def __init__(self, folder: Path, settings: Mapping[str, str], clusters: Sequence[str] = ()) -> None:
        super().__init__(folder, "")
        self.connectors = [Path("--clusters"), *map(Path, clusters)] if clusters else []
        self.configure(settings)

    def configure(self, settings: Mapping[str, str]) -> None:
        """The file has these from the process's next start on, and its listener."""
        super().configure({"listeners": self.url, **short_jvms.of_spark(), **settings})

    def health_of(self, flow: str) -> str | None:
        """The health of a flow; None while nothing answers."""
        found: str | None = self._try_get("/health").get("flows", {}).get(flow, {}).get("status")
        return found


def last_values(bootstrap: str, topic: str) -> dict[str, Any]:
    """The last value under each key of a topic of JSON; none where the topic is not there."""
    return {key.decode(): json.loads(value) if value else None for key, value in records(bootstrap, topic)}


def records(bootstrap: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of a topic of one partition, as far as it is written now; none where it is not there yet."""
    return [(message.key() or b"", message.value()) for message in messages(bootstrap, topic)]
