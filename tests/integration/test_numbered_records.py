"""The checker of numbered records sees whatever can go wrong with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.numbered_records import Arrived, Flow, Numbered, Replay, arrived, gaps, lines, parsed

SENT = {"a": 4, "b": 2, "none": -1}
ALL = [line.encode() for stream, last in SENT.items() for line in lines(stream, -1, last + 1)]


def of(*records: str) -> Arrived:
    """`a0 a1 b0` as records of the two streams."""
    return arrived([str(Numbered(record[0], int(record[1:]))).encode() for record in records], SENT)


def test_all_that_arrives_once_is_right() -> None:
    found = arrived(ALL, SENT)
    found.check(most_replays=0, longest_replay=0, ordered=True)
    assert found == Arrived(first_arrivals=8, replays=[], torn=[], unknown=[], overtaken=[])


def test_lines_are_read_as_they_were_written() -> None:
    assert [parsed(line.encode()) for line in lines("s-0", 6, 2)] == [Numbered("s-0", 7), Numbered("s-0", 8)]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda values: values[:-1], "1 records are lost"),
        (lambda values: values[1:], "1 records are lost"),
        (lambda values: values[:2] + values[4:], "2 records are lost"),
        (lambda values: [], "8 records are lost"),
        (lambda values: [*values[:-1], values[-1][:-1]], "1 lines are torn"),
        (lambda values: [values[0] + values[1], *values], "1 lines are torn"),
        (lambda values: [*values, b""], "1 lines are torn"),
        (lambda values: [*values, str(Numbered("a", 5)).encode()], "1 records were never sent"),
        (lambda values: [*values, str(Numbered("c", 0)).encode()], "1 records were never sent"),
        (lambda values: [values[1], values[0], *values[2:]], "1 records were overtaken"),
        (lambda values: [*values, values[3]], "1 replays"),
        (lambda values: [*values, *values], "a replay of 8 records"),
    ],
)
def test_each_thing_that_goes_wrong_is_seen(change: Callable[[list[bytes]], list[bytes]], word: str) -> None:
    with pytest.raises(AssertionError, match=word):
        arrived(change(ALL), SENT).check(most_replays=0, longest_replay=7, ordered=True)


def test_what_is_not_asked_for_is_not_judged() -> None:
    shuffled = [*ALL, *ALL]
    random.Random(7).shuffle(shuffled)
    arrived(shuffled, SENT).check()


def test_duplicates_are_counted_against_first_arrivals_and_by_replay() -> None:
    found = of("a0", "a1", "b0", "a0", "a1", "a2", "b0", "b1", "b2", "a3", "a4", "a4", "a4")
    assert found.replays == [Replay(3, 2), Replay(6, 1), Replay(11, 2)]
    assert (found.first_arrivals, found.duplicates, found.longest_replay) == (8, 5, 2)
    assert found.duplicates_per_first_arrival == 5 / 8
    found.check(most_replays=3, longest_replay=2, ordered=True)
    assert of("a0").duplicates_per_first_arrival == arrived([], SENT).duplicates_per_first_arrival == 0


def test_a_replay_is_not_taken_for_one_record_overtaking_another() -> None:
    assert of("a0", "a1", "a2", "a0", "a1", "a2", "a3").overtaken == []
    assert of("a0", "a2", "a1").overtaken == [Numbered("a", 1)]


def test_gaps_are_told_with_their_ends() -> None:
    assert gaps([], -1) == gaps([0, 1], 1) == []
    assert gaps([1, 4, 2], 6) == [(0, 0), (3, 3), (5, 6)]
    assert of("a1", "a3", "b0").missing == {"a": [(0, 0), (2, 2), (4, 4)], "b": [(1, 2)]}
    assert of("a1", "a3", "b0").lost == 5


def test_a_flow_numbers_its_files_and_knows_what_is_in_its_sink(tmp_path: Path) -> None:
    flow = Flow.in_folder(tmp_path, "f", tasks=2)
    assert all(file.read_bytes() == b"" for file in flow.files.values())
    flow.append(2)
    flow.append(3)
    assert flow.sent == {"f-0": 4, "f-1": 4}
    assert flow.arrived().lost == 10
    flow.sink.write_bytes(b"".join(file.read_bytes() for file in flow.files.values()) + b"unfinished")
    flow.arrived().check(most_replays=0, ordered=True)
    source, sink = flow.connectors().values()
    assert source["topic"] == sink["topics"] == "f"
    assert [Path(f"{source['file']}-{task}") for task in range(2)] == list(flow.files.values())
