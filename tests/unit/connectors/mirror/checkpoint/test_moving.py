"""The records that groups read again when they move, by the offset syncs of this product and by those of Java."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.connectors.mirror.checkpoint.offset_syncs import OffsetSyncs
from headrace.connectors.mirror.copy.runs import OffsetRuns
from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.offsets import TopicPartition

LAG_MAX = 100
"""`offset.lag.max`."""
AT = TopicPartition("t", 0)


def of_java(total: int) -> list[int]:
    """The offsets of Java's syncs for so many records: the first, each `offset.lag.max + 1` after it, and the last."""
    return [*range(0, total - 1, LAG_MAX + 1), total - 1]


def of_ours(backlogs: Sequence[int]) -> list[int]:
    """The offsets of our syncs for backlogs; each is copied at once."""
    syncs, begin = list[int](), 0
    for count in backlogs:
        runs = OffsetRuns()
        runs.add(begin, begin, count)
        syncs += [upstream for upstream, _ in runs.pairs(LAG_MAX)]
        begin += count
    return syncs


def read_again(syncs: Sequence[int], total: int) -> list[int]:
    """The number of records that each group reads again, at equally spaced places back from the end."""
    known = OffsetSyncs()
    for offset in syncs:
        known.add(OffsetSync(*AT, offset, offset))
    places = range(total, 0, -37)
    return [place - (known.translate(AT, place) or 0) for place in places]


@pytest.mark.parametrize(
    "backlogs", [[20_000], [100_000], [2_000] * 20, [500] * 60, [7_000, 300, 41_000, 1_900, 16_000]]
)
def test_on_average_no_more_than_a_fifth_over_javas(backlogs: list[int]) -> None:
    total = sum(backlogs)
    ours, java = read_again(of_ours(backlogs), total), read_again(of_java(total), total)
    assert min(ours) >= 0, "no record is passed over"
    assert sum(ours) <= 1.2 * sum(java), (sum(ours) / len(ours), sum(java) / len(java))
    for number, (one, other) in enumerate(zip(ours, java, strict=True)):
        assert max(one, other) <= 7 * 37 * number + LAG_MAX, "docs/replication-consumers.md"
