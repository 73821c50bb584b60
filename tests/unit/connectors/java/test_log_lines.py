"""Log lines of a Java host, from its output into the worker's log."""

from __future__ import annotations

import logging

import pytest

from headrace.connectors.java import log_lines
from headrace.connectors.java.log_lines import PRINTED, Logged, line_of, parsed


@pytest.mark.parametrize(
    "logged",
    [
        Logged(logging.WARNING, "io.debezium.X", 12, 7, "a line", ""),
        Logged(5, "org.example.Y", 0, None, "two\n  lines", "java.lang.Error\n\tat somewhere"),
    ],
)
def test_a_line_arrives_as_it_was_logged(logged: Logged) -> None:
    assert "\n" not in line_of(logged)
    assert list(parsed(line_of(logged))) == [logged]


def test_what_is_printed_without_line_end_is_a_line_of_its_own() -> None:
    logged = Logged(logging.INFO, "org.example.Y", 1, 2, "logged", "")
    assert list(parsed("50 %" + line_of(logged))) == [Logged(logging.INFO, PRINTED, 0, None, "50 %", "", True), logged]
    assert [one.message for one in parsed("")] == [""]


def test_a_plugin_does_not_write_in_the_name_of_the_worker() -> None:
    names = "headrace.audit", "headrace.SourceRecords", "headrace.connectors.java.host.source", "headraces"
    found = [one.logger for name in names for one in parsed(line_of(Logged(20, name, 1, None, "", "")))]
    assert found == [PRINTED, PRINTED, "headrace.connectors.java.host.source", "headraces"]


@pytest.mark.parametrize("line", ["\x1e", "\x1eINFO\x1fa", "\x1ea\x1fb\x1fc\x1fd\x1fe"])
def test_a_damaged_line_is_shown_as_it_is(line: str) -> None:
    (shown,) = parsed(line)
    assert (shown.logger, shown.level) == (PRINTED, logging.INFO)


def test_levels_are_log4js(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("org.example.levels"), "level", 5)
    monkeypatch.setattr(logging.getLogger("org.example.levels.none"), "level", 100)
    found = log_lines.levels()
    assert (found["org.example.levels"], found["org.example.levels.none"]) == ("TRACE", "OFF")
    assert found[""] == log_lines.level_name(logging.getLogger().level)


def test_lines_below_their_loggers_level_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "org.example.quiet")
    log_lines.write(Logged(logging.INFO, "org.example.quiet", 1, None, "left out", ""))
    log_lines.write(Logged(logging.ERROR, "org.example.quiet", 3, None, "100 % shown", "the trace"))
    assert [(one.getMessage(), one.lineno, one.exc_text) for one in caplog.records] == [("100 % shown", 3, "the trace")]
