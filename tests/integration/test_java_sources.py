"""Java source connectors from their jars, unchanged, in a worker as users run it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.java_plugins import (
    FILE_SOURCE,
    JSON,
    TALKING,
    TEXT,
    TROUBLE,
    TROUBLE_PREDICATE,
    hosts,
    messages,
    plugin_path,
)
from tests.integration.worker_process import Topic, WorkerProcess, eventually, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def worker(worker_with_java: WorkerProcess) -> WorkerProcess:
    """A worker with Java plugins on its plugin.path."""
    return worker_with_java


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic, whose name is also that of the connector that writes it."""
    made = Topic(broker, "java")
    yield made
    worker.request("DELETE", f"/connectors/{made.name}")


def trouble(worker: WorkerProcess, topic: Topic, mode: str, **config: str) -> Path:
    """The troublesome connector exists; the file of what it notes."""
    notes = worker.folder / f"{topic.name}.notes"
    named = {"connector_class": TROUBLE, "topic": topic.name, "notes": str(notes), "mode": mode}
    worker.create(topic.name, **{**TEXT, **named, **config})
    return notes


def notes_of(path: Path) -> list[str]:
    return [line.decode() for line in lines_of(path)]


def host(worker: WorkerProcess) -> psutil.Process:
    """The worker's Java host."""
    return hosts(worker)[0]


def test_more_tasks_than_the_worker_allows_are_not_taken_over_from_java(worker: WorkerProcess, topic: Topic) -> None:
    config = {"connector.class": TROUBLE, "topic": topic.name, "mode": "crowd", "tasks.max.enforce": "false"}
    answer = worker.http.post("/connectors", json={"name": topic.name, "config": config}, timeout=90)
    assert answer.status_code == 500
    assert "it has generated 20000000 tasks, and the worker's tasks.max.limit is 5000" in answer.json()["message"]
    assert worker.get(f"/connectors/{topic.name}/tasks") == []


def test_apaches_file_source_flows_and_goes_on_at_its_offset(worker: WorkerProcess, topic: Topic) -> None:
    file = worker.folder / f"{topic.name}.txt"
    file.write_text("".join(f"line {number}\n" for number in range(5000)))
    worker.create(topic.name, connector_class=FILE_SOURCE, file=str(file), topic=topic.name, **TEXT)
    worker.wait_states(topic.name, "RUNNING", within_s=120)
    eventually(lambda: topic.end() == 5000, 60, worker.log)
    size = file.stat().st_size
    stored = [{"partition": {"filename": str(file)}, "offset": {"position": size}}]
    eventually(lambda: worker.offsets(topic.name) == stored, 60, lambda: worker.offsets(topic.name))
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name)
    with file.open("a") as more:
        more.write("one more\n")
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    eventually(lambda: topic.end() == 5001, 60, worker.log)
    assert topic.values() == [f"line {number}".encode() for number in range(5000)] + [b"one more"]


def test_the_task_learns_that_a_record_was_dropped_and_where_others_went(worker: WorkerProcess, topic: Topic) -> None:
    config = {
        "transforms": "skip,drop,route",
        "transforms.skip.type": "org.apache.kafka.connect.transforms.Filter",  # in the host, for its predicate
        "transforms.skip.predicate": "seven",
        "predicates": "seven",
        "predicates.seven.type": TROUBLE_PREDICATE,
        "predicates.seven.text": "row 7",
        "transforms.drop.type": "headrace.transforms.Sql",
        "transforms.drop.sql": "SELECT value FROM records WHERE value <> 'row 8'",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
    }
    notes = trouble(worker, topic, "count", most="10", **config)
    places = [f"{topic.name}-routed-0@{number} {1000 + number}" for number in range(7)] + ["nowhere"] * 2
    told = [f"record {number} {place}" for number, place in enumerate([*places, f"{topic.name}-routed-0@7 1009"])]
    eventually(lambda: told[-1] in notes_of(notes), 60, worker.log)
    assert [line for line in notes_of(notes) if line.startswith("record")] == told


def test_rest_shows_the_plugins_own_definition(worker: WorkerProcess) -> None:
    listed = {one["class"]: one for one in worker.get("/connector-plugins")}
    assert listed[TROUBLE]["type"] == "source"
    shown = {one["name"]: one for one in worker.get("/connector-plugins/TroubleSource/config")}
    assert shown["mode"] == {
        "name": "mode",
        "type": "STRING",
        "required": True,
        "default_value": None,
        "importance": "HIGH",
        "documentation": "What it does.",
        "group": "Trouble",
        "order_in_group": 1,
        "width": "SHORT",
        "display_name": "The mode",
        "dependents": ["secret"],
    }
    assert shown["secret"]["default_value"] == "[hidden]"
    config = {"connector.class": TROUBLE, "name": "x", "mode": "refused", "most": "none"}
    answer = worker.request("PUT", "/connector-plugins/TroubleSource/config/validate", config).json()
    values = {one["value"]["name"]: one["value"] for one in answer["configs"]}
    assert values["mode"]["errors"] == ["the outside system refuses this mode"]
    assert values["mode"]["recommended_values"] == ["count", "block"]
    assert values["most"]["errors"][0].startswith("Invalid value none for configuration most")
    assert (values["secret"]["visible"], values["mode"]["visible"]) == (False, True)
    assert "Trouble" in answer["groups"]


