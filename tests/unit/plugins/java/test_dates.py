"""SimpleDateFormat's patterns as tokens."""

from __future__ import annotations

import pytest

from headrace.plugins.java.dates import Letters, tokens


def test_letters_and_texts_are_told_apart() -> None:
    assert tokens("yyyy-MM'T'''HH''") == [Letters("y", 4), "-", Letters("M", 2), "T'", Letters("H", 2), "'"]
    assert tokens("'it''s 'd'h'") == ["it's ", Letters("d", 1), "h"]
    assert tokens("年dé''") == ["年", Letters("d", 1), "é'"]
    assert tokens("") == []


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("yyyyb", "Illegal pattern character 'b'"),
        ("'a", "Unterminated quote"),
        ("yyyy'", "Unterminated quote"),
        ("XXXX", "invalid ISO 8601 format: length=4"),
    ],
)
def test_what_is_no_pattern_is_told_in_javas_words(pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match="^" + told + "$"):
        tokens(pattern)
