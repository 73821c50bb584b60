"""Records that keep their batch from being written: named by the sink's writer, or found by halving."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pytest

from headrace.plugins.contracts import (
    PartitionResult,
    RecordFailure,
    RecordsFailed,
    RetriableError,
    Stop,
    TopicPartition,
)
from headrace.plugins.sink_requests import RequestingSink
from headrace.worker.deadletters import reporting as dead_letters
from headrace.worker.deadletters.failed_records import FAILED
from headrace.worker.deadletters.reporting import NotSentYet
from headrace.worker.pipeline import sink_writing
from headrace.worker.pipeline.sink_writing import MOST_TRIES, Piece, SinkWriting
from tests.task_scope import handling, task_scope

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
CONTROL = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_stop", pa.string()),
        ("_drop", pa.bool_()),
        ("n", pa.int64()),
    ]
)
RAW = pa.schema([FAILED.field(name) for name in FAILED.names[:7]])
BAD = '{"error":{"stage":"VALUE_CONVERTER","class":"a.B","message":"no"}}'


class Sink(RequestingSink):
    """Writes numbers, but for some; `named` in its writers' `write`, `late` in `finish`, `hidden` without a name."""

    def __init__(self, **refused: Collection[int]) -> None:
        self.refused = {"named": (), "late": (), "hidden": (), "slow": (), **refused}
        self.written: list[int] = []
        self.tries = 0
        self.leaves_out: dict[TopicPartition, int] = {}

    def writer(self, attempt: str) -> Any:
        self.tries += 1
        return Writer(self)

    def commit(self, parts: Any) -> None:
        assert parts == [b"part"]

    def left_out(self) -> dict[TopicPartition, int]:
        return self.leaves_out


class Writer:
    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.given: list[int] = []
        self.taken: list[int] = []

    def write(self, rows: pa.RecordBatch) -> None:
        numbers = rows["n"].to_pylist()
        self.given += numbers
        self.taken += [n for n in numbers if n not in self.sink.refused["named"]]
        failures = [RecordFailure(i, f"no {n}") for i, n in enumerate(numbers) if n in self.sink.refused["named"]]
        if failures:
            raise RecordsFailed("some", failures)

    def finish(self) -> bytes:
        if hidden := [n for n in self.taken if n in self.sink.refused["hidden"]]:
            raise RecordsFailed(f"one of them, {hidden[0]}")
        if slow := [n for n in self.taken if n in self.sink.refused["slow"]]:
            raise RetriableError(f"slow {slow[0]}")
        self.sink.written += [n for n in self.taken if n not in self.sink.refused["late"]]
        failures = [RecordFailure(i, f"late {n}") for i, n in enumerate(self.given) if n in self.sink.refused["late"]]
        if failures:
            raise RecordsFailed("some", failures, b"part")
        return b"part"

    def abort(self) -> None: ...


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, sink: Sink, tolerate: bool = True) -> None:
        self.sink, self.later, self.letters = sink, list[int](), list[dict[str, Any]]()
        self.away = False
        monkeypatch.setattr(dead_letters, "send", self.send)
        scope = task_scope(errors=handling(tolerate, dead_letters="letters", retry_topic="later"))
        self.writing = SinkWriting(scope, sink, "a.Sink", itertools.repeat("1"))  # type: ignore[arg-type]

    def send(self, letters: list[dict[str, Any]], *_: Any) -> None:
        if self.away:
            raise NotSentYet("away")
        self.letters += letters

    def put_later(self, failed: pa.RecordBatch) -> pa.RecordBatch:
        self.later += failed["offset"].to_pylist()
        return failed.slice(0, 0)

    @property
    def said(self) -> dict[int, str]:
        said = {
            int(row["value"]): next(h["value"].decode() for h in row["headers"] if h["key"].endswith(".message"))
            for row in self.letters
        }
        assert len(said) == len(self.letters)
        return said


def pieces(count: int, partitions: int = 1, bad: Collection[int] = (), size: int = 5) -> list[Piece]:
    """Numbers, each its own offset, in batches."""
    rows = [
        {
            "_topic": "t",
            "_partition": n % partitions,
            "_offset": n,
            "_stop": BAD if n in bad else None,
            "_drop": False,
            "n": n,
        }
        for n in range(count)
    ]
    raw = [{"topic": "t", "partition": n % partitions, "offset": n, "value": b"%d" % n} for n in range(count)]
    batches = pa.RecordBatch.from_pylist(rows, schema=CONTROL), pa.RecordBatch.from_pylist(raw, schema=RAW)
    return [(batches[0].slice(i, size), batches[1].slice(i, size)) for i in range(0, count, size)]


