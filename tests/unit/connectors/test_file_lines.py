r"""Lines are those that one byte read after the other gives, whatever the terminators and the end of data."""

from __future__ import annotations

import itertools

import pytest

from headrace.connectors.file.lines import last_line_end, repair, split_lines
from headrace.connectors.file.offsets import HEAD_BYTES
from headrace.connectors.file.reader import batch_of


def one_by_one(data: bytes, closed: bool) -> list[tuple[bytes, int]]:
    lines, start, at = [], 0, 0
    while at < len(data):
        width = 2 if data[at : at + 2] == b"\r\n" else 1
        waits = data[at : at + 1] == b"\r" and at + 1 == len(data) and not closed
        if data[at] in b"\r\n" and not waits:
            lines.append((data[start:at], at + width))
            start = at + width
        at += width
    if closed and start < len(data):
        lines.append((data[start:], len(data)))
    return lines


@pytest.mark.parametrize("closed", [False, True])
def test_all_short_mixtures_of_terminators(closed: bool) -> None:
    for size in range(7):
        for letters in itertools.product(b"a\r\n", repeat=size):
            data = bytes(letters)
            lines = split_lines(data, closed)
            found = list(zip([v.encode() for v in lines.values.to_pylist()], lines.ends.tolist(), strict=True))
            assert found == one_by_one(data, closed), (data, closed)
            lines.values.validate(full=True)


def test_the_last_line_end_is_that_of_the_last_complete_line_within() -> None:
    for size in range(7):
        for letters in itertools.product(b"a\r\n", repeat=size):
            data = bytes(letters)
            ends = [end for _, end in one_by_one(data, closed=False)]
            for within in range(size + 1):
                expected = max((end for end in ends if end <= within), default=0)
                assert last_line_end(data[: within + 1], within) == expected, (data, within)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xff", "�"),
        (b"a\xe2\x82", "a�"),
        (b"\xe2\x82A", "�A"),
        (b"\xc0\xaf", "��"),
        (b"\xe0\x80\x80", "���"),
        (b"\xed\xa0\x80", "�"),
        (b"\xed\xa0A", "�A"),
        (b"\xf0\x9f\x98", "�"),
        (b"\xf4\x90\x80\x80", "����"),
        ("grüße 🎉".encode(), "grüße 🎉"),
    ],
)
def test_malformed_bytes_become_replacement_characters(data: bytes, text: str) -> None:
    assert repair(data).decode() == text
    lines = split_lines(b"good\n" + data + b"\r\nafter\n")
    assert lines.values.to_pylist() == ["good", text, "after"]
    assert lines.ends.tolist() == [5, 7 + len(data), 13 + len(data)]
    alone = split_lines(data + b"\n")
    assert (alone.values.to_pylist(), alone.ends.tolist()) == ([text], [len(data) + 1])


@pytest.mark.parametrize("begin", [0, HEAD_BYTES - 3, HEAD_BYTES - 2, HEAD_BYTES - 1, 5 * HEAD_BYTES])
@pytest.mark.parametrize("line", [None, 7])
def test_a_line_alone_has_the_offset_that_it_has_among_others(begin: int, line: int | None) -> None:
    start = bytes(number % 251 for number in range(HEAD_BYTES))
    alone = batch_of(split_lines(b"a\n"), begin, line, 3, start)
    among = batch_of(split_lines(b"a\nb\n"), begin, line, 3, start)
    assert alone.equals(among.slice(0, 1))


def test_halves_of_a_character_in_two_lines_do_not_make_a_whole_one() -> None:
    assert split_lines(b"\xc3\n\xbc\n").values.to_pylist() == ["�", "�"]
