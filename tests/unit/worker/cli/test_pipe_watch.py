"""Counting lines of growing files, sampling the delay, and seeing a failure in a status."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.worker.cli.pipe_watch import Delays, LineCount, failure_in

TRICKY = b"a\nbb\r\n\rc\r\r\n\n\xff\xfe\nlast\r\nunfinished"


def complete_lines(data: bytes) -> int:
    """The oracle: `\\n`, `\\r\\n`, `\\r` end a line; a `\\r` at the very end waits."""
    text = data[:-1] if data.endswith(b"\r") else data
    ends = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return ends.count(b"\n")


@pytest.mark.parametrize("cut", range(len(TRICKY) + 1))
def test_lines_are_counted_wherever_the_file_was_cut_by_a_look(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "f"
    count = LineCount(path)
    path.write_bytes(TRICKY[:cut])
    assert count.update() == complete_lines(TRICKY[:cut])
    path.write_bytes(TRICKY)
    assert count.update() == complete_lines(TRICKY)
    assert count.update() == complete_lines(TRICKY)


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    count = LineCount(tmp_path / "later")
    assert count.update() == 0
    (tmp_path / "later").write_bytes(b"now\n")
    assert count.update() == 1


def test_a_file_made_anew_is_counted_on(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1\n2\n3\n")
    count = LineCount(path)
    count.update()
    fresh = tmp_path / "fresh"
    fresh.write_bytes(b"4\n5\n6\n7\n")
    os.replace(fresh, path)
    assert count.update() == 7
    path.write_bytes(b"8\n")
    assert count.update() == 8


def test_a_file_longer_than_one_chunk_is_counted_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789\r\n" * 200_000)
    assert LineCount(path).update() == 200_000


def test_a_delay_is_from_seen_in_the_source_to_seen_in_the_sink() -> None:
    delays = Delays(backlog_lines=0)
    delays.look(10, 0, 1.0)
    delays.look(12, 9, 1.5)
    assert delays.recent() is None
    delays.look(12, 10, 2.0)
    delays.look(12, 12, 2.5)
    recent = delays.recent()
    assert recent is not None
    assert (recent.median_ms, recent.max_ms) == (1000, 1000)


def test_the_backlog_of_the_start_is_no_sample() -> None:
    delays = Delays(backlog_lines=1000)
    delays.look(1000, 0, 0.0)
    delays.look(1000, 1000, 60.0)
    assert delays.recent() is None


def status(connector: str = "RUNNING", task: str = "RUNNING") -> dict[str, object]:
    return {
        "name": "pipe",
        "connector": {"state": connector, "worker_id": "w"},
        "tasks": [{"id": 0, "state": task, "worker_id": "w", "trace": "Boom\n\tat line 1"}],
        "type": "sink",
    }


@pytest.mark.parametrize("state", ["RUNNING", "UNASSIGNED", "PAUSED", "RESTARTING"])
def test_no_other_state_is_a_failure(state: str) -> None:
    assert failure_in(status(state, state)) is None


def test_a_failed_task_is_told_with_its_trace() -> None:
    assert failure_in(status(task="FAILED")) == "pipe task 0 has FAILED: Boom\n\tat line 1"


def test_a_failed_connector_without_trace_is_told() -> None:
    assert failure_in(status(connector="FAILED")) == "pipe has FAILED: no trace"
