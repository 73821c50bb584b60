"""Java's regular expressions, judged without a JVM."""

from __future__ import annotations

import pytest

from headrace.plugins.interop.java.regex import regex_problem


@pytest.mark.parametrize(
    "pattern",
    [
        "(a)(b(c))",
        "(?:a)(?i)(?=b)(?<!c)(?>d)",
        "(?<one>a)(b)(?<two2>c)",
        r"\((\[)[(\](][]()[(]]",
        r"\Q(\E(\Q(\E)",
        r"\Qa(",
        r"(?<date>\p{Alpha}++)-[a-z&&[^b]]*",
    ],
)
def test_expressions(pattern: str) -> None:
    assert regex_problem("regex", pattern) is None


def test_a_fault_says_where() -> None:
    told = regex_problem("regex", "topic-[0-9")
    assert told is not None
    assert told.endswith("Invalid regex: Unclosed character class near index 9\ntopic-[0-9\n         ^")
