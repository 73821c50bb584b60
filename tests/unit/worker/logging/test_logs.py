"""Log lines in Connect's layout, and levels by log4j's names."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import pytest

from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.worker.logging import logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: one.level for name, one in root.manager.loggerDict.items() if isinstance(one, logging.Logger)}
    stream = io.StringIO()
    root.handlers = []
    for name in levels:  # those that other tests left
        logging.getLogger(name).setLevel(logging.NOTSET)
    logs.set_up(stream, {"CONNECT_LOG4J_ROOT_LOGLEVEL": "warn", "CONNECT_LOG4J_LOGGERS": "test.one=TRACE"})
    yield stream
    root.handlers, root.level = handlers, level
    for name, one in root.manager.loggerDict.items():
        if isinstance(one, logging.Logger):
            one.setLevel(levels.get(name, logging.NOTSET))


def test_the_layout_is_connects_with_the_context_of_the_thread(lines: io.StringIO) -> None:
    log = logging.getLogger("test.layout")
    with logs.connector_context("src", "task-0", "offsets"):
        log.warning("flushed %d", 3)
        other = threading.Thread(target=lambda: log.error("elsewhere"))
        other.start()
        other.join()
    log.critical("after")
    stamp = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"
    patterns = [
        rf"{stamp} WARN \[src\|task-0\|offsets\] flushed 3 \(test\.layout:\d+\)",
        rf"{stamp} ERROR elsewhere \(test\.layout:\d+\)",
        rf"{stamp} FATAL after \(test\.layout:\d+\)",
    ]
    written = lines.getvalue().splitlines()
    assert len(written) == 3
    for pattern, line in zip(patterns, written, strict=True):
        assert re.fullmatch(pattern, line)


def test_contexts_nest(lines: io.StringIO) -> None:
    log = logging.getLogger("test.nest")
    with logs.connector_context("a", "worker"):
        with logs.connector_context("b", "validate"):
            log.warning("inner")
        log.warning("outer")
    assert re.findall(r"\[([ab]\|\w+)\]", lines.getvalue()) == ["b|validate", "a|worker"]


def test_a_worker_that_shares_its_process_is_named_first_in_the_threads_made_for_it_too(lines: io.StringIO) -> None:
    log = logging.getLogger("test.worker")

    def run() -> None:
        log.warning("begun")
        with logs.connector_context("a", "worker"):
            log.warning("within")

    with logs.worker_context("A->B"):
        thread = threading.Thread(target=copy_context().run, args=(run,))
    thread.start()
    thread.join()
    log.warning("other")
    assert re.findall(r"WARN (.*) \(", lines.getvalue()) == ["[A->B] begun", "[A->B|a|worker] within", "other"]


def test_a_child_logs_as_its_worker_and_all_its_threads_for_one_task() -> None:
    script = (
        "import logging, threading; from headrace.worker.logging import logs; log = logging.getLogger('test.child');"
        "logs.set_up_child('[a|task-0] '); log.info('one');"
        "logs.set_up_child('[b|task-1] '); threading.Thread(target=lambda: log.info('two')).start()"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stderr
    assert re.findall(r"^\[.{23}\] INFO (\[.*?\] \w+) \(test\.child:1\)$", said, re.MULTILINE) == [
        "[a|task-0] one",
        "[b|task-1] two",
    ]


def test_the_environment_sets_levels(lines: io.StringIO) -> None:
    logging.getLogger("test.other").info("quiet")
    logging.getLogger("test.one").debug("loud")
    assert "loud" in lines.getvalue()
    assert "quiet" not in lines.getvalue()


def test_a_level_that_is_none_is_said(lines: io.StringIO) -> None:
    stream = io.StringIO()
    logs.set_up(stream, {"CONNECT_LOG4J_ROOT_LOGLEVEL": "LOUD"})
    assert "LOUD is no level" in stream.getvalue()
    assert logs.level("root") == ("INFO", None)


def test_the_log_goes_to_a_file_and_what_plugins_print_to_standard_output(tmp_path: Path) -> None:
    script = (
        "import logging; from headrace.worker.logging import logs, redaction; logs.set_up()\n"
        "from headrace.connectors.java import log_lines\n"
        "redaction.WORKER.learn(['hunter2'])\n"
        "logs.set_level('root', 'WARN')\n"
        "for number in range(1_100):\n"
        '    for line in log_lines.parsed(\'{"seqno": %d, "password": "hunter2"}\' % number): log_lines.write(line)\n'
        "logging.getLogger('headrace.x').error('logged')"
    )
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "HEADRACE_LOG_FILE": str(tmp_path / "connect.log")},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert said.stdout == "".join(f'{{"seqno": {n}, "password": "[hidden]"}}\n' for n in range(1_100))
        assert not said.stderr
    lines = (tmp_path / "connect.log").read_text().splitlines()
    assert [re.sub(r"^\[.*?\] ", "", line) for line in lines] == ["ERROR logged (headrace.x:7)"] * 2


def test_a_file_that_cannot_be_written_is_said(
    lines: io.StringIO, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(environ={"HEADRACE_LOG_FILE": str(tmp_path / "missing" / "connect.log")})
    said = capsys.readouterr().out
    assert f"ERROR The log goes to standard output: HEADRACE_LOG_FILE={tmp_path}/missing/connect.log cannot be" in said
    assert JAVA_HOSTS.printed is None, "what plugins print is logged"


def test_levels_are_set_for_a_logger_and_all_below_it(lines: io.StringIO) -> None:
    below = logging.getLogger("test.levels.below")
    assert logs.set_level("test.levels", "DEBUG") == ["test.levels", "test.levels.below"]
    assert below.isEnabledFor(logging.DEBUG)
    assert list(logs.levels()) == sorted(logs.levels())
    level, changed = logs.levels()["test.levels"]
    assert level == "DEBUG"
    assert changed is not None
    assert logs.level("test.nothing.of.this.name") is None
    assert logs.level("root") == ("WARN", None)
    logs.set_level("test.levels", "OFF")
    assert not below.isEnabledFor(logging.CRITICAL)
    assert logs.level("test.levels.below") == ("OFF", logs.level("test.levels.below")[1])  # type: ignore[index]


@pytest.mark.parametrize("name", logs.LEVELS)
def test_every_level_is_answered_as_it_was_set(lines: io.StringIO, name: str) -> None:
    logs.set_level("test.each", name)
    assert logs.levels()["test.each"][0] == name


def test_a_line_that_quotes_a_large_request_is_cut() -> None:
    line = logging.LogRecord("headrace.rest", logging.INFO, __file__, 1, "refused: %s", ("x" * (10 << 20),), None)
    text = logs.ConnectFormatter().format(line)
    assert len(text) < 100_000
    assert text.endswith("more characters)")