def test_rows_that_the_sink_leaves_out_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink())
    rig.sink.leaves_out = {TopicPartition("t", 1): 2}
    found = rig.writing.write(pieces(10, partitions=2)).of
    counts = {partition: (one.upto, one.written, one.dropped) for partition, one in found.items()}
    assert counts == {TopicPartition("t", 0): (8, 5, 0), TopicPartition("t", 1): (9, 3, 2)}


def test_named_records_are_dead_lettered_with_those_that_were_bad_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(named={3, 11}, late={6}))
    reached = rig.writing.write(pieces(12, bad={4}))
    assert reached.of == {P0: PartitionResult(P0, 11, written=8, bad=4)}
    assert rig.sink.written == [0, 1, 2, 5, 7, 8, 9, 10]
    assert rig.said == {3: "no 3", 4: "no", 6: "late 6", 11: "no 11"}
    assert rig.sink.tries == 1
    stages = {h["value"] for row in rig.letters for h in row["headers"] if h["key"].endswith(".stage")}
    assert stages == {b"TASK_PUT", b"VALUE_CONVERTER"}


@pytest.mark.parametrize("how", ["named", "late", "hidden"])
def test_without_tolerance_its_partition_stops_at_the_first(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    rig = Rig(monkeypatch, Sink(**{how: {6, 8}}), tolerate=False)
    reached = rig.writing.write(pieces(12, partitions=2)).of
    assert reached[P1] == PartitionResult(P1, 11, written=6)
    stopped = reached[P0]
    assert (stopped.upto in (4, 5), stopped.stop, stopped.written) == (True, Stop.FATAL, 3)
    assert stopped.reason is not None
    assert stopped.reason.startswith("TASK_PUT (a.Sink), record of t-0 at offset 6: ")
    assert set(rig.said) == {6}
    assert {0, 1, 2, 3, 4, 5, 7, 9, 11} <= set(rig.sink.written)


def test_who_is_to_blame_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(hidden={0, 7, 99}))
    assert rig.writing.write(pieces(100, bad={50})).of == {P0: PartitionResult(P0, 99, written=96, bad=4)}
    assert rig.sink.written == [n for n in range(100) if n not in (0, 7, 50, 99)]
    assert rig.said == {0: "one of them, 0", 7: "one of them, 7", 50: "no", 99: "one of them, 99"}


def test_finding_out_begins_with_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(hidden={0}))
    assert rig.writing.write(pieces(2)).of == {P0: PartitionResult(P0, 1, written=1, bad=1)}
    assert rig.sink.tries == 3


def test_a_record_that_write_and_finish_name_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(named={3}, late={3}))
    assert rig.writing.write(pieces(12)).of == {P0: PartitionResult(P0, 11, written=11, bad=1)}
    assert rig.said == {3: "no 3"}


def test_slow_records_are_put_off_once_their_batch_failed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow={7, 8}))
    with pytest.raises(RetriableError, match="slow 7"):
        rig.writing.write(pieces(20), rig.put_later)
    assert rig.writing.write_closely(pieces(20), rig.put_later, leave_rest=False).of == {
        P0: PartitionResult(P0, 19, written=18)
    }
    assert rig.later == [7, 8]
    assert rig.sink.written == [n for n in range(20) if n not in (7, 8)]
    assert rig.letters == []


def test_a_slow_record_alone_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow={0}))
    outcome = rig.writing.write_closely(pieces(1), rig.put_later, leave_rest=False)
    assert outcome.of == {P0: PartitionResult(P0, 0)}
    assert rig.later == [0]


@pytest.mark.parametrize("count", [2, 6, 1000])
def test_where_nothing_can_be_written_no_record_is_to_blame(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    rig = Rig(monkeypatch, Sink(slow=range(count)))
    with pytest.raises(RetriableError, match="slow"):
        rig.writing.write_closely(pieces(count, size=1000), rig.put_later, leave_rest=False)
    assert (rig.later, rig.letters) == ([], [])
    assert rig.sink.tries <= 17


def test_a_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow=range(0, 1000, 2)))
    with pytest.raises(RetriableError):
        rig.writing.write_closely(pieces(1000), rig.put_later, leave_rest=False)
    assert rig.later == []
    assert rig.sink.tries <= 2 * MOST_TRIES


def test_what_waited_in_the_retry_topic_goes_back_there_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow=range(100)))
    reached = rig.writing.write_closely(pieces(100), rig.put_later, leave_rest=True)
    assert sorted(rig.later) == list(range(100))
    assert [(one.upto, one.written, one.bad) for one in reached] == [(99, 0, 0)]


