"""The groups into which a connector's parts are divided."""

from __future__ import annotations

import pytest

from headrace.plugins.grouping import group_partitions


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [(7, 3, [3, 2, 2]), (6, 2, [3, 3]), (3, 3, [1, 1, 1]), (2, 5, [1, 1]), (5, 1, [5]), (0, 4, [])],
)
def test_groups_keep_the_order_and_differ_by_one_at_most(count: int, most: int, sizes: list[int]) -> None:
    groups = group_partitions(range(count), most)
    assert [len(group) for group in groups] == sizes
    assert [part for group in groups for part in group] == list(range(count))
