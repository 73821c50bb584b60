"""Standard input as a source: lines wait until they are stored, and the buffer has a bound."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.connectors.file import standard_input
from headrace.connectors.file.errors import FileError
from headrace.connectors.file.source import FileStreamSourceTask
from headrace.connectors.file.standard_input import StandardInput
from headrace.plugins.contracts import Limit, PartitionResult, Place, TaskContext
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit import LARGE

CONTEXT = TaskContext("c", 0, StopToken())


def until(what: Callable[[], Any]) -> Any:
    """The first true answer, within a bound."""
    deadline = time.monotonic() + 60
    while not (answer := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
    return answer


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    read, write = os.pipe()
    monkeypatch.setattr(FileStreamSourceTask, "standard_input", StandardInput(read))
    yield write
    with contextlib.suppress(OSError):  # a test may have closed it
        os.close(write)


def started() -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    task.start({"topic": "t"}, CONTEXT)
    return task


def rows(task: FileStreamSourceTask, after: Any, limit: Limit = LARGE) -> tuple[list[str], dict[str, Any]]:
    plan = until(lambda: task.plan([after], limit))
    (batch,) = task.reader(plan).read(0)
    return batch.column(0).to_pylist(), batch.column(1)[-1].as_py()


def test_lines_come_with_null_names_and_positions(pipe: int) -> None:
    task = started()
    assert (task.place, task.partitions()) == (Place.WORKER_PROCESS, [{"filename": None}])
    assert task.plan([None], LARGE) is None
    os.write(pipe, "grüße\r\nb\nunfinished".encode())
    lines, offset = rows(task, None)
    assert lines == ["grüße", "b"]
    assert offset == {"position": None, "line": 2, "_generation": None, "_head": None}
    assert task.plan([offset], LARGE) is None
    os.write(pipe, b" now\n")
    assert rows(task, offset)[0] == ["unfinished now"]


def test_a_batch_that_failed_comes_again_and_what_is_stored_does_not(pipe: int) -> None:
    task = started()
    os.write(pipe, b"a\nb\nc\nd\n")
    assert rows(task, None, Limit(2, 100))[0] == ["a", "b"]
    lines, _ = rows(task, None, Limit(3, 100))
    assert lines == ["a", "b", "c"]
    assert rows(task, {"position": None, "line": 1})[0] == ["b", "c", "d"]


def test_numbers_go_on_from_a_stored_offset_and_over_a_restart_of_the_task(pipe: int) -> None:
    task = started()
    os.write(pipe, b"a\nb\n")
    lines, offset = rows(task, {"position": None, "line": 17})
    assert (lines, offset["line"]) == (["a", "b"], 19)
    task.committed([PartitionResult(source_partition={"filename": None}, source_offset=offset)])
    task.stop()
    again = started()
    os.write(pipe, b"c\n")
    lines, offset = rows(again, offset)
    assert (lines, offset["line"]) == (["c"], 20)


def test_the_end_ends_the_last_line(pipe: int) -> None:
    task = started()
    os.write(pipe, b"a\nlast")
    os.close(pipe)
    _, offset = rows(task, None)
    offset["line"] = 1
    assert rows(task, offset)[0] == ["last"]
    offset["line"] = 2
    assert task.plan([offset], LARGE) is None


def test_one_line_at_least_and_no_more_than_the_limit(pipe: int) -> None:
    task = started()
    os.write(pipe, b"abcdef\nb\nc\n")
    assert rows(task, None, Limit(10, 1))[0] == ["abcdef"]
    assert rows(task, None, Limit(10, 9))[0] == ["abcdef", "b"]


def test_two_connectors_cannot_share_it(pipe: int) -> None:
    task = started()
    with pytest.raises(FileError, match="another connector"):
        started()
    task.stop()
    started()


def test_reading_ahead_has_a_bound(pipe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_input, "BUFFER_BYTES", 1000)
    monkeypatch.setattr(standard_input, "_READ_BYTES", 100)
    os.set_blocking(pipe, False)
    task = started()
    sent = 0
    while sent < 1_000_000:
        try:
            sent += os.write(pipe, b"x" * 9 + b"\n")
        except BlockingIOError:
            break
    assert sent < 200_000, "all was taken in"
    seen, offset = 0, None
    while seen < sent // 10:
        lines, offset = rows(task, offset)
        assert len(lines) <= 110
        seen += len(lines)
    assert seen == sent // 10
