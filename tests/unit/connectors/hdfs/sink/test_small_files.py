"""The choice of files to merge: few are left, none too large, and no row is written again too often."""

from __future__ import annotations

import random

import pytest

from headrace.connectors.hdfs.compact_settings import CompactSettings
from headrace.connectors.hdfs.sink.small_files import CommittedFile, by_layout, mergeable, newest, runs

TEN = CompactSettings(10, 1_000)


def files(*sizes: int) -> list[CommittedFile]:
    """Files of ten offsets each."""
    return [CommittedFile(10 * n, 10 * n + 9, f"{n}", size) for n, size in enumerate(sizes)]


def small(one: CommittedFile) -> bool:
    return one.size < TEN.size_bytes


def paths(some: list[CommittedFile] | None) -> str:
    return "".join(one.path for one in some or ())


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([1] * 9, ""),
        ([1] * 10, "0123456789"),
        ([9, *[1] * 9], "0123456789"),
        ([10, *[1] * 9], "123456789"),  # the first one would be written again for little
        ([990, *[1] * 9], "123456789"),
        ([991, *[1] * 9], "0123456789"),  # it is large enough then
        ([400, 590, *[400] * 8], "012"),
        ([100] * 10, "0123456789"),
        ([200] * 10, "01234"),  # that is large enough
        ([600] * 10, "01"),
        ([512, 256, 128, 64, 32, 16, 8, 4, 2, 1], "012345"),
        ([400, 190, 90, 40, 18, 8, 3, 1, 1, 1], "6789"),
    ],
)
def test_files_that_are_worth_it(sizes: list[int], merged: str) -> None:
    assert paths(mergeable(files(*sizes), TEN)) == merged


@pytest.mark.parametrize("spread", [1, 5])
def test_a_trickle_becomes_few_large_files(spread: int) -> None:
    random_ = random.Random(1)
    there, written, came = list[CommittedFile](), 0, 0
    for number in range(5_000):
        size = random_.randint(1, spread)
        came += size
        there.append(CommittedFile(number, number, "", size))
        while (group := mergeable(runs(there, small)[-1], TEN)) is not None:
            made = CommittedFile(group[0].first, group[-1].last, "", sum(one.size for one in group))
            assert made.size < 2 * TEN.size_bytes
            there = sorted([one for one in there if one not in group] + [made])
            written += made.size
        assert sum(map(small, there)) < TEN.files
    assert sum(one.size for one in there) == came
    assert [one.first for one in there[1:]] == [one.last + 1 for one in there[:-1]]
    assert len(there) < came / TEN.size_bytes + TEN.files
    assert written <= 10 * came, "a row is written again as often as its file doubles"


def test_what_has_to_stay_parts_a_run() -> None:
    large, after = CommittedFile(20, 29, "L", 5_000), CommittedFile(30, 39, "3", 1)
    assert [paths(run) for run in runs([*files(1, 1), large, after], small)] == ["01", "3"]


def test_files_of_the_same_offsets_stay() -> None:
    some = [*files(1, 1, 1, 1), CommittedFile(10, 25, "again", 1)]
    assert [paths(run) for run in runs(some, small)] == ["01", "", "3"]


def test_the_newest_runs_are_looked_at_first() -> None:
    long, short = files(*[1] * 500), files(*[1] * 9)
    assert newest([short, long], TEN) == [long[-110:]]
    assert newest([long[:50], short, long[50:100], short], TEN) == [long[:50], long[50:100]]
    assert newest([short], TEN) == []


def test_files_of_other_layouts_are_not_merged() -> None:
    layouts = ["a", "a", None, "a", "b", "b"]
    found = by_layout(files(*[1] * 6), lambda one: layouts[int(one.path)])
    assert [paths(part) for part in found] == ["01", "3", "45"]
