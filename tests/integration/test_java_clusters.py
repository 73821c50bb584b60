"""Java connectors in clusters: they move between a worker of Java and ours, at their positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cluster_worker import new_cluster
from tests.integration.java_plugins import FILE_SINK, FILE_SOURCE, hosts, plugin_path
from tests.integration.mixed_cluster import Pipe, check_well, java_worker, move, our_worker, wait_shared
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


def test_java_connectors_move_over_and_back(broker: str, tmp_path: Path) -> None:
    cluster, pipe = new_cluster(), Pipe("jars", broker, tmp_path, tasks=2)
    settings = {
        "plugin.path": str(plugin_path(tmp_path)),
        "java.plugins.preferred": f"{FILE_SOURCE},{FILE_SINK}",
        "task.restart.backoff.ms": "200",
    }
    with java_worker(tmp_path / "java", broker, cluster) as java:
        java.wait_ready()
        pipe.create(java)
        wait_shared(pipe.items, [java])
        move([pipe], "Java alone")
        with our_worker(tmp_path / "ours", broker, cluster, settings) as ours:
            ours.wait_ready()
            wait_shared(pipe.items, [java, ours])
            move([pipe], "both")
            check_well(java)
            java.stop()
            wait_shared(pipe.items, [ours])
            move([pipe], "ours alone")
            pipe.wait_stored(ours)
            (host,) = hosts(ours)
            host.kill()
            eventually(lambda: not host.is_running() and hosts(ours), 60, ours.log)
            wait_shared(pipe.items, [ours])
            move([pipe], "in another host")
            pipe.wait_stored(ours)
            ours.kill()
            java.start()
            java.wait_ready()
            wait_shared(pipe.items, [java])
            move([pipe], "Java alone again")
        check_well(java)
