"""How a job's ranges are cut where a partition may be written in parts, and what of the parts counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition
from headrace.worker.pipeline.background_job import Ranges
from headrace.worker.pipeline.job_answer import answer
from headrace.worker.pipeline.kafka_frames import in_parts, with_polls_of
from headrace.worker.pipeline.sink_job import written

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("ranges", "most", "parts"),
    [
        ({P0: (5, 45)}, 2, [{P0: (5, 25)}, {P0: (25, 45)}]),
        ({P0: (5, 40)}, 2, [{P0: (5, 25)}, {P0: (25, 40)}]),
        ({P0: (5, 35)}, 2, [{P0: (5, 15)}, {P0: (15, 35)}]),
        ({P0: (5, 12)}, 4, [{P0: (5, 12)}]),
        ({P0: (0, 40), P1: (0, 10)}, 4, [{P0: (0, 20)}, {P0: (20, 40), P1: (0, 10)}]),
        ({P0: (0, 40), P1: (0, 40)}, 2, [{P0: (0, 40), P1: (0, 40)}]),
    ],
)
def test_ranges_are_cut_at_multiples_of_the_step(ranges: Ranges, most: int, parts: list[Ranges]) -> None:
    assert in_parts(ranges, 10, most) == parts


def test_parts_after_the_one_that_stopped_are_in_vain() -> None:
    reached = [
        (0, PartitionResult(P0, 9, written=10)),
        (10, PartitionResult(P0, 14, written=5, stop=Stop.UNKNOWN)),
        (20, PartitionResult(P0, 29, written=10)),
        (0, PartitionResult(P1, 39, written=40)),
    ]
    answers = [answer(one, None, part=b"%s-%d" % (str(one.partition[1]).encode(), first), first=first)
               for first, one in reached if one.partition is not None]  # fmt: skip
    rows = [SimpleNamespace(**row) for batch in answers for row in batch.to_pylist()]
    found = written({P0: (0, 30), P1: (0, 40)}, rows)
    assert found.parts == [b"0-0", b"0-10", b"1-0"]
    assert found.in_vain == [b"0-20"]
    assert [(one.upto, one.stop) for one in found.reached] == [(14, Stop.UNKNOWN), (39, None)]


@pytest.mark.parametrize(("rows", "polled"), [(20_000, "5000"), (16, "16")])
def test_as_many_records_are_decompressed_at_once_as_travel_together(rows: int, polled: str) -> None:
    options = {"kafka.max.poll.records": "5000", "kafka.client.rack": "a"}
    assert with_polls_of(rows, options) == {"kafka.max.poll.records": polled, "kafka.client.rack": "a"}