def test_a_plugin_runs_in_the_version_that_its_config_wants(worker: WorkerProcess, topic: Topic) -> None:
    assert [one["version"] for one in worker.get("/connector-plugins") if one["class"] == TROUBLE] == ["7.1", "7.8"]
    for wanted, version in (("7.1", "7.1"), ("[7,8)", "7.8"), ("latest", "7.8")):
        shown = worker.get(f"/connector-plugins/TroubleSource/config?version={wanted}")
        defaults = {one["name"]: one["default_value"] for one in shown}
        assert defaults["connector.plugin.version"] == version
    none = f"Plugin {TROUBLE} not found that matches the version range [9,9], available versions: [7.1, 7.8]"
    answer = worker.http.get("/connector-plugins/TroubleSource/config?version=9")
    assert (answer.status_code, answer.json()["message"]) == (404, none)
    config = {"connector.class": TROUBLE, "name": "x", "mode": "count", "connector.plugin.version": "9"}
    found = worker.request("PUT", "/connector-plugins/TroubleSource/config/validate", config).json()
    errors = {one["value"]["name"]: one["value"]["errors"] for one in found["configs"] if one["value"]["errors"]}
    assert errors == {"connector.class": [none], "connector.plugin.version": [none]}
    notes = trouble(worker, topic, "where", connector_plugin_version="[7.0,7.8)")
    eventually(lambda: "from trouble-7.1.jar" in notes_of(notes), 60, worker.log)
    whole = {**worker.get(f"/connectors/{topic.name}/config"), "connector.plugin.version": "7.8"}
    worker.request("PUT", f"/connectors/{topic.name}/config", whole)
    eventually(lambda: "from trouble-7.8.jar" in notes_of(notes), 60, worker.log)


def test_all_types_reach_the_topic_as_apaches_converter_writes_them(worker: WorkerProcess, topic: Topic) -> None:
    notes = trouble(worker, topic, "types", value_converter=JSON, errors_tolerance="all", errors_log_enable="true")
    got = messages(topic, 5)
    keys = ["with every type", "without schema", "a tombstone", "a null with schema", "again"]
    assert [json.loads(one.key())["payload"] for one in got] == keys
    assert [one.timestamp()[1] for one in got] == [5] * 5
    assert got[0].headers() == [("i", b"5"), ("s", b"t")]

    def shown(data: bytes | None) -> Any:
        return None if data is None else json.loads(data)

    written = [json.loads(line) for line in notes_of(notes)[1:8]]
    del written[4:6]
    assert [shown(one.value()) for one in got] == written
    eventually(lambda: "Spark cannot hold decimals of scale 40" in worker.log(), 60, worker.log)
    long = (
        "Field price: A decimal has 40 digits, of which Spark holds 38: 123456789012345678901234567890.5000000000. Let"
    )
    eventually(lambda: long in worker.log(), 60, worker.log)


def test_values_that_do_not_fit_their_schemas_are_failed_records(worker: WorkerProcess, topic: Topic) -> None:
    trouble(worker, topic, "odd", errors_tolerance="all", errors_log_enable="true")
    assert [one.value() for one in messages(topic, 1)] == [b"after them"]
    misfit = "The value, of the class java.util.Date, does not fit the schema that it comes with"
    eventually(lambda: f"{misfit}, of the type STRING" in worker.log(), 60, worker.log)
    assert "a transform that makes it fit" in worker.log()
    assert "java.util.Date does not have corresponding schema type" in worker.log()


def test_the_task_learns_of_its_records_and_reads_its_offsets(worker: WorkerProcess, topic: Topic) -> None:
    notes = trouble(worker, topic, "count", wanted_tasks="1")
    eventually(lambda: topic.end() == 100, 60, worker.log)
    told = [f"record {number} {topic.name}-0@{number} {1000 + number}" for number in range(100)]
    eventually(lambda: {"commit", *told} <= set(notes_of(notes)), 60, lambda: notes_of(notes))
    assert [line for line in notes_of(notes) if line.startswith("record")] == told
    wanted = [{"partition": {"z": "part-0", "a": None}, "offset": {"n": 99}}]
    eventually(lambda: worker.offsets(topic.name) == wanted, 60)
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    eventually(lambda: notes_of(notes)[-1] == "stop", 60)
    body = {"offsets": [{"partition": {"z": "part-0", "a": None}, "offset": {"n": "x"}}]}
    refused = worker.http.patch(f"/connectors/{topic.name}/offsets", json=body)
    assert refused.status_code >= 400
    assert "n is no number" in refused.text
    body["offsets"][0]["offset"] = {"n": 89}
    worker.request("PATCH", f"/connectors/{topic.name}/offsets", body)
    worker.request("PUT", f"/connectors/{topic.name}/resume")
    eventually(lambda: topic.end() == 110, 60)
    assert "start 90" in notes_of(notes)