def test_what_was_tried_long_enough_is_dead_lettered(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow={1}))
    assert rig.writing.write_closely(pieces(3), lambda failed: failed, leave_rest=True).of == {
        P0: PartitionResult(P0, 2, written=2, bad=1)
    }
    assert rig.said == {1: "slow 1"}


def test_dead_letters_that_cannot_be_sent_blame_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink())
    rig.away = True
    for write in (rig.writing.write, lambda p: rig.writing.write_closely(p, rig.put_later, leave_rest=True)):
        with pytest.raises(NotSentYet):
            write(pieces(5, bad={2}))
    assert (rig.later, rig.sink.written) == ([], [])
    assert (rig.writing.reporter.reported.sent, rig.writing.reporter.reported.refused) == (2, 2)


@pytest.mark.parametrize(("named", "late"), [({3}, {7}), ({7}, {3}), ({3}, {3}), ({3}, {1, 7})])
def test_what_is_named_behind_its_partitions_stop_does_not_count(
    monkeypatch: pytest.MonkeyPatch, named: set[int], late: set[int]
) -> None:
    rig = Rig(monkeypatch, Sink(named=named, late=late), tolerate=False)
    first = min(named | late)
    (reached,) = rig.writing.write(pieces(12, size=12))
    assert (reached.upto, reached.written, reached.stop) == (first - 1, first, Stop.FATAL)
    assert first in rig.said


def test_each_try_of_a_batch_tells_of_a_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(slow={1}, named={3})
    rig = Rig(monkeypatch, sink)
    for again in (False, True, True):
        rig.writing.begin(again)
        with pytest.raises(RetriableError):
            rig.writing.write(pieces(5, bad={2}))
    sink.refused["slow"] = ()
    assert rig.writing.write(pieces(5, bad={2})).of == {P0: PartitionResult(P0, 4, written=3, bad=2)}
    assert rig.said == {2: "no", 3: "no 3"}
    rig.writing.begin()
    rig.writing.write(pieces(5, bad={2}))
    assert len(rig.letters) == 4


def test_what_is_in_the_retry_topic_is_not_put_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, Sink(slow={1}))
    for again in (False, True):
        rig.writing.begin(again)
        reached = rig.writing.write_closely(pieces(3), rig.put_later, leave_rest=True)
        assert reached.of == {P0: PartitionResult(P0, 2, written=2)}
    assert rig.later == [1]


@pytest.mark.parametrize("passed", [{0}, {0, 11}])
def test_rows_that_no_writer_is_given_prove_nothing(monkeypatch: pytest.MonkeyPatch, passed: set[int]) -> None:
    rig = Rig(monkeypatch, Sink(slow=range(12)))
    with pytest.raises(RetriableError):
        rig.writing.write_closely(pieces(12, bad=passed), rig.put_later, leave_rest=False)
    assert rig.later == []
    rig.writing.begin()
    assert rig.writing.write_closely(pieces(2, bad={0}), rig.put_later, leave_rest=False).of == {
        P0: PartitionResult(P0, 1, bad=1)
    }
    assert rig.later == [1]


def test_a_search_that_takes_too_long_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(hidden={2, 9})
    rig = Rig(monkeypatch, sink)
    monkeypatch.setattr(sink_writing, "MOST_S", -1.0)
    (reached,) = rig.writing.write(pieces(12))
    assert (reached.stop, reached.written + reached.bad) == (None, (reached.upto or 0) + 1)
    assert 0 < len(sink.written) < 10
    assert rig.writing.write_closely(pieces(12), rig.put_later, leave_rest=True).of[P0].upto == 11
    assert set(rig.later) | set(sink.written) | set(rig.said) == set(range(12))


@pytest.mark.parametrize("row", [-1, 5])
def test_a_failure_must_name_a_row_that_was_given(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    def write(_self: Writer, _rows: pa.RecordBatch) -> None:
        raise RecordsFailed("some", [RecordFailure(row, "no")])

    monkeypatch.setattr(Writer, "write", write)
    with pytest.raises(ValueError, match=rf"a\.Sink says that row {row} failed"):
        Rig(monkeypatch, Sink()).writing.write(pieces(5))


def test_a_record_that_is_named_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(self: Writer, rows: pa.RecordBatch) -> None:
        raise RecordsFailed("some", [RecordFailure(1, "no"), RecordFailure(1, "no"), RecordFailure(1, "never")])

    monkeypatch.setattr(Writer, "write", write)
    rig = Rig(monkeypatch, Sink())
    assert rig.writing.write(pieces(5)).of == {P0: PartitionResult(P0, 4, written=4, bad=1)}
    assert list(rig.said) == [1]
