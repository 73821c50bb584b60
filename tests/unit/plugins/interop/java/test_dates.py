"""SimpleDateFormat's patterns, judged without a JVM."""

from __future__ import annotations

import pytest

from headrace.plugins.interop.java.dates import LETTERS, pattern_problem


@pytest.mark.parametrize("pattern", ["yyyy-MM'T'''HH''", "'it''s 'd'h'", "年dé''", "", "'b'", "X'X'XXX", *LETTERS])
def test_patterns(pattern: str) -> None:
    assert pattern_problem(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("yyyyb", "Illegal pattern character 'b'"),
        ("''b", "Illegal pattern character 'b'"),
        ("b'", "Illegal pattern character 'b'"),
        ("'a", "Unterminated quote"),
        ("'a''", "Unterminated quote"),
        ("'''", "Unterminated quote"),
        ("yyyy'b", "Unterminated quote"),
        ("yyyy'", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_a_pattern_that_is_none_is_refused_in_javas_words(pattern: str, told: str) -> None:
    assert pattern_problem(pattern) == told
