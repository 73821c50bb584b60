"""A few rebalances at once, then one now and then."""

from __future__ import annotations

import pytest

from headrace.worker.herder.rebalance_budget import AT_ONCE, EVERY_S, RebalanceBudget


def test_a_few_are_free_and_then_one_comes_now_and_then() -> None:
    now = 100.0
    budget = RebalanceBudget(lambda: now)
    assert [budget.wait_s() for _ in range(AT_ONCE)] == [0.0] * AT_ONCE
    assert budget.wait_s() == pytest.approx(EVERY_S)
    now += EVERY_S / 2
    assert budget.wait_s() == pytest.approx(EVERY_S / 2)
    now += EVERY_S / 2
    assert budget.wait_s() == 0.0
    assert budget.wait_s() > 0
    now += 1000 * EVERY_S
    assert [budget.wait_s() for _ in range(AT_ONCE)] == [0.0] * AT_ONCE
    assert budget.wait_s() > 0
