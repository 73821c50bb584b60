"""Records that a former release stored are read: configs, offsets, statuses and the history."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from headrace.connectors.file.offsets import FileOffset
from headrace.connectors.lake.iceberg.source.positions import position_of
from headrace.connectors.logs.files.offsets import LogOffset
from headrace.connectors.spool.offsets import FileOffset as SpoolOffset
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.model import State, TargetState, TaskId
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.compacted_topic import TopicRecord
from headrace.worker.storage.history import Revision
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.storage.status_topic import KafkaStatusStore
from tests.integration.former_records import configs, recorded
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog

DIR: Final = "{dir}"


def log_of(topic: str) -> FakeLog:
    log = FakeLog()
    for record in recorded():
        if record.topic == topic:
            log.put(record.key or "", record.value)
    return log


def test_configs_targets_and_tasks() -> None:
    cluster = ClusterConfig()
    records = [one for one in recorded() if one.topic == "configs"]
    for offset, one in enumerate(records):
        value = None if one.value is None else one.value.encode()
        cluster, _ = cluster.fold(TopicRecord((one.key or "").encode(), value, 0, offset))
    assert cluster.connectors == {name: {**config, "name": name} for name, config in configs(DIR).items()}
    assert cluster.targets["jdbc"] is TargetState.PAUSED
    assert cluster.targets["sink"] is TargetState.STOPPED
    assert cluster.tasks("file") == (TaskId("file", 0),)
    assert cluster.task_config(TaskId("file", 0))["file"] == f"{DIR}/lines.txt"
    assert cluster.session_key is not None


def test_offsets() -> None:
    store = OffsetTopic(CONFIG, log_of("offsets").open)  # type: ignore[arg-type]
    store.start(60)
    file = store.get("file", {"filename": f"{DIR}/lines.txt"})
    assert file is not None
    assert (file["position"], file["line"]) == (6, 3)
    log = store.get("logs", {"path": f"{DIR}/app.log"})
    assert log is not None
    assert log["position"] == 6
    table = store.get("jdbc", {"protocol": "1", "table": "orders"})
    assert table == {"incrementing": 3}
    assert store.partitions("gone") == [{"filename": f"{DIR}/lines.txt"}]
    store.stop()


class Reader:
    """A worker that reads statuses."""

    name = "reader:1"
    generation = 1


def test_statuses() -> None:
    store = KafkaStatusStore(CONFIG, Reader(), log_of("status").open)  # type: ignore[arg-type]
    store.start(60)
    tasks = [TaskId(name, 0) for name in ("file", "jdbc", "logs")]
    for who in ("file", "jdbc", "logs", "sink", *tasks):
        found = store.get(who)
        assert found is not None, who
        assert found.state is State.UNASSIGNED, who  # the last word of a worker that was stopped
        assert found.version, who
    assert store.get("gone") is None
    store.stop()


def test_history() -> None:
    values = [json.loads(one.value or "") for one in recorded() if one.topic == "history"]
    revisions = [Revision.of(value) for value in values]
    assert [one.value("former-configs") for one in revisions] == values
    assert [one.change for one in revisions if one.connector == "gone"] == ["config", "delete"]


FILE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
MIRROR: Final = "org.apache.kafka.connect.mirror.Mirror"
STORED: Final[list[tuple[str, dict[str, str], dict[str, Any], dict[str, Any]]]] = [
    (FILE, {"file": "/a"}, {"filename": "/a"}, {"position": 6, "line": 3, "_generation": 0, "_head": 27772540120}),
    (
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        {"mode": "timestamp+incrementing", "timestamp.column.name": "t", "incrementing.column.name": "id"},
        {"protocol": "1", "table": "public.orders"},
        {"timestamp": 1795941690759, "timestamp_nanos": 759000000, "incrementing": 3},
    ),
    (
        "headrace.connectors.LogFilesSourceConnector",
        {},
        {"path": "/app.log"},
        {"position": 6, "file": "/app.log", "_inode": 1, "_device": 2, "_head": 3, "_modified": 4},
    ),
    (f"{MIRROR}SourceConnector", {}, {"cluster": "a", "partition": 0, "topic": "t"}, {"offset": 7}),
    (f"{MIRROR}CheckpointConnector", {}, {"group": "g", "partition": 0, "topic": "t"}, {"offset": 0}),
    (f"{MIRROR}HeartbeatConnector", {}, {"sourceClusterAlias": "a", "targetClusterAlias": "b"}, {"offset": 0}),
    (
        "io.confluent.connect.replicator.ReplicatorSourceConnector",
        {},
        {"topic": "t", "partition": 0},
        {"offset": 7},
    ),
    (
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        {},
        {"task.id": 0},
        {"task.generation": 1, "current.iteration": 9, "random.seed": -5},
    ),
    ("headrace.connectors.SingerSourceConnector", {}, {"tap": "tap-x"}, {"state": '{"bookmarks":{}}'}),
    ("io.confluent.connect.http.HttpSourceConnector", {}, {"entity": ""}, {"offset": "12"}),
    (
        "com.github.castorm.kafka.connect.http.HttpSourceConnector",
        {},
        {},
        {"timestamp": "2026-11-29T00:00:00Z", "page": "2", "page.records": 5},
    ),
]
"""Offsets that sources of 0.1 store, by class, config, partition and offset."""


@pytest.mark.parametrize(("class_name", "config", "partition", "offset"), STORED, ids=lambda one: str(one)[-30:])
def test_offsets_that_each_source_stored_are_its_offsets(
    class_name: str, config: dict[str, str], partition: dict[str, Any], offset: dict[str, Any]
) -> None:
    connector = Plugins.discover().find("source", class_name).load()()
    assert connector.check_offsets(config, {"offsets": [{"partition": partition, "offset": offset}]})


def test_offsets_of_files_are_read_whole() -> None:
    """Offsets that no operator can set, and the hidden members of those that one can."""
    file = FileOffset.of({"position": 6, "line": 3, "_generation": 2, "_head": 5})
    assert file == FileOffset(6, 3, 2, 5)
    log = LogOffset.of({"position": 6, "file": "/a", "_inode": 1, "_device": 2, "_head": 3, "_modified": 4})
    assert log == LogOffset(6, "/a", 1, 2, 3, 4)
    spooled = SpoolOffset.after({"offset": 5, "_position": 40, "_of": "1-2-3", "_done": False}, "1-2-3")
    assert spooled == SpoolOffset(5, 40, "1-2-3", False)
    row = {"uuid": "u", "snapshot": 3, "whole": True, "file": 1, "row": 9, "done": False}
    assert position_of(row).stored() == row
