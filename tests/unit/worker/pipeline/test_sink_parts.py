"""The cuts of a job's ranges if a partition may be written in parts, and the parts that count."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.plugins.offsets import PartitionResult, Stop, TopicPartition
from headrace.worker.pipeline.executor import Ranges
from headrace.worker.pipeline.job_answer import answer
from headrace.worker.pipeline.kafka_frames import KafkaReaders, in_parts
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
    assert [(one.upto, one.stop) for one in found.outcome] == [(14, Stop.UNKNOWN), (39, None)]


OPTIONS = {"kafka.max.poll.records": "5000", "kafka.client.rack": "a"}


@pytest.mark.parametrize(("rows", "polled"), [(20_000, "5000"), (5000, "5000"), (4999, "4096"), (16, "16"), (1, "1")])
def test_no_more_records_are_decompressed_at_once_than_travel_together(rows: int, polled: str) -> None:
    options = KafkaReaders(OPTIONS).options(rows)
    assert options | OPTIONS == {**OPTIONS, "kafka.group.id": options["kafka.group.id"]}
    assert options["kafka.max.poll.records"] == polled


def test_jobs_of_a_task_read_with_the_same_consumers_as_long_as_these_are_alike() -> None:
    readers = KafkaReaders(OPTIONS)
    group = readers.options(20_000)["kafka.group.id"]
    assert readers.options(5000)["kafka.group.id"] == group
    assert readers.options(600)["kafka.group.id"] == readers.options(700)["kafka.group.id"] != group
    assert KafkaReaders(OPTIONS).options(20_000)["kafka.group.id"] != group
    readers.renew()
    assert readers.options(20_000)["kafka.group.id"] != group
