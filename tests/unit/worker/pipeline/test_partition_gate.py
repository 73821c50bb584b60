"""The rows of each partition that go to a sink's writer, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.plugins.contracts import PartitionResult, Stop, TopicPartition
from headrace.worker.pipeline.partition_gate import PartitionGate

SCHEMA = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_stop", pa.string()),
        ("_drop", pa.bool_()),
        ("line", pa.string()),
    ]
)
BAD = '{"error":{"stage":"VALUE_CONVERTER","class":"a.B","message":"not \\"JSON\\""}}'
UNKNOWN_KEY, UNKNOWN_VALUE = '{"key":"00FF"}', '{"value":"00FF"}'
P0, P1, Q0 = TopicPartition("p", 0), TopicPartition("p", 1), TopicPartition("q", 0)


class Written:
    """A writer that keeps what it got."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        self.batches.append(rows)

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None:
        raise AssertionError("nothing failed")

    @property
    def lines(self) -> list[str]:
        return [line for rows in self.batches for line in rows["line"].to_pylist()]


def row(partition: TopicPartition, offset: int, **more: Any) -> dict[str, Any]:
    """A good row, whose line says where it is of, unless `more` says what is wrong with it."""
    place = {"_topic": partition.topic, "_partition": partition.partition, "_offset": offset}
    return {**place, "_stop": None, "_drop": False, "line": f"{partition.topic}{partition.partition}@{offset}", **more}


def run(
    *batches: list[dict[str, Any]], tolerate: bool = False
) -> tuple[list[str], dict[TopicPartition, PartitionResult]]:
    """The lines written and what was reached, after these batches."""
    writer = Written()
    gate = PartitionGate(writer, tolerate)
    for rows in batches:
        gate.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    assert all(rows.schema.names == ["line"] and rows.num_rows for rows in writer.batches)
    return writer.lines, gate.reached().of


def test_good_rows_go_to_the_writer_without_the_workers_columns() -> None:
    lines, reached = run([row(P0, 5), row(P0, 6)], [row(P0, 9)])
    assert lines == ["p0@5", "p0@6", "p0@9"]
    assert reached == {P0: PartitionResult(P0, 9, written=3)}


def test_an_empty_batch_says_nothing() -> None:
    assert run([], []) == ([], {})
    assert run([], [row(P0, 1)], []) == (["p0@1"], {P0: PartitionResult(P0, 1, written=1)})


@pytest.mark.parametrize(("stop", "reason"), [(UNKNOWN_KEY, "key:00ff"), (UNKNOWN_VALUE, "value:00ff")])
@pytest.mark.parametrize("tolerate", [False, True])
def test_an_unknown_schema_ends_the_prefix_of_its_partition_only(stop: str, reason: str, tolerate: bool) -> None:
    rows = [row(P0, 1), row(P1, 8), row(P0, 2, _stop=stop), row(Q0, 0), row(P0, 3), row(P1, 9)]
    lines, reached = run(rows, tolerate=tolerate)
    assert lines == ["p0@1", "p1@8", "q0@0", "p1@9"]
    assert reached == {
        P0: PartitionResult(P0, 1, written=1, stop=Stop.UNKNOWN, reason=reason),
        P1: PartitionResult(P1, 9, written=2),
        Q0: PartitionResult(Q0, 0, written=1),
    }


def test_an_empty_identity_is_unknown_too() -> None:
    _, reached = run([row(P0, 1, _stop='{"value":""}')])
    assert reached == {P0: PartitionResult(P0, None, stop=Stop.UNKNOWN, reason="value:")}


def test_an_error_is_fatal_and_says_which_record() -> None:
    lines, reached = run([row(P0, 1), row(P0, 2, _stop=BAD), row(P0, 3)])
    assert lines == ["p0@1"]
    assert (reached[P0].upto, reached[P0].stop, reached[P0].bad) == (1, Stop.FATAL, 0)
    assert reached[P0].reason == 'VALUE_CONVERTER (a.B), record of p-0 at offset 2: not "JSON"'


def test_nothing_is_reached_where_the_first_row_stops() -> None:
    lines, reached = run([row(P0, 7, _stop=BAD), row(P0, 8)])
    assert lines == []
    assert (reached[P0].upto, reached[P0].written) == (None, 0)


def test_tolerated_errors_are_passed_over_and_counted() -> None:
    rows = [row(P0, 1, _stop=BAD), row(P0, 2), row(P1, 1), row(P0, 3, _stop=BAD)]
    lines, reached = run(rows, tolerate=True)
    assert lines == ["p0@2", "p1@1"]
    assert reached == {P0: PartitionResult(P0, 3, written=1, bad=2), P1: PartitionResult(P1, 1, written=1)}


@pytest.mark.parametrize("tolerate", [False, True])
def test_dropped_rows_are_passed_over_and_counted(tolerate: bool) -> None:
    lines, reached = run([row(P0, 1), row(P0, 2, _drop=True)], [row(P0, 3, _drop=True)], tolerate=tolerate)
    assert lines == ["p0@1"]
    assert reached == {P0: PartitionResult(P0, 3, written=1, dropped=2)}


def test_the_first_stop_counts() -> None:
    _, reached = run([row(P0, 1, _stop=UNKNOWN_KEY), row(P0, 2, _stop=BAD)])
    assert reached[P0].stop is Stop.UNKNOWN
    _, reached = run([row(P0, 1, _stop=BAD), row(P0, 2, _stop=UNKNOWN_KEY)])
    assert reached[P0].stop is Stop.FATAL


def test_a_partition_that_stopped_stays_stopped_in_later_batches() -> None:
    lines, reached = run(
        [row(P0, 1), row(P1, 1)],
        [row(P1, 2, _stop=UNKNOWN_VALUE), row(P0, 2)],
        [row(P1, 3), row(P0, 3), row(P1, 4, _stop=BAD)],
        [row(P1, 5)],
    )
    assert lines == ["p0@1", "p1@1", "p0@2", "p0@3"]
    assert reached == {
        P0: PartitionResult(P0, 3, written=3),
        P1: PartitionResult(P1, 1, written=1, stop=Stop.UNKNOWN, reason="value:00ff"),
    }


def test_partitions_of_one_number_in_several_topics_are_several() -> None:
    lines, reached = run([row(P0, 1), row(Q0, 1, _stop=BAD), row(P0, 2), row(Q0, 2)])
    assert lines == ["p0@1", "p0@2"]
    assert (reached[P0].stop, reached[Q0].stop) == (None, Stop.FATAL)
