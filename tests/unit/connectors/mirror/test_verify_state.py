"""The replication's own records of its progress, as a verification reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
import pytest

from headrace.connectors.mirror.formats import OffsetSync
from headrace.connectors.mirror.policy import DefaultReplicationPolicy
from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.state import Pair, read_state
from headrace.plugins.offsets import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Cluster:
    """A cluster with these records in its topics of one partition."""

    def __init__(self, alias: str, records: Mapping[str, list[tuple[bytes, bytes]]]) -> None:
        self.alias, self._records = alias, records

    def topics(self) -> dict[str, int]:
        return dict.fromkeys(self._records, 1)

    def ranges(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return partitions

    def read(self, partitions: list[TopicPartition]) -> Iterator[tuple[TopicPartition, Any]]:
        for at in partitions:
            keys, values = zip(*self._records[at.topic], strict=True)
            yield at, pa.table({"offset": range(len(keys)), "key": keys, "value": values})


def syncs_of(*pairs: tuple[int, int]) -> list[Pair]:
    written = [OffsetSync("orders", 0, *pair) for pair in pairs]
    source = Cluster("A", {"mm2-offset-syncs.B.internal": [(one.key(), one.value()) for one in written]})
    clusters = cast("list[ClusterReader]", [source, Cluster("B", {})])
    state = read_state(*clusters, DefaultReplicationPolicy(), {}, "mm2-offsets.A.internal")
    assert state.missing == ["A.checkpoints.internal (B)", "mm2-offsets.A.internal (B)"]
    return state.syncs[ORDERS]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([(0, 10), (100, 110)], [(0, 10), (100, 110)]),
        ([(0, 10), (100, 110), (5, 111)], [(5, 111)]),  # the topic was made again
        ([(0, 10), (100, 110), (200, 0), (300, 100)], [(200, 0), (300, 100)]),  # the copy was
    ],
)
def test_offset_syncs_from_before_a_step_back_are_left_out(
    written: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    assert syncs_of(*written) == [Pair(*pair) for pair in kept]