def test_source_partitions_in_turn_have_the_offsets_of_their_last_records(worker: WorkerProcess, topic: Topic) -> None:
    trouble(worker, topic, "turns")
    wanted = [{"partition": {"of": "a"}, "offset": {"n": 4}}, {"partition": {"of": "b"}, "offset": {"n": 6}}]
    eventually(lambda: worker.offsets(topic.name) == wanted, 60, lambda: worker.offsets(topic.name))
    assert [one.value() for one in messages(topic, 7)] == [b"row %d" % number for number in range(7)]


def test_a_task_that_throws_fails_with_javas_trace(worker: WorkerProcess, topic: Topic) -> None:
    trouble(worker, topic, "throw")
    worker.wait_states(topic.name, "FAILED", within_s=60)
    trace = worker.trace(topic.name)
    assert "org.apache.kafka.connect.errors.ConnectException: it throws" in trace
    assert "Caused by: java.lang.IllegalStateException: the cause" in trace


def test_a_task_that_does_not_start_fails_and_keeps_the_host(worker: WorkerProcess, topic: Topic) -> None:
    worker.get("/connector-plugins/TroubleSource/config")  # starts the host, if nothing has
    before = host(worker).pid
    already = worker.log().count("starts in another Java host")
    trouble(worker, topic, "fail.start")
    worker.wait_states(topic.name, "FAILED", within_s=60)
    assert "ConnectException: it does not start" in worker.trace(topic.name)
    assert host(worker).pid == before
    assert worker.log().count("starts in another Java host") == already


def test_what_a_plugin_prints_is_in_the_log(worker: WorkerProcess, topic: Topic) -> None:
    trouble(worker, topic, "print")
    eventually(lambda: topic.end() == 100, 60, worker.log)
    eventually(lambda: "printed by a plugin" in worker.log(), 60)


def test_lines_of_a_plugin_have_javas_level_logger_and_the_connectors_context(
    worker: WorkerProcess, topic: Topic
) -> None:
    worker.create(topic.name, connector_class=TALKING, password="a-secret-2718", **TEXT)
    worker.wait_states(topic.name, "RUNNING")
    task, logger = f"[{topic.name}|task-0]", "org.example.talking.Task"
    eventually(lambda: f" WARN {task} on a thread of its own ({logger}:" in worker.log(), 60, worker.log)
    assert f" INFO [{topic.name}|worker] the connector starts (org.example.TalkingSource:" in worker.log()
    assert re.search(
        rf" INFO {re.escape(task)} two lines,\nof which this is the second \({logger}:\d+\)\n", worker.log()
    )
    assert f" ERROR {task} it goes wrong with [hidden] ({logger}:" in worker.log()
    trace = r"\(org\.example\.talking\.Task:\d+\)\njava\.lang\.IllegalStateException: the cause\n\tat "
    assert re.search(trace, worker.log())
    assert "a-secret-2718" not in worker.log()
    assert re.search(r"INFO printed with two words and (29|30)\d MB \(headrace\.java:", worker.log())


@pytest.mark.long
def test_levels_of_java_loggers_are_set_while_the_host_runs(worker: WorkerProcess, topic: Topic) -> None:
    worker.create(topic.name, connector_class=TALKING, **TEXT)
    worker.wait_states(topic.name, "RUNNING")
    polled = f" DEBUG [{topic.name}|task-0] polled "
    eventually(lambda: f"[{topic.name}|task-0] two lines" in worker.log(), 60)
    logger = "/admin/loggers/org.example.talking"
    assert worker.get(f"{logger}.Task")["level"] == "INFO"
    assert "org.example.talking" in worker.request("PUT", logger, {"level": "debug"}).json()
    eventually(lambda: polled in worker.log(), 60)
    assert worker.get(logger)["level"] == worker.get(f"{logger}.Task")["level"] == "DEBUG"
    assert worker.get("/admin/loggers")["org.example.talking"]["level"] == "DEBUG"
    host(worker).kill()  # the next one has the level, too
    written = worker.log().count("two lines")
    eventually(lambda: worker.log().count("two lines") > written, 60)
    written = worker.log().count(polled)
    eventually(lambda: worker.log().count(polled) > written, 60)
    worker.request("PUT", logger, {"level": "OFF"})
    said = len(worker.log())
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name)
    assert "the task stops" not in worker.log()[said:]
    worker.request("PUT", logger, {"level": "INFO"})


