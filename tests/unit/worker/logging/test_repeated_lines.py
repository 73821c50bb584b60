"""Repeated lines are counted: neither a client nor a loop fills a disk with one text."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from headrace.worker.logging import logs, repeated_lines
from headrace.worker.logging.redaction import Redaction
from headrace.worker.logging.repeated_lines import LeftOut, RepeatedLines


def line(text: str, name: str = "headrace.worker.kafka.writer.client", level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord(name, level, __file__, 1, text, None, None)


class Lines:
    """The lines that pass, and the counts of others, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.counts: list[logging.LogRecord] = []
        self.context = ""
        self.filter = RepeatedLines(
            self.counts.append, lambda: self.context, logging.LogRecord.getMessage, lambda: self.now
        )

    def passes(self, record: logging.LogRecord) -> bool:
        return bool(self.filter.filter(record))


def test_a_line_may_say_that_it_has_no_trace() -> None:
    without = line("no trace")
    without.exc_info = False  # type: ignore[assignment]  # as `log.error(…, exc_info=False)` makes it
    assert Lines().passes(without)


def test_equal_lines_of_a_client_pass_once_until_ten_seconds_without_them() -> None:
    lines = Lines()
    assert lines.passes(line("no answer (after 0ms)"))
    assert not lines.passes(line("no answer (after 12ms)"))
    assert lines.passes(line("refused"))
    assert lines.passes(line("no answer (after 0ms)", "headrace.worker.tasks.sink.client"))
    assert lines.passes(line("no answer (after 0ms)", "kafka.net.manager"))
    assert not lines.passes(line("no answer (after 1ms)", "kafka.net.manager"))
    lines.now = 10.0
    assert lines.passes(line("no answer (after 0ms)"))
    assert not lines.passes(line("no answer (after 0ms)"))


def test_a_line_that_goes_on_is_counted_over_periods_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    written = []
    for second in range(2_000):
        lines.now = float(second)
        written += [second for _ in range(40) if lines.passes(line("Connection refused"))]
    assert written == [0]
    told = [one.getMessage().partition(":")[0] for one in lines.counts]
    assert told[:3] == [
        f"{n} lines like this one were left out within {s} s" for n, s in (("399", 10), ("800", 20), ("1,600", 40))
    ]
    assert len(told) == 8
    lines.now += 11
    assert lines.passes(line("Connection refused"))


def test_a_loop_s_line_is_written_ten_times_and_then_counted() -> None:
    lines = Lines()
    name = "asyncio"
    assert sum(lines.passes(line(f"socket.accept() failed {i}", name)) for i in range(50_000)) == 10
    lines.now = 10.0
    assert lines.passes(line("else", name))
    (counted,) = lines.counts
    assert counted.getMessage() == ("49,990 lines like this one were left out within 10 s: socket.accept() failed 10")
    assert (counted.name, counted.levelno) == (name, logging.ERROR)


def test_different_lines_of_one_place_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_lines, "MOST_OF_PLACE", 100)
    lines = Lines()
    texts = ["".join(chr(97 + int(digit)) for digit in str(i)) for i in range(500)]
    assert sum(lines.passes(line(text, "headrace.x")) for text in texts) == 100


def test_few_lines_and_those_of_debug_pass() -> None:
    lines = Lines()
    assert all(lines.passes(line("again", "headrace.worker.tasks.task")) for _ in range(10))
    assert all(lines.passes(line("a record", "headrace.x", logging.DEBUG)) for _ in range(2_000))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_lines, "_MOST_KEPT", 50)
    lines = Lines()
    for i in range(500):
        lines.passes(line(chr(1000 + i), "headrace.x"))
    assert len(lines.filter._seen) <= 52


def test_lines_that_name_others_are_not_equal() -> None:
    lines = Lines()
    assert all(lines.passes(line(f"Connector orders-{i} failed", "headrace.worker.hosting")) for i in range(50))
    access = "org.apache.kafka.connect.runtime.rest.RestServer"
    assert all(lines.passes(line(f'"PUT /connectors/orders-{i} HTTP/1.1"', access)) for i in range(50))
    assert sum(lines.passes(line(f'"GET /connectors HTTP/1.1" 200 {i}', access)) for i in range(50)) == 10
    assert sum(lines.passes(line("Invalid HTTP request received.", "uvicorn.error")) for _ in range(50)) == 1


def test_each_connector_s_lines_are_counted_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines()
    for i in range(20):
        lines.context = f"[orders-{i}|task-0] "
        assert sum(lines.passes(line("No connection", "headrace.x")) for _ in range(12)) == 10
        assert lines.passes(line("No connection"))
    lines.filter.flush()
    assert {one.context for one in lines.counts if isinstance(one, LeftOut)} == {
        f"[orders-{i}|task-0] " for i in range(20)
    }
    lines.filter.flush()
    assert len(lines.counts) == 20


def test_a_long_text_and_a_traceback_are_not_kept() -> None:
    lines = Lines()
    for _ in range(12):
        record = line("x" * 100_000, "headrace.x")
        record.exc_info = (ValueError, ValueError("y"), None)
        lines.passes(record)
    (kept,) = (one.example for one in lines.filter._seen.values() if one.example is not None)
    assert len(kept.getMessage()) < 1_100
    assert kept.exc_info is None


def test_a_secret_is_not_told_on_another_s_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    stream = io.StringIO()
    logs.set_up(stream, {})
    log = logging.getLogger("headrace.test.repeated")
    with logs.connector_context("a", "task-0", redaction=Redaction(["hunter2-a"])):
        for _ in range(12):
            log.error("No login as %s", "hunter2-a")
    log.error("No login: %s", "else")
    with logs.connector_context("b", "task-0", redaction=Redaction(["hunter2-b"])):
        root.handlers[0].close()
    assert "hunter2" not in stream.getvalue()
    last = stream.getvalue().splitlines()[-1]
    assert "ERROR [a|task-0] 2 lines like this one were left out within 10 s: No login as [hidden] (" in last


def test_the_last_lines_that_were_left_out_are_counted_at_the_end() -> None:
    script = (
        "import logging; from headrace.worker.logging import logs; logs.set_up()\n"
        "for _ in range(15): logging.getLogger('headrace.x').error('again')"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "5 lines like this one were left out within 10 s: again" in said.stdout
    assert not said.stderr
