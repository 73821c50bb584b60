"""Parts of one partition that were written side by side: which follow each other, and what comes again."""

from __future__ import annotations

import pytest

from headrace.connectors.hdfs.sink.merge_parts import merge_parts
from headrace.connectors.hdfs.sink.writer import Staged, WrittenPart
from headrace.plugins.offsets import TopicPartition

P = TopicPartition("t", 0)


def part(first: int, last: int, held: int | None = None, layouts: str = "0") -> WrittenPart:
    """With a file of each layout."""
    files = tuple(Staged("s", "f", "t", "d", int(layout)) for layout in layouts)
    return WrittenPart(P, str(first), held, (first, last), files)


EMPTY, ONLY_HELD = WrittenPart(P, "empty", None, None, ()), WrittenPart(P, "held", 10, None, ())


@pytest.mark.parametrize(
    ("parts", "whole", "held"),
    [
        ([part(0, 9), part(10, 19)], 2, None),
        ([part(10, 19), part(0, 9)], 2, None),
        ([part(0, 9), part(10, 18, held=19)], 2, 19),
        ([part(0, 8, held=9), part(10, 19)], 1, 9),
        ([ONLY_HELD, part(20, 29)], 1, 10),
        ([EMPTY, part(10, 19)], 1, None),
        ([EMPTY], 0, None),
        ([part(0, 9, layouts="01"), part(10, 19, layouts="1")], 2, None),
        ([part(0, 9, layouts="01"), part(10, 19, layouts="0"), part(20, 29, layouts="1")], 1, 10),
        ([part(0, 9, layouts="1"), part(10, 19, layouts="10")], 1, 10),
    ],
)
def test_parts_count_up_to_the_first_that_does_not_follow(
    parts: list[WrittenPart], whole: int, held: int | None
) -> None:
    found = merge_parts(parts)
    with_rows = sorted((one for one in parts if one is not EMPTY), key=lambda one: one.first or 0)
    assert [*found.whole, *found.discarded] == with_rows
    assert (len(found.whole), found.held) == (whole, held)
