"""Columns whose values are equal, and those that have several."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.worker.kafka.distinct import distinct, is_uniform


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], []),
        (["a"], ["a"]),
        ([None], [None]),
        (["a", "a", "a"], ["a"]),
        ([None, None], [None]),
        (["b", "a", "b"], ["b", "a"]),
        (["a", None], ["a", None]),
        ([None, "a"], [None, "a"]),
        (["", None], ["", None]),
        (["ab", "a", "bab"], ["ab", "a", "bab"]),
    ],
)
def test_values_come_once_and_in_their_order(values: list[Any], found: list[Any]) -> None:
    column = pa.array(["x", *values, "y"], pa.string()).slice(1, len(values))
    assert distinct(column) == found
    assert is_uniform(column) == (len(found) < 2)
