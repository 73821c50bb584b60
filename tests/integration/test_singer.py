"""Singer's taps and targets by a real worker: small ones of the tests' own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fake_singer import TAP, TARGET, installed
from tests.integration import partitions
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SOURCE = {"connector.class": "SingerSource", "tap.command": "tap-fake", "sync.interval.ms": "500"}
SINK = {
    "connector.class": "SingerSink",
    "target.command": "target-fake",
    "consumer.override.session.timeout.ms": "6000",  # what a killed worker had is given to the next one soon
}
WITHIN_S = 120.0


@pytest.fixture(scope="module")
def singer_worker(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker with a tap and a target on its `plugin.path`."""
    folder = tmp_path_factory.mktemp("singer")
    path = installed(folder / "plugins", "tap-fake", TAP)
    installed(path, "target-fake", TARGET)
    if not broker_process.is_running:
        broker_process.start()
    settings = {"plugin.path": str(path), "task.shutdown.graceful.timeout.ms": "30000"}
    with WorkerProcess(folder / "worker", broker_process.bootstrap_servers, settings=settings) as worker:
        yield worker.wait_ready()


@pytest.fixture
def name(singer_worker: WorkerProcess) -> Iterator[str]:
    """The prefix of a test's topics and connectors, which are deleted at its end."""
    prefix = f"singer-{uuid.uuid4().hex[:8]}-"
    yield prefix
    for connector in singer_worker.get("/connectors"):
        singer_worker.request("DELETE", f"/connectors/{connector}")


def create(worker: WorkerProcess, name: str, config: dict[str, str], **own: object) -> None:
    prefix = "tap.config." if "tap.command" in config else "target.config."
    given = {prefix + key: value if isinstance(value, str) else json.dumps(value) for key, value in own.items()}
    worker.request("PUT", f"/connectors/{name}/config", {**config, **given})


def records(broker: str, topic: str) -> list[tuple[Any, Any]]:
    """Keys and values that a topic has now, without their schemas."""
    found = partitions.messages(broker, topic, 0)
    return [
        tuple(None if part is None else json.loads(part)["payload"] for part in (one.key(), one.value()))
        for one in found
    ]


def ids(broker: str, topic: str) -> list[int]:
    return [value["id"] for _, value in records(broker, topic)]


def processes(worker: WorkerProcess, name: str) -> list[psutil.Process]:
    """The running processes of a tap or target of this worker."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if f"{worker.folder.parent}/plugins/{name}/" in line:
            found.append(process)
    return found


def test_a_tap_flows_into_a_target_over_kills_of_the_worker_and_nothing_is_lost(
    singer_worker: WorkerProcess, broker: str, name: str, tmp_path: Path
) -> None:
    worker, file, topic, count = singer_worker, tmp_path / "stored.jsonl", f"{name}numbers", 0

    def stored() -> list[int]:
        return [json.loads(line)["record"]["id"] for line in file.read_text().splitlines()] if file.exists() else []

    for _ in range(3):
        if count:
            running = processes(worker, "tap-fake") + processes(worker, "target-fake")
            worker.kill()
            assert not psutil.wait_procs(running, timeout=60)[1]
            worker.kill_family()
            worker.start()
            worker.wait_ready()
        so_far, count = len(stored()), count + 1000
        create(worker, f"{name}tap", {**SOURCE, "topic.prefix": name}, count=count)
        create(worker, f"{name}target", {**SINK, "topics": topic}, file=str(file), store_each=100)
        eventually(lambda so_far=so_far: len(stored()) > so_far, WITHIN_S, worker.log)
    eventually(lambda: set(stored()) == set(range(count)), WITHIN_S, worker.log)
    assert list(dict.fromkeys(ids(broker, topic))) == list(range(count))
    assert worker.offsets(f"{name}tap") == [{"partition": {"tap": "tap-fake"}, "offset": {"state": '{"next":3000}'}}]
    key, value = records(broker, topic)[7]
    assert (key, value) == ({"id": 7}, {"id": 7, "text": "row 7"})
    end = len(records(broker, topic))
    eventually(lambda: worker.offsets(f"{name}target")[0]["offset"]["kafka_offset"] == end, WITHIN_S, worker.log)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("die", "CRITICAL the disk is on fire"), ("hang", "gave no sign for 1 s")],
)
def test_a_tap_that_fails_is_a_failed_task_that_goes_on_once_restarted(
    singer_worker: WorkerProcess, broker: str, name: str, tmp_path: Path, fault: str, said: str
) -> None:
    worker, mark = singer_worker, tmp_path / "mark"
    config = {**SOURCE, "topic.prefix": name, "tap.stall.timeout.ms": "1000", "sync.interval.ms": "100000"}
    create(worker, name, config, count=40, fault=fault, mark=str(mark), password="hunter2-secret")
    worker.wait_states(name, "FAILED")
    trace = worker.trace(name)
    assert said in trace
    assert "password is [hidden]" in trace
    assert "hunter2" not in worker.log()
    worker.request("POST", f"/connectors/{name}/tasks/0/restart")
    eventually(lambda: set(ids(broker, f"{name}numbers")) == set(range(40)), WITHIN_S, worker.log)
    assert list(dict.fromkeys(ids(broker, f"{name}numbers"))) == list(range(40))


def test_a_target_that_fails_is_a_failed_task_and_its_records_come_again(
    singer_worker: WorkerProcess, broker: str, name: str, tmp_path: Path
) -> None:
    worker, file, mark = singer_worker, tmp_path / "stored.jsonl", tmp_path / "mark"
    topic = f"{name}numbers"
    create(worker, f"{name}tap", {**SOURCE, "topic.prefix": name}, count=40)
    eventually(lambda: len(ids(broker, topic)) >= 40, WITHIN_S, worker.log)
    create(worker, f"{name}target", {**SINK, "topics": topic}, file=str(file), fault="die", mark=str(mark))
    worker.wait_states(f"{name}target", "FAILED")
    assert "CRITICAL the table is gone" in worker.trace(f"{name}target")
    worker.request("POST", f"/connectors/{name}target/tasks/0/restart")
    eventually(lambda: file.exists() and len(file.read_text().splitlines()) >= 40, WITHIN_S, worker.log)
    stored = [json.loads(line)["record"]["id"] for line in file.read_text().splitlines()]
    assert set(stored) == set(range(40))


def test_a_record_that_does_not_fit_is_dead_lettered_as_the_tap_sent_it(
    singer_worker: WorkerProcess, broker: str, name: str
) -> None:
    worker, letters = singer_worker, f"{name}letters"
    tolerant = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    config = {**SOURCE, "topic.prefix": name, "sync.interval.ms": "100000", **tolerant}
    create(worker, name, config, count=10, fault="misfit")
    eventually(lambda: len(ids(broker, f"{name}numbers")) == 10, WITHIN_S, worker.log)
    (letter,) = eventually(lambda: partitions.messages(broker, letters, 0), WITHIN_S, worker.log)
    assert json.loads(letter.value()) == {"id": "no number"}


def test_what_is_not_on_plugin_path_is_refused(singer_worker: WorkerProcess, name: str) -> None:
    config = {**SOURCE, "tap.command": "/bin/sh", "name": name}
    answer = singer_worker.http.put(f"/connectors/{name}/config", json=config)
    assert answer.status_code == 400
    assert "plugin.path" in answer.text
