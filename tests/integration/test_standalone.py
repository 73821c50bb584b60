"""A standalone worker as users run it, with nothing in the way: processes, a real broker, files and REST."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from headrace.worker.kafka_broker import Broker
from tests.integration.worker_process import (
    SINK,
    SOURCE,
    Topic,
    WorkerProcess,
    connector_file,
    envelope,
    eventually,
    line_count,
    lines_of,
)
from tests.unit.worker.java_offsets import hash_map

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SHIPPED = Path(__file__).parents[2] / "config"
HOSTILE = [
    'a "quoted" line',
    "back\\slash \\n \\u0041 \\",
    "",
    " leading and trailing ",
    "tab\tand\x00\x01\x1f\x7fcontrol\x0b\x0c\x85",
    "ünïcödé 漢字 🎉   e\u0301",
    '{"schema":null,"payload":"not an envelope"}',
    "null",
    "x" * 70_000,
]


def classic(folder: Path, bootstrap: str) -> WorkerProcess:
    """A worker with the files that are shipped, changed only where a test must."""
    worker = WorkerProcess(folder, bootstrap)
    text = (SHIPPED / "connect-standalone.properties").read_text(encoding="utf-8")
    text = text.replace("localhost:9092", bootstrap).replace("/tmp/connect.offsets", str(worker.offset_file))
    assert bootstrap in text
    assert str(worker.offset_file) in text
    worker.worker_file.write_text(f"{text}\nlisteners={worker.url}\n", encoding="utf-8")
    for name in ("connect-file-source.properties", "connect-file-sink.properties"):
        (folder / name).write_bytes((SHIPPED / name).read_bytes())
        worker.connectors.append(folder / name)
    return worker


def append(path: Path, *lines: str, end: str = "\n") -> None:
    with open(path, "ab") as file:
        file.write("".join(line + end for line in lines).encode())


def test_the_classic_demo(broker: str, tmp_path: Path) -> None:
    file, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    append(file, "log line 1", "log line 2")
    topic = Topic.__new__(Topic)
    topic.bootstrap, topic.name = broker, "connect-test"
    with classic(tmp_path, broker) as worker:
        eventually(lambda: lines_of(sink) == [b"log line 1", b"log line 2"], 60, worker.log)
        assert topic.values() == [envelope("log line 1"), envelope("log line 2")]
        append(file, "log line 3")
        append(file, *HOSTILE)
        append(file, "with carriage return", "and another", end="\r\n")
        append(file, "unfinished", end="")
        expected = ["log line 1", "log line 2", "log line 3", *HOSTILE, "with carriage return", "and another"]
        eventually(lambda: line_count(sink) == len(expected), 20, worker.log)
        assert [line.decode() for line in lines_of(sink)] == expected
        assert [json.loads(value)["payload"] for value in topic.values()] == expected
        position = file.stat().st_size - len("unfinished")
        assert worker.offsets("local-file-source") == [
            {"partition": {"filename": "test.txt"}, "offset": {"position": position, "line": len(expected)}}
        ]
        eventually(
            lambda: (
                worker.offsets("local-file-sink")
                == [
                    {
                        "partition": {"kafka_topic": "connect-test", "kafka_partition": 0},
                        "offset": {"kafka_offset": len(expected)},
                    }
                ]
            ),
            20,
        )
        began = time.monotonic()
        family = worker.family()
        assert worker.stop() == 0
        assert time.monotonic() - began < 8
        assert psutil.wait_procs(family, timeout=2)[1] == []
        assert worker.family() == []

        append(file, " line", "while away")
        config = {"connector.class": SINK, "file": "test.sink.txt", "topics": "connect-test", "tasks.max": "1"}
        as_json = tmp_path / "sink.json"
        as_json.write_text(json.dumps({"name": "local-file-sink", "config": config}), encoding="utf-8")
        worker.connectors[1] = as_json
        worker.start()
        expected += ["unfinished line", "while away"]
        eventually(lambda: line_count(sink) >= len(expected), 60, worker.log)
        append(file, "the end")
        expected.append("the end")
        eventually(lambda: lines_of(sink)[-1:] == [b"the end"], 20, worker.log)
        assert [line.decode() for line in lines_of(sink)] == expected
        assert len(topic.values()) == len(expected)
        assert worker.stop() == 0


MANY = 70_000
"""So much backlog goes *there*."""


@pytest.fixture(scope="module")
def shared(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A worker for tests that bring their own connectors; it begins with an offset file of Apache's."""
    folder = tmp_path_factory.mktemp("shared")
    with WorkerProcess(folder, broker_process.bootstrap_servers) as worker:
        yield worker


def test_offsets_that_apache_stored_are_carried_on(
    broker_process: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("apache")
    topic, file = Topic(broker_process.bootstrap_servers, "apache"), folder / "lines.txt"
    append(file, "read by Apache", "this one too", "new here")
    stored = len("read by Apache\nthis one too\n")
    source = connector_file(folder, "was-java", connector_class=SOURCE, file=str(file), topic=topic.name)
    worker = WorkerProcess(folder, broker_process.bootstrap_servers, [source])
    key = json.dumps(["was-java", {"filename": str(file)}], separators=(",", ":")).encode()
    worker.offset_file.write_bytes(hash_map([(key, b'{"position":%d}' % stored)]))
    with worker:
        eventually(lambda: topic.end() == 1, 60, worker.log)
        append(file, "and more")
        eventually(lambda: topic.end() == 2, 20, worker.log)
        assert topic.values() == [envelope("new here"), envelope("and more")]
        (offset,) = worker.offsets("was-java")
        # How many lines Apache had read nobody knows.
        assert offset == {"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}
        assert worker.stop() == 0
    assert json.loads(worker.offset_file.read_bytes())["offsets"][0]["offset"]["position"] == file.stat().st_size
