"""What texts a SimpleDateFormat pattern reads, and which part of them is which field.

The regular expressions are Java's; those made here mean the same in Python.
"""

from __future__ import annotations

import re

import pytest

from headrace.plugins.java.date_parsing import reading


def parts(pattern: str, text: str) -> tuple[str, ...] | None:
    found = re.match(reading(pattern).any, text)
    return None if found is None else found.groups()


def is_usual(pattern: str, text: str) -> bool:
    usual = reading(pattern).usual
    assert usual is not None
    return re.match(usual, text) is not None


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("yyyy-MM-dd", "2024-05-17 and more", ("2024", "05", "17")),
        ("yyyy-MM-dd", " 24- 5-\t171", ("24", "5", "171")),
        ("yyyy-MM-dd", "2024--5-17", ("2024", "-5", "17")),
        ("yyyy-MM-dd", "2024 -05-17", None),
        ("yyyyMMdd", "20240517", ("2024", "05", "17")),
        ("yyyyMMdd", "2024 517", ("2024", " 5", "17")),
        ("yyyyMMdd", "2024", None),
        ("HH'h'mm''ss", "12h30'59", ("12", "30", "59")),
        ("d MMM yyyy", "17 MAY 2024", ("17", "MAY", "2024")),
        ("d MMM yyyy", "17 september 2024", ("17", "september", "2024")),
        ("d MMM yyyy", "17 5 2024", None),
        ("h:mm a", "1:05 pm", ("1", "05", "pm")),
        ("ssX", "05Z", ("05", "Z")),
        ("ssX", "05+02:30", ("05", "+02")),
        ("ssXX", "05+0230", ("05", "+0230")),
        ("ssXXX", "05+0230", None),
        ("ssXXX", "05-02:30", ("05", "-02:30")),
        ("ss z", "05 GMT+2:30", ("05", "GMT+2:30")),
        ("ss z", "05 GMT+x", None),
        ("ss Z", "05 pst", ("05", "pst")),
        ("ss Z", "05 +2400", None),
    ],
)
def test_fields_of_a_text(pattern: str, text: str, wanted: tuple[str, ...] | None) -> None:
    assert parts(pattern, text) == wanted


def test_texts_of_the_usual_spelling() -> None:
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
    assert is_usual(pattern, "2024-05-17T12:30:59.123Z")
    for odd in ("2024-5-17T12:30:59.123Z", "2024-13-17T12:30:59.123Z", "1582-10-14T00:00:00.000Z"):
        assert not is_usual(pattern, odd)
    assert not is_usual("yyyyMMdd", "202405171")
    assert [field.at for field in reading(pattern).fields] == [1, 6, 9, 12, 15, 18, 21, 24]


@pytest.mark.parametrize("pattern", ["d MMM yyyy", "yy-MM-dd", "H:mm", "h a", "yyyy z", "yyyy'0'"])
def test_patterns_without_a_usual_spelling(pattern: str) -> None:
    assert reading(pattern).usual is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("yyyy b", "Illegal pattern character 'b'"),
        ("yyyy'T", "Unterminated quote"),
        ("G yyyy", "no timestamps with the letter G"),
        ("yyyy-'W'ww", "no timestamps with the letter w"),
        ("EEE HH", "day follows from the letter E"),
        ("YYYY-MM-dd E", "day follows from the letter E"),
    ],
)
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reading(pattern)
