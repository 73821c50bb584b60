"""Failures of one task: everything before is written, no other task fails, and mended and restarted it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    envelope,
    eventually,
    line_count,
    lines_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NO_JSON = b"{no json"


def committed(worker: WorkerProcess, sink: str) -> dict[int, int]:
    """The sink's committed offsets by partition."""
    return {each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"] for each in worker.offsets(sink)}


def test_a_sink_whose_folder_is_missing_fails_alone_and_goes_on_once_mended(
    worker: WorkerProcess, broker: str, tmp_path: Path
) -> None:
    topic = Topic(broker, "folder")
    topic.send([envelope(f"line {number}") for number in range(10)])
    missing = tmp_path / "no" / "such" / "folder" / "sink.txt"
    worker.create("no-folder", connector_class=SINK, topics=topic.name, file=str(missing))
    worker.create("neighbour", connector_class=SINK, topics=topic.name, file=str(tmp_path / "neighbour.txt"))
    worker.wait_states("no-folder", "FAILED")
    status = worker.get("/connectors/no-folder/status")
    assert status["connector"]["state"] == "RUNNING"
    assert str(missing) in worker.trace("no-folder")
    assert "Create its directory" in worker.trace("no-folder")
    eventually(lambda: line_count(tmp_path / "neighbour.txt") == 10, 60, worker.log)
    assert worker.states("neighbour") == ["RUNNING"]

    missing.parent.mkdir(parents=True)
    worker.request("POST", "/connectors/no-folder/tasks/0/restart")
    eventually(lambda: line_count(missing) == 10, 60, worker.log)
    worker.wait_states("no-folder", "RUNNING")
    assert "trace" not in worker.get("/connectors/no-folder/status")["tasks"][0]


@pytest.mark.parametrize(("before", "after"), [(5, 5), (70_000, 70_000)], ids=["here", "there"])
def test_a_record_that_is_no_json_stops_its_sink_behind_the_one_before(
    worker: WorkerProcess, broker: str, tmp_path: Path, before: int, after: int
) -> None:
    topic, sink = Topic(broker, "no-json"), tmp_path / "sink.txt"
    values = [f"line {number}" for number in range(before + after)]
    topic.send([*map(envelope, values[:before]), NO_JSON, *map(envelope, values[before:])])
    name = f"no-json-{before}"
    config = {"connector.class": SINK, "topics": topic.name, "file": str(sink), "tasks.max": "1"}
    worker.request("PUT", f"/connectors/{name}/config", config)
    worker.wait_states(name, "FAILED")
    assert (f"{name}-0: a job moved " in worker.log()) == (before > 5)
    trace = worker.trace(name)
    assert f"{topic.name}-0 at offset {before}" in trace
    assert "VALUE_CONVERTER" in trace
    assert "JsonConverter" in trace
    assert lines_of(sink) == [value.encode() for value in values[:before]]
    eventually(lambda: committed(worker, name) == {0: before}, 60)

    worker.request("POST", f"/connectors/{name}/tasks/0/restart")
    worker.wait_states(name, "FAILED")
    assert lines_of(sink) == [value.encode() for value in values[:before]]

    worker.request("PUT", f"/connectors/{name}/config", {**config, "errors.tolerance": "all"})
    eventually(lambda: committed(worker, name) == {0: len(values) + 1}, 60, worker.log)
    assert lines_of(sink) == [value.encode() for value in values]
    assert worker.states(name) == ["RUNNING"]
    assert f"1 records of {topic.name}-0 were left out (errors.tolerance=all)" in worker.log()


@pytest.mark.parametrize(("before", "after"), [(5, 5), (100_000, 30_000)], ids=["here", "there"])
def test_a_record_too_large_for_its_topic_stops_its_source_or_is_left_out(
    worker: WorkerProcess, broker: str, tmp_path: Path, before: int, after: int
) -> None:
    topic, file = Topic(broker, "too-large", config={"max.message.bytes": "20000"}), tmp_path / "lines.txt"
    values = [f"line {number:09d} {'x' * 90}" for number in range(before + after)]
    lines = [*values[:before], "y" * 50_000, *values[before:]]
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    name = f"too-large-{before}"
    config = {"connector.class": SOURCE, "topic": topic.name, "file": str(file), "tasks.max": "1"}
    worker.request("PUT", f"/connectors/{name}/config", config)
    worker.wait_states(name, "FAILED", within_s=90)
    assert (f"{name}-0: a job moved " in worker.log()) == (before > 5)
    trace = worker.trace(name)
    assert f"a record of {len(envelope('y' * 50_000))} bytes" in trace
    assert topic.name in trace
    assert "max.message.bytes" in trace
    assert topic.values() == [envelope(value) for value in values[:before]]
    (offset,) = worker.offsets(name)
    assert offset["offset"]["line"] == before

    worker.request("PUT", f"/connectors/{name}/config", {**config, "errors.tolerance": "all"})
    eventually(lambda: [one["offset"]["line"] for one in worker.offsets(name)] == [len(lines)], 90, worker.log)
    assert topic.values() == [envelope(value) for value in values]
    assert worker.states(name) == ["RUNNING"]
    assert f"Left out: KAFKA_PRODUCE: a record of {len(envelope('y' * 50_000))} bytes" in worker.log()


def test_wrong_settings_are_told_all_at_once(worker: WorkerProcess) -> None:
    config = {"connector.class": SOURCE, "tasks.max": "none", "errors.tolerance": "some"}
    answer = worker.http.put("/connectors/wrong/config", json=config)
    assert answer.status_code == 400
    body = answer.json()
    assert body["error_code"] == 400
    for key in ("tasks.max", "errors.tolerance", "topic"):
        assert key in body["message"], json.dumps(body)
    assert "wrong" not in worker.get("/connectors")
