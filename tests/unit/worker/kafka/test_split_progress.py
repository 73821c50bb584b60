"""The progress of a split in which rows that follow each other may have equal offsets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.plugins.contracts import Stop
from headrace.worker.kafka.split_progress import SplitProgress

ERROR = pa.struct([("stage", pa.string()), ("class", pa.string()), ("message", pa.string())])
BAD = {"stage": "TASK_POLL", "class": "a.B", "message": "no"}


def rows(*times: int, bad: int | None = None) -> pa.RecordBatch:
    """Rows of these times; the bad one by its index."""
    errors = [BAD if number == bad else None for number, _ in enumerate(times)]
    offsets = pa.array([{"timestamp": time} for time in times], pa.struct([("timestamp", pa.int64())]))
    return pa.RecordBatch.from_arrays(
        [pa.array(["t"] * len(times)), pa.array(errors, ERROR), pa.array([False] * len(times)), offsets],
        names=["topic", "error", "drop", "source_offset"],
    )


def upto(progress: SplitProgress) -> Any:
    offset = progress.reached().source_offset
    return None if offset is None else offset["timestamp"]


def test_at_the_end_the_last_row_counts() -> None:
    progress = SplitProgress(rows_share_offsets=True)
    progress.take(rows(1, 2, 2), tolerate=False)
    progress.take(rows(2, 2), tolerate=False)
    assert upto(progress) == 2


@pytest.mark.parametrize(
    ("batches", "wanted"),
    [
        ([rows(1, 2, 2, 2, bad=3)], 1),
        ([rows(1, 2, 3, 4, bad=3)], 2),
        ([rows(1, 2), rows(2, 2), rows(2, 3, bad=1)], 1),
        ([rows(1, 1), rows(1, 1, bad=1)], None),
        ([rows(1), rows(2), rows(2), rows(2, bad=0)], 1),
        ([rows(*range(100), 100, 100, 100, 101, bad=103)], 99),
    ],
)
def test_a_group_that_was_not_passed_whole_does_not_count(batches: list[pa.RecordBatch], wanted: int | None) -> None:
    progress = SplitProgress(rows_share_offsets=True)
    for batch in batches:
        progress.take(batch, tolerate=False)
    assert progress.stop is Stop.FATAL
    assert upto(progress) == wanted


def test_where_offsets_do_not_repeat_the_last_good_row_counts() -> None:
    progress = SplitProgress()
    progress.take(rows(1, 2, 3, bad=2), tolerate=False)
    assert upto(progress) == 2


def test_what_is_tried_again_begins_behind_a_whole_group() -> None:
    progress = SplitProgress(rows_share_offsets=True)
    progress.take(rows(1, 2, 2), tolerate=False)
    progress.mark()
    progress.take(rows(2, 3, 3), tolerate=False)
    progress.retry("away")
    assert upto(progress) == 1


def test_rows_that_come_again_are_not_counted_as_left_out_before() -> None:
    progress = SplitProgress()
    progress.take(rows(1, 2, bad=0), tolerate=True)
    progress.mark()
    progress.take(rows(3, 4, bad=0), tolerate=True)
    progress.retry("away")
    reached = progress.reached()
    assert (reached.written, reached.bad, upto(progress)) == (1, 1, 2)


def test_one_by_one_too() -> None:
    progress = SplitProgress(rows_share_offsets=True)
    batch = rows(1, 2, 2, 3)
    progress.take(batch, tolerate=False)
    progress.restart()
    for number in range(3):
        progress.sent(batch.slice(number, 1))
    progress.refuse(batch.slice(2, 1), "too large", tolerate=False)
    assert upto(progress) == 1
    whole = SplitProgress(rows_share_offsets=True)
    whole.take(batch, tolerate=False)
    whole.restart()
    for number in range(4):
        whole.sent(batch.slice(number, 1))
    whole.settled()
    assert upto(whole) == 3
