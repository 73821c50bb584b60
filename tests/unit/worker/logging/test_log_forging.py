"""Text that others wrote cannot pass for a line of the log, nor act on a terminal."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from headrace.worker.logging import logs


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The log, as a worker sets it up; every logger is as before then."""
    root, before = logging.getLogger(), {name: one.level for name, one in logs._loggers().items()}
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(logs, "_changed_ms", {})
    made = io.StringIO()
    logs.set_up(made, {})
    yield made
    for name, logger in logs._loggers().items():
        logger.setLevel(before.get(name, logging.NOTSET))


def test_control_characters_are_escaped(stream: io.StringIO) -> None:
    agent = "\x1b[2J\x07\r\u202e\x9b1m\x00"
    logging.getLogger("headrace.x").warning("User-Agent %s", agent)
    assert r"User-Agent \x1b[2J\x07\r\u202e\x9b1m\x00" in stream.getvalue()
    assert stream.getvalue().isprintable() is False  # its line end only
    assert stream.getvalue().strip().isprintable()


def test_half_a_character_is_escaped() -> None:
    """Without the log: pytest captures it, and pytest-xdist cannot send half a character."""
    record = logging.LogRecord("headrace.x", logging.WARNING, "x.py", 1, "User-Agent %s", ("\ud800",), None)
    assert r"User-Agent \ud800" in logs.ConnectFormatter().format(record)


def test_a_line_cannot_be_forged(stream: io.StringIO) -> None:
    forged = "x\n[2026-11-23 10:00:00,000] ERROR Everything is lost (headrace.worker:1)\r\n[again"
    logging.getLogger("headrace.x").error("No class %s", forged)
    first, *others = stream.getvalue().splitlines()
    assert first.startswith("[")
    assert others
    assert not any(one.startswith("[") for one in others)


def test_py4j_s_commands_are_never_written(stream: io.StringIO) -> None:
    logs.set_level("root", "ALL")
    for name in ("py4j", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).debug("Command to send: A\n0123456789abcdef-token")
        logging.getLogger(name).info("Answer received: 0123456789abcdef-token")
    logging.getLogger("headrace.x").debug("seen")
    assert "0123456789abcdef" not in stream.getvalue()
    assert "seen" in stream.getvalue()
