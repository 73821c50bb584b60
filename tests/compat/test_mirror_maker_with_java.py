"""Headrace's MirrorMaker process and Java's in one flow: they reach each other and agree on the configs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config.worker.mirror_maker import CONNECTORS
from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.errors import ConnectError
from headrace.worker.herder.rest_client import RestClient
from headrace.worker.herder.rest_paths import flow_path
from headrace.worker.storage.signing import SessionKey
from tests.compat.apache_mirror_maker import ApacheMirrorMaker
from tests.held_ports import held_port
from tests.integration.mirror_process import MirrorProcess, last_values, two_clusters
from tests.integration.worker_process import eventually

pytestmark = pytest.mark.long

CONFIGS = "mm2-configs.A.internal"
HEARTBEAT = "MirrorHeartbeatConnector"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The file of one flow between two brokers, in which processes listen for one another."""
    folder = tmp_path_factory.mktemp("clusters")
    a, b = Broker(folder / "a"), Broker(folder / "b")
    a.start()
    b.start()
    yield {
        **two_clusters(a.bootstrap_servers, b.bootstrap_servers),
        "A->B.enabled": "true",
        "B->A.emit.heartbeats.enabled": "false",
        "dedicated.mode.enable.internal.rest": "true",
        "rest.advertised.host.name": "127.0.0.1",
        "tasks.max": "3",
    }
    a.stop()
    b.stop()


def test_java_takes_our_requests_and_we_take_its_connectors_over_as_they_are(
    settings: dict[str, str], tmp_path: Path
) -> None:
    target = settings["B.bootstrap.servers"]
    url = f"http://127.0.0.1:{held_port()}"
    with ApacheMirrorMaker(tmp_path / "java", {**settings, "listeners": url}) as java:
        wanted = {"session-key", f"task-{HEARTBEAT}-0", *(f"connector-{name}" for name in CONNECTORS)}
        eventually(lambda: wanted <= last_values(target, CONFIGS).keys(), 120, lambda: java.log[-3000:], every_s=0.5)
        _post_tasks(url, target)
        # The names that discovery has for Java's plugins stand in its connectors' configs.
        shared = {key: value for key, value in java.settings.items() if key != "listeners"}
        with MirrorProcess(tmp_path / "ours", shared) as ours:
            ours.wait_ready(120)
            assert "This process leads" not in ours.log()
            java.kill()
            eventually(lambda: ours.log().count("is up to date") == 3, 120, lambda: ours.log()[-3000:])
            assert ours.health_of("A->B") == "healthy"


def _post_tasks(url: str, target: str) -> None:
    """Java's leader writes the tasks that a follower sends, signed with the flow's key; it knows no other flow."""
    found = last_values(target, CONFIGS)
    key = SessionKey.of_value(found["session-key"])
    tasks = [{**found[f"task-{HEARTBEAT}-0"]["properties"], "client.rack": "sent"}]
    with RestClient(under=flow_path("A", "B")) as client:
        client.post_tasks(url, HEARTBEAT, tasks, key)
    written = last_values(target, CONFIGS)[f"task-{HEARTBEAT}-0"]["properties"]
    assert written["client.rack"] == "sent"
    with (
        RestClient(under=flow_path("A", "C")) as client,
        pytest.raises(ConnectError, match="No replication flow found for source 'A' and target 'C'") as refused,
    ):
        client.post_tasks(url, HEARTBEAT, tasks, key)
    assert refused.value.status == 404
