"""A record's line on TRACE: its place and sizes, and nothing of what is in it."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from headrace.worker.logging.logs import LEVELS
from headrace.worker.pipeline.trace import trace_records

ROWS = pa.RecordBatch.from_pylist(
    [
        {"topic": "t", "partition": 0, "offset": 7, "key": None, "value": b"hunter2"},
        {"topic": "t", "partition": 1, "offset": 3, "key": b"k", "value": b""},
    ]
)


def test_each_record_has_a_line_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("headrace.worker.pipeline.sink")
    with caplog.at_level(logging.DEBUG, log.name):
        trace_records(log, ROWS)
        assert not caplog.messages
    with caplog.at_level(LEVELS["TRACE"], log.name):
        trace_records(log, ROWS)
    assert caplog.messages == [
        "Record of topic t, partition 0, offset 7: key null, value 7 bytes",
        "Record of topic t, partition 1, offset 3: key 1 bytes, value 0 bytes",
    ]


def test_a_column_that_is_null_throughout_has_lines_too(caplog: pytest.LogCaptureFixture) -> None:
    rows = pa.RecordBatch.from_pylist([{"topic": "t", "key": None, "value": b"v"}])
    with caplog.at_level(LEVELS["TRACE"], "headrace.worker.pipeline.sink"):
        trace_records(logging.getLogger("headrace.worker.pipeline.sink"), rows)
    assert caplog.messages == ["Record of topic t: key null, value 1 bytes"]
