"""A broker that goes away costs nothing but time; another cluster is not taken for the one the offsets are of."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from headrace.worker.embedded.kafka_broker import Broker, cluster_id
from tests.held_ports import held_port
from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    connector_file,
    envelope,
    eventually,
    first_arrivals,
    line_count,
    lines_of,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


def append(path: Path, first: int, count: int) -> list[str]:
    lines = [f"{number:09d} {'x' * 90}" for number in range(first, first + count)]
    with open(path, "a", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    return lines


def has_lines(sink: Path, count: int, worker: WorkerProcess) -> None:
    eventually(lambda: line_count(sink) >= count, 180, worker.log)


@pytest.mark.parametrize(("away_s", "session_s"), [(8, 6), pytest.param(60, 45, marks=pytest.mark.soak)])
def test_a_worker_waits_for_its_broker_and_loses_nothing_when_it_goes_away(
    broker: str, broker_process: Broker, tmp_path: Path, away_s: float, session_s: int
) -> None:
    """The sink's consumer joins anew, and the broker waits for its former self as long as a session lasts."""
    topic, file, sink = Topic(broker, "away"), tmp_path / "lines.txt", tmp_path / "sink.txt"
    connectors = [
        connector_file(tmp_path, "source", connector_class=SOURCE, file=str(file), topic=topic.name),
        connector_file(tmp_path, "sink", connector_class=SINK, file=str(sink), topics=topic.name),
    ]
    settings = {"consumer.session.timeout.ms": str(session_s * 1000), "health.kafka.away.ms": "1000"}
    lines = append(file, 0, 10)
    broker_process.stop()
    try:
        with WorkerProcess(tmp_path, broker, connectors, settings) as worker:
            eventually(lambda: "`headrace kafka start` would start one here" in worker.log(), 60, worker.log)
            assert worker.get("/")["version"]
            assert worker.http.get("/connectors").status_code == 503, "they are not created yet"
            assert worker.process.poll() is None
            broker_process.start()
            eventually(lambda: line_count(sink) == 10, 60, worker.log)
            assert worker.request("GET", "/health?strict").status_code == 200

            for count in (100, 150_000):  # here, and there
                broker_process.stop()
                lines += append(file, len(lines), count)
                eventually(lambda: worker.http.get("/health?strict").status_code == 503, 60, worker.log)
                assert worker.get("/health")["status"] == "healthy"
                time.sleep(away_s)  # that it is away for so long is what is tried
                assert worker.states("source") == worker.states("sink") == ["RUNNING"]
                broker_process.start()
                has_lines(sink, len(lines), worker)
                assert worker.states("source") == worker.states("sink") == ["RUNNING"]
            assert first_arrivals(topic.values()) == [envelope(line) for line in lines]
            assert first_arrivals(lines_of(sink)) == [line.encode() for line in lines]
            broker_process.stop()
            append(file, len(lines), 10)
            assert worker.stop(within_s=60) == 0
            assert "the task failed" not in worker.log()
            assert worker.log().count("\n") < 1000, "an outage must not flood the log"
            assert not re.search("^FAIL", worker.log(), re.MULTILINE), "Spark's Python workers log as the worker does"
    finally:
        if not broker_process.is_running:
            broker_process.start()


def test_a_worker_that_never_finds_its_broker_can_be_stopped(tmp_path: Path) -> None:
    with WorkerProcess(tmp_path, f"127.0.0.1:{held_port()}") as worker:
        eventually(lambda: "waiting" in worker.log(), 60, worker.log)
        # A terminal that closes ends it as a signal to stop does; under nohup the tests' processes ignore that.
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        worker.process.send_signal(signal.SIGTERM if is_ignored else signal.SIGHUP)
        assert worker.process.wait(60) == 0
        eventually(lambda: worker.family() == [], 60, worker.family)


def test_the_offsets_of_another_cluster_are_refused_until_they_are_accepted(broker: str, tmp_path: Path) -> None:
    topic, file = Topic(broker, "cluster"), tmp_path / "lines.txt"
    lines = append(file, 0, 3)
    source = connector_file(tmp_path, "source", connector_class=SOURCE, file=str(file), topic=topic.name)
    offset = {"position": len(lines[0]) + 1, "line": 1}
    rows = [{"connector": "source", "partition": {"filename": str(file)}, "offset": offset}]
    stored = json.dumps({"cluster": "of-another-time", "offsets": rows})
    here = cluster_id(broker, timeout_s=60)
    assert here is not None

    worker = WorkerProcess(tmp_path, broker, [source])
    worker.offset_file.write_text(stored, encoding="utf-8")
    with worker:
        assert worker.process.wait(60) == 3
        assert "belong to Kafka cluster of-another-time" in worker.log()
        assert f"cluster.id.accept={here}" in worker.log()
        assert worker.offset_file.read_text(encoding="utf-8") == stored
        eventually(lambda: worker.family() == [], 60, worker.family)
    with WorkerProcess(tmp_path, broker, [source], {"cluster.id.accept": here}) as worker:
        eventually(lambda: topic.end() == 2, 60, worker.log)
        assert topic.values() == [envelope(line) for line in lines[1:]]
        assert worker.stop() == 0
        assert json.loads(worker.offset_file.read_bytes())["cluster"] == here
