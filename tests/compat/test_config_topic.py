"""The config topic between Apache's worker and ours: each reads what the other wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.plugins.interop.java.jackson import java_json
from headrace.worker.model import TargetState
from headrace.worker.storage.compacted_topic import CompactedTopic, TopicRecord, TopicSettings
from headrace.worker.storage.config_topic import ConfigTopic
from headrace.worker.storage.signing import SessionKey
from tests.compat.apache_worker import ApacheWorker
from tests.integration.test_compacted_topic import worker
from tests.integration.worker_process import SOURCE, eventually

pytestmark = pytest.mark.kafka

SOON_S = 60


def test_apache_and_headrace_read_each_other(broker: str, tmp_path: Path) -> None:
    group = "compat-configs"
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n")

    def config(name: str) -> dict[str, str]:
        return {"name": name, "connector.class": SOURCE, "tasks.max": "1", "file": str(lines), "topic": "compat-lines"}

    ours = ConfigTopic(worker(broker, group))
    with ApacheWorker(tmp_path / "apache", broker, group) as java:
        java.wait_ready()
        try:
            ours.start(SOON_S)
            _we_read_what_java_wrote(ours, java, config("j"))
            _what_java_wrote_is_what_we_write(broker, group)
            _java_reads_what_we_write(ours, java, config("h"))
        finally:
            ours.stop()
    assert " ERROR " not in java.log


def _we_read_what_java_wrote(ours: ConfigTopic, java: ApacheWorker, config: dict[str, str]) -> None:
    java.request("POST", "/connectors", {"name": "j", "config": config})
    eventually(lambda: java.states("j") == ["RUNNING", "RUNNING"], SOON_S)
    java.request("PUT", "/connectors/j/stop")
    eventually(lambda: java.states("j") == ["STOPPED"], SOON_S)
    stopped = ours.refresh(SOON_S)
    assert (stopped.targets["j"], stopped.tasks("j")) == (TargetState.STOPPED, ())
    java.request("PUT", "/connectors/j/resume")
    eventually(lambda: java.states("j") == ["RUNNING", "RUNNING"], SOON_S)
    cluster = ours.refresh(SOON_S)
    assert (cluster.connectors, cluster.targets) == ({"j": config}, {"j": TargetState.STARTED})
    shown = java.get("/connectors/j/tasks")
    assert [{"id": task._asdict(), "config": cluster.task_config(task)} for task in cluster.tasks("j")] == shown
    assert cluster.session_key is not None
    assert cluster.session_key.made_as("HmacSHA256")


def _what_java_wrote_is_what_we_write(broker: str, group: str) -> None:
    records: list[TopicRecord] = []
    topic = CompactedTopic(TopicSettings.of(worker(broker, group), "config"), records.append)
    topic.start(SOON_S)
    topic.stop()
    values = {record.key: record.value for record in records if record.value is not None}
    assert len(values) == 5  # connector, task, commit, target, session key
    assert {key: java_json(json.loads(value)).encode() for key, value in values.items()} == values


def _java_reads_what_we_write(ours: ConfigTopic, java: ApacheWorker, config: dict[str, str]) -> None:
    ours.put_connector("h", config, TargetState.PAUSED)
    eventually(lambda: java.states("h") == ["PAUSED"], SOON_S)
    assert java.get("/connectors/h/config") == config
    task = {**config, "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask", "ours": "yes"}
    ours.put_tasks("h", [task])
    eventually(lambda: [shown["config"] for shown in java.get("/connectors/h/tasks")] == [task], SOON_S)
    ours.put_target("h", TargetState.STOPPED)
    eventually(lambda: java.states("h")[:1] == ["STOPPED"], SOON_S)
    ours.put_tasks("h", [])
    ours.put_target("h", TargetState.STARTED)
    eventually(lambda: java.states("h") == ["RUNNING", "RUNNING"], SOON_S)
    ours.put_connector("h", config)  # the tasks are published again, and go on
    eventually(lambda: java.states("h") == ["RUNNING", "RUNNING"], SOON_S)
    ours.put_session_key(SessionKey.generate())
    ours.put_restart("h", include_tasks=True, only_failed=False)
    ours.put_level("org.example", "TRACE")
    eventually(lambda: java.get("/admin/loggers/org.example").get("level") == "TRACE", SOON_S)
    eventually(lambda: java.states("h") == ["RUNNING", "RUNNING"], SOON_S)
    assert "estart" in java.log
    ours.remove_connector("h")
    eventually(lambda: java.get("/connectors") == ["j"], SOON_S)
    java.request("POST", "/connectors", {"name": "h", "config": config})  # Java takes the name again
    eventually(lambda: java.states("h") == ["RUNNING", "RUNNING"], SOON_S)
    assert ours.refresh(SOON_S).tasks("h")
