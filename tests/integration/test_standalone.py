"""A standalone worker as users run it, with nothing in the way: processes, a real broker, files and REST."""

from __future__ import annotations

import ctypes
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headrace.worker.embedded.kafka_broker import Broker
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
from tests.unit.worker.storage.java_offsets import hash_map

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
        eventually(lambda: line_count(sink) == len(expected), 60, worker.log)
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
            60,
        )
        assert worker.stop() == 0

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
        eventually(lambda: lines_of(sink)[-1:] == [b"the end"], 60, worker.log)
        assert [line.decode() for line in lines_of(sink)] == expected
        assert len(topic.values()) == len(expected)
        assert worker.stop() == 0


MANY = 70_000
"""So much backlog is a job."""


class Pipes(WorkerProcess):
    """A worker for several tests, which say how many rows they had it move."""

    moved = 0


@pytest.mark.long
def test_a_failing_test_shows_what_the_worker_was_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = WorkerProcess(tmp_path, "127.0.0.1:1")  # nobody listens there
    with pytest.raises(AssertionError, match="in vain"), worker:
        fail_once(lambda: "REST answers" in worker.log())
    shown = capsys.readouterr().err
    assert "REST answers" in shown
    assert "in wait_for_cluster" in shown


def fail_once(condition: Callable[[], bool]) -> None:
    eventually(condition, 60)
    raise AssertionError("in vain")


@pytest.fixture(scope="module")
def pipes(broker_process: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipes]:
    """Without envelopes: a batch that meets a new schema goes through Spark twice, and could not be counted."""
    settings = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    worker = Pipes(tmp_path_factory.mktemp("pipes"), broker_process.bootstrap_servers, (), settings)
    key = json.dumps(["was-java", {"filename": "java.txt"}], separators=(",", ":")).encode()
    stored = len("read by Apache\nthis one too\n")
    worker.offset_file.write_bytes(hash_map([(key, b'{"position":%d}' % stored)]))
    with worker:
        yield worker.wait_ready()


def test_offsets_that_apache_stored_are_carried_on(pipes: Pipes, broker: str) -> None:
    topic, file = Topic(broker, "apache"), pipes.folder / "java.txt"
    append(file, "read by Apache", "this one too", "new here")
    pipes.create("was-java", connector_class=SOURCE, file="java.txt", topic=topic.name)
    eventually(lambda: topic.end() == 1, 60, pipes.log)
    append(file, "and more")
    eventually(lambda: topic.end() == 2, 60, pipes.log)
    assert topic.values() == [b'"new here"', b'"and more"']
    # How many lines Apache had read nobody knows.
    offset = {"partition": {"filename": "java.txt"}, "offset": {"position": file.stat().st_size}}
    eventually(lambda: pipes.offsets("was-java") == [offset], 60, lambda: pipes.offsets("was-java"))
    eventually(lambda: b'"cluster"' in pipes.offset_file.read_bytes(), 60)
    pipes.moved += 2


def test_two_sink_tasks_share_the_partitions_as_members_of_one_group(pipes: Pipes, broker: str) -> None:
    topic, file = Topic(broker, "shared", partitions=4), pipes.folder / "shared.txt"
    pipes.create("two", connector_class=SINK, file=str(file), topics=topic.name, tasks_max="2")
    pipes.wait_states("two", "RUNNING", "RUNNING")

    def members() -> list[list[int]]:
        described = topic.admin.describe_consumer_groups(["connect-two"])["connect-two"].result(60)
        return sorted(sorted(p.partition for p in member.assignment.topic_partitions) for member in described.members)

    eventually(lambda: members() == [[0, 1], [2, 3]], 60, members)
    sent = {partition: [f"{partition}:{number}" for number in range(MANY)] for partition in range(4)}
    for partition, values in sent.items():
        topic.send([json.dumps(value).encode() for value in values], partition)
    eventually(lambda: line_count(file) >= 4 * MANY, 90, pipes.log)
    got: dict[int, list[str]] = {partition: [] for partition in sent}
    for line in lines_of(file):
        got[int(line[:1])].append(line.decode())
    assert got == sent
    eventually(lambda: sum(each["offset"]["kafka_offset"] for each in pipes.offsets("two")) == 4 * MANY, 60)
    pipes.moved += 4 * MANY


