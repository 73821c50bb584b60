"""The last lines of each connector: which are kept, without secrets, and within which bounds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from headrace.worker.logging import logs, recent_lines
from headrace.worker.logging.recent_lines import ALL_BYTES, MOST_BYTES, MOST_LINES, RECENT, LogLine, RecentLines
from headrace.worker.logging.redaction import Redaction
from headrace.worker.logging.repeated_lines import MOST_EQUAL

log = logging.getLogger("headrace.worker.tasks")


@pytest.fixture
def written() -> Iterator[StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = StringIO()
    logs.set_up(stream, {})
    yield stream
    root.handlers[:], root.level = before, level


def texts(connector: str) -> list[str]:
    return [line.text for line in RECENT.of(connector, 1_000)]


def test_a_connectors_lines_are_kept_as_they_were_written(written: StringIO) -> None:
    with logs.connector_context("kept|a", "task-0", redaction=Redaction(["Hidden-9-secret"])):
        log.info("the login is Hidden-9-secret\n[2026-01-01] ERROR forged")
        log.debug("not logged")
    with logs.connector_context("kept|a"):
        log.warning("second")
    log.info("of no connector")
    first, second = RECENT.of("kept|a", 10)
    assert first.text.startswith("[kept|a|task-0] the login is [hidden]\n [2026-01-01] ERROR forged (headrace.worker")
    assert (first.level, second.level, second.text[:15]) == ("INFO", "WARN", "[kept|a] second")
    assert f"INFO {first.text}" in written.getvalue()
    assert RECENT.of("kept|a", 1) == [second]
    assert RECENT.of("kept", 10) == []


def test_the_count_of_lines_that_were_left_out_is_kept_too(written: StringIO) -> None:
    with logs.connector_context("repeats", "task-1"):
        for _ in range(MOST_EQUAL + 3):
            log.error("again")
    logging.getLogger().handlers[0].close()
    assert len(texts("repeats")) == MOST_EQUAL + 1
    assert texts("repeats")[-1].startswith("[repeats|task-1] 3 lines like this one were left out")


def test_lines_are_bounded_for_each_connector_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RecentLines()
    for number in range(MOST_LINES + 50):
        kept.add("many", LogLine(number, "INFO", "short"))
    assert [line.at for line in kept.of("many", 1_000)] == list(range(50, MOST_LINES + 50))
    for _ in range(20):
        kept.add("long", LogLine(0, "INFO", "x" * 1_000_000))
    assert sum(len(line.text) for line in kept.of("long", 1_000)) < MOST_BYTES
    monkeypatch.setattr(recent_lines, "ALL_BYTES", ALL_BYTES // 64)
    for number in range(500):
        kept.add("many", LogLine(number, "INFO", "short"))
        kept.add(f"c{number}", LogLine(number, "INFO", "y" * 2_000))
    assert kept._size <= ALL_BYTES // 64
    assert kept._size == sum(one.size for one in kept._kept.values())
    assert kept.of("long", 1) == kept.of("c1", 1) == []
    assert len(kept.of("many", 1_000)) == MOST_LINES
