"""Texts by regular expressions: each matches, all that can come does, and the rest is refused."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from headrace.connectors.datagen.patterns import MORE, pattern, texts


def drawn(regex: str, rows: int = 2_000) -> list[str]:
    found: list[str] = texts(pattern(regex), np.random.default_rng(7), rows, pa.string()).to_pylist()
    return found


@pytest.mark.parametrize(
    "regex",
    [
        "User_[1-9]",
        "Item_[1-9][0-9]{0,2}",
        "[A-Z][1-9]{8,8}",
        r"\[[0-9][0-9],[0-9][0-9]\]",
        r"[A-Z]{2}\d{6}[A-Z]",
        "https://www[.]shop[.]example/[a-z]{5}",
        "a|bc|(de){0,2}f",
        "(?:x|yy){1,3}z?",
        "([ab][cd]?){2}",
        "[^a-z]{3}.",
        r"[]a]\\[\]b-]",
        r"\w\s\D\S",
        "(ä|ö)+-€",
        "[+*?.()]{2}",
        "",
        "a{0}",
        "x*y+",
    ],
)
def test_each_text_matches(regex: str) -> None:
    whole = re.compile(regex)
    assert all(whole.fullmatch(text) for text in drawn(regex))


def test_all_that_can_come_does() -> None:
    assert set(drawn("User_[1-3]")) == {"User_1", "User_2", "User_3"}
    assert set(drawn("(ab|c){0,2}")) == {"", "ab", "c", "abab", "abc", "cab", "cc"}
    assert {len(text) for text in drawn("a*")} == set(range(MORE + 1))
    assert {len(text) for text in drawn("a{2,}", 5_000)} == set(range(2, MORE + 3))


def test_many_texts_of_a_wide_pattern_are_drawn_in_parts() -> None:
    found = drawn("a{50000}|b", 300)
    assert len(found) == 300
    assert set(found) == {"a" * 50_000, "b"}


@pytest.mark.parametrize(
    ("regex", "fault"),
    [
        ("^a$", "matches as a whole"),
        ("a*?", "lazy and possessive"),
        ("(?=a)", "only plain groups"),
        ("[a-z&&[^b]]", "classes within classes"),
        ("(a", "unclosed group"),
        ("a)", "unmatched )"),
        ("[a", "unclosed class"),
        ("[z-a]", "end is before its begin"),
        ("[ä]", "write it as an alternative"),
        ("*a", "repeats nothing"),
        ("a{,3}", "a repetition is"),
        ("a{3,1}", "least is more than its most"),
        ("a{100001}", "100000 bytes"),
        ("(a{50000}){3}", "100000 bytes"),
        (r"\p{L}", r"\p is not served"),
        ("a\\", "at the end"),
        ("(){1000000000}", "more than 100000"),
        ("a{2}{3}", "but in a group"),
        ("(" * 5_000, "32 groups within each other"),
    ],
)
def test_the_rest_is_refused_with_its_place(regex: str, fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        pattern(regex)
