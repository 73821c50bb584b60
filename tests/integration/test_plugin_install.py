"""`headrace plugins install` with the real Ivy and Maven Central, and what a scan finds in what it installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.plugins.jars import DiscoveryMode, scan
from headrace.worker.cli.plugin_install import install
from headrace.worker.cli.plugin_path import run
from headrace.worker.machine.plugin_archives import Coordinates, UnknownArtifactError

DEBEZIUM = "io.debezium:debezium-connector-postgres:3.5.0.Final"


def test_archives_and_jars_are_installed_and_found_by_class_and_once_synced_by_manifest(tmp_path: Path) -> None:
    for artifact in (DEBEZIUM, "org.apache.kafka:connect-file:4.3.1", "org.mongodb.kafka:mongo-kafka-connect:1.13.0"):
        plugin, new = install(Coordinates.parse(artifact), tmp_path)
        assert new
        assert not [jar for jar in plugin.folder.iterdir() if jar.name.startswith(("kafka-clients", "connect-api"))]
    found = scan([str(tmp_path)], DiscoveryMode.ONLY_SCAN)
    # MongoDB's plugin has no manifests.
    assert {one.location.name for one in set(found) - set(scan([str(tmp_path)], DiscoveryMode.SERVICE_LOAD))} == {
        "mongo-kafka-connect-1.13.0"
    }
    assert run(["sync-manifests", "--plugin-path", str(tmp_path)]) == 0
    assert [(one.kind, one.class_name) for one in scan([str(tmp_path)], DiscoveryMode.SERVICE_LOAD)] == [
        (one.kind, one.class_name) for one in found
    ]
    named = {(plugin.kind, plugin.class_name, plugin.version) for plugin in found}
    assert {
        ("source", "io.debezium.connector.postgresql.PostgresConnector", "3.5.0.Final"),
        ("transformation", "io.debezium.transforms.ExtractNewRecordState", "3.5.0.Final"),
        ("source", "org.apache.kafka.connect.file.FileStreamSourceConnector", "4.3.1"),
        ("sink", "com.mongodb.kafka.connect.MongoSinkConnector", "1.13.0"),
    } <= named


def test_an_unknown_artifact_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownArtifactError, match=r"has no org\.apache\.kafka:connect-file:0\.0\.1"):
        install(Coordinates.parse("org.apache.kafka:connect-file:0.0.1"), tmp_path)
    assert list(tmp_path.iterdir()) == []
