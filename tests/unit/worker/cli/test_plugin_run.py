"""The parts of `headrace run`, without broker or worker: its config, its lines, its view, its log."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.worker.cli.own_worker import OwnWorker, WrongUse
from headrace.worker.cli.plugin_run import Options, run
from headrace.worker.cli.record_feed import Line, RecordFeed, WrongLine, lines_of, record_of
from headrace.worker.cli.record_view import RecordView, line_of, shown
from headrace.worker.cli.run_config import completed, connector_in, settings_of
from headrace.worker.cli.running_connector import LogLines, RunningConnector
from tests.integration.worker_process import eventually
from tests.mock_cluster import MockCluster

SOURCE = """
from headrace.plugins import Record, RecordSource, Setting

class {0}(RecordSource):
    settings = [Setting("topic")]
    def poll(self, after): return []
"""
SINK = """
from headrace.plugins import RecordSink

class {0}(RecordSink):
    def put(self, records): ...
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("run_"):
            del sys.modules[name]


def write(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def test_settings_come_as_pairs_and_files(tmp_path: Path) -> None:
    file = write(tmp_path / "a.properties", "url=http://x?a=b\ntopic = t\n")
    assert settings_of(["topic=s", str(file), "count=3", "empty="]) == {
        "topic": "t",
        "url": "http://x?a=b",
        "count": "3",
        "empty": "",
    }
    with pytest.raises(WrongUse, match="write key=value, or name a properties file"):
        settings_of(["count"])


def test_the_connector_is_the_only_one_or_the_one_that_is_named(tmp_path: Path) -> None:
    both = write(tmp_path / "run_both.py", SOURCE.format("In") + SINK.format("Out"))
    assert connector_in(both, "Out").kind == "sink"
    with pytest.raises(WrongUse, match=r"has In, Out: say which, as in --config connector\.class=In"):
        connector_in(both, None)
    sink = connector_in(write(tmp_path / "run_one.py", SINK.format("Out")), None)
    assert completed(sink, {"x": "1"}) == {
        "name": "Out",
        "connector.class": "Out",
        "tasks.max": "1",
        "topics": "records",
        "x": "1",
    }
    assert completed(sink, {"topics.regex": "a.*"}).keys() == {"name", "connector.class", "tasks.max", "topics.regex"}


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        (None, {}, "does not exist"),
        ("x =", {}, "cannot be listed: invalid syntax"),
        ("x = 1", {}, "has no source and no sink"),
        (SOURCE.format("In"), {}, "topic: Missing required configuration"),
        (SOURCE.format("In"), {"config": ("topic=t",), "input": Path("/x")}, "--input /x is no file"),
        (SOURCE.format("In"), {"config": ("topic=t",), "with_keys": True}, "--input and --keys are for sinks"),
        (SINK.format("Out"), {"config": ("topics.regex=t",)}, "set topics in place of topics.regex"),
        (SINK.format("Out") + "\nimport no_such_module", {}, "No module named 'no_such_module'"),
        (SINK.format("Out").replace("put", "push"), {}, "does not define put"),
        (SINK.format("Out"), {"config": ("errors.tolerance=some",)}, "errors.tolerance: "),
        ('# /// script\n# dependencies = ["no-such>1"]\n# ///' + SINK.format("Out"), {}, "no-such>1, which is not in"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    tmp_path: Path, text: str | None, options: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"run_{abs(hash((text, str(options))))}.py"
    if text is not None:
        write(file, text)
    assert run(Options(file, **options)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert told in said.err


@pytest.mark.parametrize(
    ("text", "with_keys", "record"),
    [
        ('{"id": 12345678901234567890}', False, Line(b'{"id": 12345678901234567890}')),
        (' "text" ', False, Line(b'"text"')),
        ("null", False, Line(None)),
        ('{"key": 1, "value": {"a": "ü"}}', True, Line('{"a": "ü"}'.encode(), b"1", [])),
        ('{"key": "k", "headers": {"h": "x", "n": 1}}', True, Line(None, b'"k"', [("h", b"x"), ("n", b"1")])),
    ],
)
def test_a_line_is_a_record(text: str, with_keys: bool, record: Line) -> None:
    assert record_of(text, with_keys) == record


@pytest.mark.parametrize(
    ("text", "with_keys", "told"),
    [
        ("text", False, 'it is no JSON .* write a text in quotes, as in "text"'),
        ('{"a": NaN}', False, "NaN is none of JSON's numbers"),
        ("[1]", True, "with --keys a line is an object such as"),
        ('{"kee": 1}', True, "with --keys a line is an object such as"),
        ('{"headers": 1}', True, "with --keys a line is an object such as"),
        ('{"value": 1e999}', True, "it is no JSON"),
    ],
)
def test_a_line_that_is_no_record_is_refused(text: str, with_keys: bool, told: str) -> None:
    with pytest.raises(WrongLine, match=told):
        record_of(text, with_keys)


def test_lines_are_whole_wherever_they_are_cut() -> None:
    reading, writing = os.pipe()
    found = lines_of(FileIO(reading))
    os.write(writing, "one\ntwo ü".encode()[:-1])
    assert next(found) == "one"
    os.write(writing, "ü\nthree".encode()[1:])
    os.close(writing)
    assert list(found) == ["two ü", "three"]


def test_lines_are_fed_shown_and_counted_once_written(tmp_path: Path) -> None:
    cluster = MockCluster()
    cluster.create("t")
    told: list[str] = []
    file = write(tmp_path / "in", '{"value": {"a": 1}}\nno\n\n{"key": 1, "headers": {"h": "x"}}')
    feed = RecordFeed(cluster.bootstrap, "t", file, True, told.append)
    feed.start()
    assert feed.ended.wait(60)
    assert [line[:25] for line in told] == ["line 2 was not sent: it i"]
    with contextlib.closing(RecordView(cluster.bootstrap)) as view:
        seen: list[str] = []

        def has_seen_both() -> bool:
            view.look_for_topics()
            seen.extend(view.lines(0.1))
            return len(seen) >= 2

        eventually(has_seen_both, 60)
        assert seen == ['t-0 @0  key=null  {"a": 1}', 't-0 @1  key=1  null  {"h": "x"}']
        assert view.written("g", ["t"]) == (0, 2)
        sink = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        sink.commit(offsets=[TopicPartition("t", 0, 2)], asynchronous=False)
        sink.close()
        assert view.written("g", ["t"]) == (2, 2)


def connector(answers: list[httpx.Response | Exception]) -> RunningConnector:
    """A connector of a worker that gives these answers."""

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://worker")
    return RunningConnector(OwnWorker(Path("/nowhere"), {}), client, {"name": "a b"})


def test_a_worker_that_starts_is_asked_again() -> None:
    starting: list[httpx.Response | Exception] = [httpx.ConnectError("refused"), httpx.Response(503)]
    made = connector([*starting, httpx.Response(201, json={})])
    made.create()
    assert made.failure is None
    refused = connector([*starting, httpx.Response(400, json={"message": "no such class"})])
    refused.create()
    assert refused.failure == "a b was refused: no such class"


def test_the_state_of_a_connector_is_that_of_all_its_parts() -> None:
    running, failed = {"state": "RUNNING", "id": 0}, {"state": "FAILED", "id": 0, "trace": "no disk\nTraceback …"}

    def status(*tasks: dict[str, Any]) -> httpx.Response:
        return httpx.Response(200, json={"name": "a b", "connector": running, "tasks": tasks})

    made = connector([httpx.ReadTimeout("slow"), httpx.Response(404), status(), status(running), status(failed)])
    assert [made.look() for _ in range(4)] == [False, False, False, True]
    assert made.failure is None
    assert not made.look()
    assert made.failure == "a b task 0 has FAILED: no disk"


class Message:
    """A record as Kafka's client gives it."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        self.topic, self.partition, self.offset = (lambda: "t"), (lambda: 0), (lambda: 7)
        self.key, self.value, self.headers = (lambda: key), (lambda: value), (lambda: headers)


def test_a_record_is_one_line_that_a_terminal_can_show() -> None:
    assert line_of(Message(b"1", '{"a":"ü"}'.encode())) == 't-0 @7  key=1  {"a":"ü"}'
    assert line_of(Message(None, None, [("h", b"x"), ("n", None)])) == 't-0 @7  key=null  null  {"h": "x", "n": "null"}'
    assert shown(b"\x1b[31m\n") == r"\x1b[31m\n"
    assert shown(b"\xff\x00") == "0xff00"
    assert shown(b"x" * 2_005).endswith("x… (5 more characters)")


def test_of_the_log_warnings_errors_and_what_a_plugin_prints_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    log = LogLines(file)
    assert list(log.new()) == []
    file.write_text(
        "[2026-01-01 00:00:00,000] INFO starts (x:1)\nprinted\n"
        "[2026-01-01 00:00:00,000] WARN still starting (headrace.rest.http.errors:43)\n"
        "[2026-01-01 00:00:00,000] WARN [a|worker] open (headrace.config.worker.allowed_hosts:203)\n[2026-01-01 00:00:00,000] WARN odd (x:1)\nhal"
    )
    assert list(log.new()) == ["printed", "[2026-01-01 00:00:00,000] WARN odd (x:1)"]
    with open(file, "a") as more:
        more.write("f\n")
    assert list(log.new()) == ["half"]
    assert list(log.new()) == []
