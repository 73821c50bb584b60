"""Records in a retry topic: their form, when they are due, and when they are given up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.config.connector.error_handling import ErrorHandling
from headrace.plugins.contracts import TopicPartition
from headrace.plugins.interop.conversion.kafka_rows import KAFKA_ROW
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters import retry_topic
from headrace.worker.deadletters.failed_records import FAILED, RETRY_PREFIX
from headrace.worker.deadletters.retry_topic import OriginalRecord, PartitionRest, RetryHistory, RetryTopic

SCHEMA = pa.schema([FAILED.field(name) for name in KAFKA_ROW.names])
OWN = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]


class Rig:
    """A retry topic `r` whose clock stands, and what was sent to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout_ms: int = 10_000, delay_max_ms: int = 1000) -> None:
        handling = ErrorHandling(True, timeout_ms, delay_max_ms, False, False, "d", 1, False, "r")
        self.now = 1_000_000
        self.topic = RetryTopic("c", handling, {"sasl.password": "hush"}, StopToken(), lambda: self.now)
        self.sent: list[dict[str, Any]] = []
        monkeypatch.setattr(retry_topic, "send", lambda letters, *_: self.sent.extend(letters))

    def put(self, tried: dict[OriginalRecord, RetryHistory], *offsets: int) -> list[dict[str, Any]]:
        """Failed records of t-3 at these offsets are tried later; those given up."""
        rows = [
            {"topic": "t", "partition": 3, "offset": n, "timestamp": 77, "headers": OWN, "key": b"k", "message": "no"}
            for n in offsets
        ]
        return self.topic.later(tried)(pa.RecordBatch.from_pylist(rows, schema=FAILED)).to_pylist()

    def read(self) -> pa.RecordBatch:
        """Return what was sent, as it is consumed."""
        rows = [{**row, "partition": 0, "offset": n} for n, row in enumerate(self.sent)]
        return pa.RecordBatch.from_pylist([{k: row[k] for k in SCHEMA.names} for row in rows], schema=SCHEMA)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def said(row: dict[str, Any], name: str) -> int:
    return int({h["key"]: h["value"] for h in row["headers"]}[RETRY_PREFIX + name])


def test_a_record_comes_back_as_it_was(rig: Rig) -> None:
    assert rig.put({}, 5) == []
    (sent,) = rig.sent
    assert (sent["topic"], sent["timestamp"], sent["key"]) == ("r", rig.now, b"k")
    assert sent["headers"][:2] == OWN
    rows, tried = rig.topic.originals(rig.read())
    assert rows.to_pylist() == [
        {"topic": "t", "partition": 3, "offset": 5, "timestamp": 77, "headers": OWN, "key": b"k", "value": None}
    ]
    assert tried == {OriginalRecord("t", 3, 5): RetryHistory(1, rig.now)}


def test_delays_double_up_to_the_longest_and_end_at_the_deadline(rig: Rig) -> None:
    first = rig.now
    rig.put({}, 5)
    for _ in range(20):
        rig.now = said(rig.sent[-1], "not.before")
        row = rig.sent[-1]
        if given_up := rig.put(
            {OriginalRecord("t", 3, 5): RetryHistory(said(row, "attempt"), said(row, "first.failure"))}, 5
        ):
            break
    dues = [said(row, "not.before") - first for row in rig.sent]
    assert dues[:4] == [300, 900, 1900, 2900]
    assert dues[-1] == 10_000
    tries = len(dues) + 1
    assert given_up[0]["message"] == f"no (given up after {tries} tries in 10.0 s: errors.retry.timeout)"


def test_without_a_deadline_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, timeout_ms=-1)
    assert rig.put({OriginalRecord("t", 3, 5): RetryHistory(500, 0)}, 5) == []
    assert said(rig.sent[0], "attempt") == 501


def test_what_is_due_ends_at_the_first_that_is_not(rig: Rig) -> None:
    rig.put({}, 1, 2)
    rig.now += 100
    rig.put({}, 3)
    rig.now += 200
    due, rests, _ = rig.topic.due(rig.read())
    assert due["offset"].to_pylist() == [0, 1]
    assert rests == {TopicPartition("r", 0): PartitionRest(2, rig.now + 100)}
    rig.now += 100
    due, rests, others = rig.topic.due(rig.read())
    assert (due.num_rows, rests, others) == (3, {}, 0)


def test_what_a_stranger_put_there_is_a_record_of_this_topic(rig: Rig) -> None:
    row = {"topic": "r", "partition": 0, "offset": 9, "timestamp": 1, "headers": None, "key": None, "value": b"x"}
    odd = {**row, "offset": 10, "headers": [{"key": RETRY_PREFIX + "topic", "value": b"t"}]}
    rows = pa.RecordBatch.from_pylist([row, odd], schema=SCHEMA)
    assert rig.topic.due(rows).rows.num_rows == 2
    originals, tried = rig.topic.originals(rows)
    assert (originals.to_pylist(), tried) == ([row, odd], {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", b"-1"),
        ("partition", b"2147483648"),
        ("offset", b"9223372036854775808"),
        ("timestamp", b"9223372036854775808"),
        ("attempt", b"-5"),
        ("first.failure", b"1" * 5000),
        ("not.before", b"-1"),
        ("topic", None),
    ],
)
def test_headers_that_cannot_be_are_a_strangers(rig: Rig, name: str, value: bytes | None) -> None:
    rig.put({}, 5)
    headers = [h for h in rig.sent[0]["headers"] if value is not None or h["key"] != RETRY_PREFIX + name]
    rig.sent[0]["headers"] = [{**h, "value": value} if h["key"] == RETRY_PREFIX + name else h for h in headers]
    rows = rig.read()
    assert rig.topic.due(rows).rows.num_rows == 1
    originals, tried = rig.topic.originals(rows)
    assert (originals.to_pylist(), tried) == (rows.to_pylist(), {})


def test_nothing_waits_longer_than_the_longest_delay(rig: Rig) -> None:
    rig.put({}, 5)
    rig.now -= 10**9  # of a clock far behind, or the header is somebody's invention
    assert rig.topic.due(rig.read()).rows.num_rows == 1
    _, tried = rig.topic.originals(rig.read())
    assert tried == {OriginalRecord("t", 3, 5): RetryHistory(1, rig.now)}


def test_another_connectors_records_are_passed_over(rig: Rig) -> None:
    rig.put({}, 5, 6)
    rig.topic.connector = "another"
    rig.now += 300
    rig.put({}, 7)
    assert rig.topic.due(rig.read()) == (
        rig.read().slice(0, 0),
        {TopicPartition("r", 0): PartitionRest(2, rig.now + 300)},
        2,
    )
    rig.topic.connector = "c"
    due = rig.topic.due(rig.read())
    assert (due.rows["offset"].to_pylist(), due.rests, due.others) == ([0, 1], {}, 1)


def test_its_login_is_not_shown(rig: Rig) -> None:
    assert "hush" not in repr(rig.topic)


def test_rows_are_split(rig: Rig) -> None:
    rows = pa.RecordBatch.from_pylist([{"topic": topic, "offset": n} for n, topic in enumerate("rtrt")], schema=SCHEMA)
    others, mine = rig.topic.split(rows)
    assert (others["offset"].to_pylist(), mine["offset"].to_pylist()) == ([1, 3], [0, 2])
    assert rig.topic.split(others)[1].num_rows == 0
