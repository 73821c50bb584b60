"""Shares of partitions that tasks get."""

from __future__ import annotations

from headrace.connectors.mirror.source.assignment import PartitionTraffic, layout
from headrace.plugins.offsets import TopicPartition

EIGHT = [TopicPartition("orders", number) for number in range(8)]
FOUR = EIGHT[:4]


def numbers(found: tuple[tuple[TopicPartition, ...], ...]) -> list[list[int]]:
    return [[one.partition for one in task] for task in found]


def test_without_known_traffic_each_task_has_as_many_in_the_same_order_always() -> None:
    assert numbers(layout(EIGHT, 3, {})) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert layout(frozenset(EIGHT), 3, {}) == layout(list(reversed(EIGHT)), 3, {})


def test_there_are_no_more_tasks_than_partitions() -> None:
    assert numbers(layout(FOUR, 9, {})) == [[0], [1], [2], [3]]
    assert layout([], 9, {}) == ()


def test_a_busy_partition_has_a_task_to_itself() -> None:
    rates = {one: 90_000.0 if one.partition == 0 else 10_000.0 for one in FOUR}
    assert numbers(layout(FOUR, 2, rates)) == [[0], [1, 2, 3]]


def test_partitions_stay_for_small_differences() -> None:
    before = layout(FOUR, 2, {})
    rates = {one: 12_000.0 if one.partition == 0 else 10_000.0 for one in FOUR}
    assert layout(FOUR, 2, rates, before) == before


def test_partitions_stay_while_there_is_hardly_any_traffic() -> None:
    before = layout(FOUR, 2, {})
    rates = {one: 400.0 if one.partition in (0, 2) else 0.0 for one in FOUR}
    assert layout(FOUR, 2, rates, before) == before


def test_partitions_move_where_one_task_has_nearly_all_traffic() -> None:
    before = layout(FOUR, 2, {})
    rates = {one: 10_000.0 if one.partition in (0, 2) else 10.0 for one in FOUR}
    assert numbers(before) == [[0, 2], [1, 3]]
    after = numbers(layout(FOUR, 2, rates, before))
    assert [len({0, 2} & set(task)) for task in after] == [1, 1]


def test_new_partitions_go_where_least_is_and_no_other_moves() -> None:
    before = layout(FOUR, 2, {})
    after = layout(EIGHT[:5], 2, {}, before)
    assert numbers(after) == [[0, 2, 4], [1, 3]]
    assert numbers(layout(EIGHT[1:5], 2, {}, after)) == [[2, 4], [1, 3]]


def test_a_task_never_stays_empty() -> None:
    before = layout(FOUR, 2, {})
    assert numbers(layout([FOUR[0], FOUR[2]], 2, {}, before)) == [[0], [2]]


def test_rates_are_the_growth_between_two_looks() -> None:
    traffic = PartitionTraffic()
    traffic.measure({FOUR[0]: 100, FOUR[1]: 50}, 10.0)
    assert traffic.rates == {}
    traffic.measure({FOUR[0]: 300, FOUR[1]: 5, FOUR[2]: 7}, 12.0)
    assert traffic.rates == {FOUR[0]: 100.0, FOUR[1]: 0.0}