def test_beans_and_metrics_of_a_plugin_are_in_metrics_while_it_runs(worker: WorkerProcess, topic: Topic) -> None:
    worker.create(topic.name, connector_class=TALKING, **TEXT)
    worker.wait_states(topic.name, "RUNNING")

    def shown(name: str) -> list[tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(worker.request("GET", "/metrics").text)
        return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]

    eventually(lambda: shown("org_example_talking_Polls")[0][1] > 1, 60, lambda: shown("org_example_talking_Polls"))
    labels = {"name": "a, b", "server": topic.name}
    assert shown("org_example_talking_Connected") == [(labels, 1)]
    assert [(of, math.isnan(value)) for of, value in shown("org_example_talking_Share")] == [(labels, True)]
    assert shown("org_example_talking_Broken") == shown("org_example_talking_Name") == []
    ((of, polls),) = shown("kafka_connect_plugins_polls")
    assert of == {"connector": topic.name, "task": "0", "of": "test"}
    assert polls > 1
    assert {"process": "java"} in [of for of, _ in shown("process_resident_memory_bytes")]
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name)
    eventually(lambda: shown("org_example_talking_Polls") == shown("kafka_connect_plugins_polls") == [], 60)
    names = {line.split("{")[0].split(" ")[0] for line in worker.request("GET", "/metrics").text.splitlines()}
    assert not [name for name in names if name.startswith(("java_", "com_sun_", "JMI", "kafka_connect_kafka_metrics"))]


@pytest.mark.long
def test_an_exit_costs_no_record_and_all_tasks_of_the_host_go_on(
    worker: WorkerProcess, topic: Topic, broker: str
) -> None:
    other = Topic(broker, "java-other")
    try:
        trouble(worker, other, "count", most="50")
        eventually(lambda: other.end() == 50, 60, worker.log)
        first = host(worker).pid
        trouble(worker, topic, "exit")
        eventually(lambda: topic.end() >= 100, 120, worker.log)
        # Python's threads may still run while Java's exit takes the process down: then it ends by an abort.
        assert re.search(
            rf"Java host \(process {first}\) (ended with exit code 7|was killed by signal 6)", worker.log()
        )
        worker.wait_states(topic.name, "RUNNING")
        worker.wait_states(other.name, "RUNNING")
        assert host(worker).pid != first
        assert set(topic.values()) == {f"row {number}".encode() for number in range(100)}
    finally:
        worker.request("DELETE", f"/connectors/{other.name}")


@pytest.mark.long
def test_a_poll_that_never_returns_keeps_nobody_waiting(worker: WorkerProcess, topic: Topic, broker: str) -> None:
    trouble(worker, topic, "block")
    worker.wait_states(topic.name, "RUNNING")
    other = Topic(broker, "java-other")
    try:
        trouble(worker, other, "count")
        eventually(lambda: other.end() == 100, 60, worker.log)
    finally:
        worker.request("DELETE", f"/connectors/{other.name}")
    worker.request("PUT", f"/connectors/{topic.name}/stop")
    worker.wait_states(topic.name, within_s=60)
    eventually(lambda: "The Java task did not end" in worker.log(), 60)


@pytest.mark.long
def test_the_host_dies_with_its_worker(broker: str, tmp_path: Path) -> None:
    settings = {"plugin.path": str(plugin_path(tmp_path))}
    with WorkerProcess(tmp_path / "worker", broker, settings=settings) as worker:
        worker.wait_ready(180)
        worker.get("/connector-plugins/TroubleSource/config")
        started = host(worker)
        worker.kill()
        eventually(lambda: not started.is_running() or started.status() == psutil.STATUS_ZOMBIE, 60)


@pytest.mark.long
def test_a_java_config_provider_knows_values(worker: WorkerProcess, topic: Topic) -> None:
    (worker.folder.parent / f"{topic.name}.txt").write_text("one\n")  # in the folder that is the provider's prefix
    file = f"${{vault:{topic.name}:.txt}}"
    worker.create(topic.name, connector_class=FILE_SOURCE, file=file, unknown="${vault:none}", topic=topic.name, **TEXT)
    eventually(lambda: topic.end() == 1, 60, worker.log)
    shown = worker.get(f"/connectors/{topic.name}/config")
    assert shown["file"] == file
    for host in hosts(worker):
        host.kill()
    answer = worker.http.put(f"/connectors/{topic.name}/config", json={**shown, "file": "${vault:locked:file}"})
    assert answer.json() == {"error_code": 500, "message": "java.lang.IllegalStateException: the vault is locked"}
    worker.wait_states(topic.name, "RUNNING", within_s=120)
