"""Workers of a cluster, as an operator has them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.integration.worker_process import WorkerProcess, eventually


def cluster_settings(cluster: str, delay_ms: int = 3000) -> dict[str, str]:
    """The settings that all workers of a cluster share, Java's too; rebalances come faster than by default."""
    return {
        "group.id": cluster,
        "config.storage.topic": f"{cluster}-configs",
        "offset.storage.topic": f"{cluster}-offsets",
        "status.storage.topic": f"{cluster}-status",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "scheduled.rebalance.max.delay.ms": str(delay_ms),
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        # The tasks of a killed worker are soon out of a sink's consumer group, too.
        "consumer.session.timeout.ms": "6000",
    }


class ClusterWorker(WorkerProcess):
    """One worker of a cluster."""

    command: ClassVar = "connect-distributed"

    def __init__(self, folder: Path, bootstrap: str, cluster: str, settings: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        super().__init__(folder, bootstrap, settings={**cluster_settings(cluster), **(settings or {})})

    @property
    def worker_id(self) -> str:
        """Its name in statuses."""
        return self.url.removeprefix("http://")

    def _storage(self) -> dict[str, str]:
        return {}


def new_cluster() -> str:
    """A name that no other test's cluster has."""
    return f"cluster-{uuid.uuid4().hex[:8]}"


def owners(worker: WorkerProcess) -> dict[str, str]:
    """The worker of each RUNNING part, by the statuses that a worker shows: connectors by name, tasks as `name-0`."""
    found: dict[str, str] = {}
    for name, shown in worker.get("/connectors?expand=status").items():
        for key, one in _parts(name, shown["status"]):
            if one["state"] == "RUNNING":
                found[key] = one["worker_id"]
    return found


def wait_balanced(worker: WorkerProcess, among: int, items: int, within_s: float = 120) -> dict[str, str]:
    """Everything runs, shared among so many workers as evenly as it can be."""

    def balanced() -> dict[str, str] | None:
        found = owners(worker)
        for kind in ([k for k in found if "-" not in k], [k for k in found if "-" in k]):
            shares = [sum(found[k] == w for k in kind) for w in set(found.values())]
            if len(set(found.values())) != among or (shares and max(shares) - min(shares) > 1):
                return None
        return found if len(found) == items else None

    result: dict[str, str] = eventually(balanced, within_s, lambda: str(owners(worker)))
    return result


def _parts(name: str, status: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, status["connector"]), *((f"{name}-{task['id']}", task) for task in status["tasks"])]
