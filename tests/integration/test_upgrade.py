"""A worker on the internal topics of a former release: it goes on there, and writes what that one reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration import partitions
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.former_records import HISTORY, fill, internal, members, recorded, states, write
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

NEW = 4


def test_it_goes_on_where_the_former_release_stopped(broker: str, tmp_path: Path) -> None:
    folder, cluster = tmp_path / "d", new_cluster()
    folder.mkdir()
    for number in (1, 2, 3):
        fill(folder, number)
    write(broker, cluster, folder)
    fill(folder, NEW)
    before = len(list(internal(broker, cluster)))
    settings = {HISTORY: f"{cluster}-history", "config.history.replication.factor": "1"}
    with ClusterWorker(tmp_path / "worker", broker, cluster, settings) as worker:
        worker.wait_ready()
        eventually(lambda: states(worker, "jdbc") == ["PAUSED", "PAUSED"], 60, worker.log)
        eventually(lambda: states(worker, "sink") == ["STOPPED"], 60, worker.log)
        assert sorted(worker.get("/connectors")) == ["file", "jdbc", "logs", "sink"]
        worker.request("PUT", "/connectors/jdbc/resume")
        for topic in ("former-file", "former-logs", "former-orders"):
            eventually(lambda topic=topic: partitions.messages(broker, topic), 120, worker.log)
        read = {topic: values(broker, topic) for topic in ("former-file", "former-logs", "former-orders")}
        assert read == {"former-file": [NEW], "former-logs": [NEW], "former-orders": [NEW]}
        eventually(lambda: stored(worker, "jdbc") == [{"incrementing": NEW}], 60, worker.log)
        assert worker.stop() == 0
    written = list(internal(broker, cluster))
    assert len(written) > before
    known = set().union(*map(members, recorded()))
    assert set().union(*map(members, written)) - known == set()


def values(bootstrap: str, topic: str) -> list[int]:
    """The numbers in the topic's records, which are plain or of a schema."""
    found = [json.loads(message.value() or b"") for message in partitions.messages(bootstrap, topic)]
    payloads = [one["payload"] if isinstance(one, dict) else one for one in found]
    return [int(one["id"] if isinstance(one, dict) else one) for one in payloads]


def stored(worker: ClusterWorker, name: str) -> list[object]:
    """The connector's offsets."""
    return [one["offset"] for one in worker.get(f"/connectors/{name}/offsets")["offsets"]]