def test_lint_knows_the_cluster(pipes: Pipes, broker: str) -> None:
    topic = Topic(broker, "linted", partitions=2)
    config = {"name": "linted", "connector.class": SINK, "file": "f", "topics": topic.name, "tasks.max": "3"}
    config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "linted-dlq"}

    def rules() -> set[str]:
        answer = pipes.request("PUT", f"/connector-plugins/{SINK}/config/lint", config)
        return {one["rule"] for one in answer.json()["findings"]}

    wanted = {"tasks-over-partitions", "replication-over-brokers", "dead-letters-without-context"}
    eventually(lambda: rules() == wanted, 60, rules)


def test_a_file_goes_through_a_topic_into_a_file_in_order(pipes: Pipes, broker: str) -> None:
    topic, file, copy = Topic(broker, "copy"), pipes.folder / "lines.txt", pipes.folder / "copy.txt"
    lines = [f"{number} {'x' * 100}" for number in range(2 * MANY)]
    append(file, *lines)
    pipes.create("copy-in", connector_class=SOURCE, file=str(file), topic=topic.name)
    pipes.create("copy-out", connector_class=SINK, file=str(copy), topics=topic.name)
    eventually(lambda: line_count(copy) >= len(lines), 90, pipes.log)
    append(file, "the end")
    eventually(lambda: line_count(copy) > len(lines), 60, pipes.log)
    assert copy.read_bytes() == file.read_bytes()
    pipes.moved += 2 * (len(lines) + 1)


def test_an_operator_moves_a_source_and_a_sink_back(pipes: Pipes, broker: str) -> None:
    topic, file, copy = Topic(broker, "back"), pipes.folder / "back.txt", pipes.folder / "back-copy.txt"
    append(file, "one", "two", "three")
    pipes.create("back-in", connector_class=SOURCE, file=str(file), topic=topic.name)
    pipes.create("back-out", connector_class=SINK, file=str(copy), topics=topic.name)
    eventually(lambda: lines_of(copy) == [b"one", b"two", b"three"], 60, pipes.log)
    for name in ("back-in", "back-out"):
        pipes.request("PUT", f"/connectors/{name}/stop")
    wanted = {"offsets": [{"partition": {"filename": str(file)}, "offset": {"position": len("one\ntwo\n")}}]}
    told = pipes.request("PATCH", "/connectors/back-in/offsets", wanted).json()
    assert told == {"message": "The offsets for this connector have been altered successfully"}
    assert pipes.offsets("back-in") == wanted["offsets"]
    told = pipes.request("DELETE", "/connectors/back-out/offsets").json()
    assert told == {"message": "The offsets for this connector have been reset successfully"}
    assert pipes.offsets("back-out") == []
    for name in ("back-in", "back-out"):
        pipes.request("PUT", f"/connectors/{name}/resume")
    eventually(lambda: line_count(copy) >= 7, 60, pipes.log)
    assert lines_of(copy) == [b"one", b"two", b"three", b"one", b"two", b"three", b"three"]
    pipes.moved += 3 + 3 + 1 + 4


def terminate_in_another_thread(pid: int) -> None:
    """SIGTERM as the system may give it: to a thread of the process that is not its main one."""
    threads = (each.id for each in psutil.Process(pid).threads() if each.id != pid)
    takes_it = next(each for each in threads if not blocked(pid, each) >> (signal.SIGTERM - 1) & 1)
    assert ctypes.CDLL(None).tgkill(pid, takes_it, signal.SIGTERM) == 0


def blocked(pid: int, thread: int) -> int:
    """The signals that the thread blocks, a bit each."""
    status = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="ascii")
    return int(re.findall(r"^SigBlk:\s*(\w+)$", status, re.MULTILINE)[0], 16)


def test_stopped_it_ends_in_time_with_all_its_processes_and_no_row_went_another_way(pipes: Pipes) -> None:
    family = pipes.family()
    assert len(family) >= 2
    terminate_in_another_thread(pipes.process.pid)
    assert pipes.process.wait(60) == 0
    assert psutil.wait_procs(family, timeout=60)[1] == []
    assert pipes.family() == []
    (moved,) = re.findall(r"Rows moved: (.*) \(", pipes.log())
    rows = {how: int(count.replace(",", "")) for count, how in re.findall(r"([\d,]+) (inline|in jobs)", moved)}
    assert sum(rows.values()) == pipes.moved
    if pipes.moved > 2:
        assert rows["in jobs"] > rows["inline"] > 0
