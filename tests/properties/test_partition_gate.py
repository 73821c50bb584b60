"""`PartitionGate` against a model in plain Python: any rows of any partitions, cut into any batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.plugins.contracts import PartitionResult, Stop, TopicPartition
from headrace.worker.pipeline.partition_gate import PartitionGate

SCHEMA = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_stop", pa.string()),
        ("_drop", pa.bool_()),
        ("n", pa.int64()),
    ]
)
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
SIGNS = ("good", "good", "good", "drop", "error", "key", "value", "error and drop")
STOPS = {
    "error": '{"error":{"stage":"S","class":"C","message":"m"}}',
    "key": '{"key":"00"}',
    "value": '{"value":""}',
}


@dataclass
class Of:
    """The model of one partition."""

    upto: int | None = None
    counts: dict[str, int] = field(default_factory=lambda: {"written": 0, "dropped": 0, "bad": 0})
    stop: Stop | None = None


def model(rows: list[dict[str, Any]], tolerate: bool) -> tuple[list[int], dict[TopicPartition, Of]]:
    """Row by row, as one would say it."""
    written, partitions = [], dict[TopicPartition, Of]()
    for row in rows:
        of = partitions.setdefault(TopicPartition(row["_topic"], row["_partition"]), Of())
        if of.stop is not None:
            continue
        bad = row["_stop"] == STOPS["error"]
        if row["_stop"] is not None and not bad:
            of.stop = Stop.UNKNOWN
            continue
        if bad and not tolerate:
            of.stop = Stop.FATAL
            continue
        of.upto = row["_offset"]
        of.counts["bad" if bad else "dropped" if row["_drop"] else "written"] += 1
        if not bad and not row["_drop"]:
            written.append(row["n"])
    return written, partitions


@st.composite
def batches(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Batches of rows, each partition's in the order of its offsets, with gaps."""
    offsets, made, number = dict.fromkeys(PARTITIONS, 0), list[list[dict[str, Any]]](), 0
    kinds = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(SIGNS), st.integers(1, 5))
    for batch in draw(st.lists(st.lists(kinds, max_size=8), max_size=5)):
        rows = []
        for partition, sign, gap in batch:
            offsets[partition] += gap
            number += 1
            rows.append(
                {
                    "_topic": partition.topic,
                    "_partition": partition.partition,
                    "_offset": offsets[partition],
                    "_stop": STOPS.get(sign.split()[0]),
                    "_drop": "drop" in sign,
                    "n": number,
                }
            )
        made.append(rows)
    return made


class Numbers:
    """A writer that keeps the rows' numbers."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def write(self, rows: pa.RecordBatch) -> None:
        assert rows.num_rows
        assert rows.schema.names == ["n"]
        self.numbers += rows["n"].to_pylist()

    def finish(self) -> bytes:
        return b""

    def abort(self) -> None:
        raise AssertionError("nothing failed")


@given(batches(), st.booleans())
def test_prefix_is_its_model(made: list[list[dict[str, Any]]], tolerate: bool) -> None:
    writer = Numbers()
    gate = PartitionGate(writer, tolerate)
    for rows in made:
        gate.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    written, expected = model([row for rows in made for row in rows], tolerate)
    assert writer.numbers == written
    answered = gate.reached().of
    for partition, of in expected.items():
        reached = answered[partition]
        assert reached == PartitionResult(partition, of.upto, stop=of.stop, reason=reached.reason, **of.counts)
        assert (reached.reason is None) == (of.stop is None)
    assert set(answered) == set(expected)
