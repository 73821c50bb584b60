"""Java's regular expressions without a JVM: their groups, and their faults."""

from __future__ import annotations

import pytest

from headrace.plugins.java.regex import JavaRegex, regex_problem


@pytest.mark.parametrize(
    ("pattern", "groups", "names"),
    [
        ("(a)(b(c))", 3, {}),
        ("(?:a)(?i)(?=b)(?<!c)(?>d)", 0, {}),
        ("(?<one>a)(b)(?<two2>c)", 3, {"one": 1, "two2": 3}),
        (r"\((\[)[(\](][]()[(]]", 1, {}),
        (r"\Q(\E(\Q(", 1, {}),
    ],
)
def test_groups_are_counted(pattern: str, groups: int, names: dict[str, int]) -> None:
    closed = JavaRegex(pattern if pattern.count("(\\Q(") == 0 else pattern + r"\E)")
    assert (closed.groups, closed.names) == (groups, names)


def test_a_quote_without_end_is_ended() -> None:
    assert JavaRegex(r"\Qa(").whole == r"\A(?:\Qa(\E)\z"


def test_a_fault_says_where() -> None:
    told = regex_problem("regex", "topic-[0-9")
    assert told is not None
    assert told.endswith("Invalid regex: Unclosed character class near index 9\ntopic-[0-9\n         ^")
    assert regex_problem("regex", r"(?<date>\p{Alpha}++)-[a-z&&[^b]]*") is None


def test_replacements_are_taken_apart() -> None:
    regex = JavaRegex("(?<n>a)(b)")
    assert regex.replacement(r"x$1y${n}\$\\$29") == ["x", 1, "y", 1, "$\\", 2, "9"]
    with pytest.raises(ValueError, match="No group 3"):
        regex.replacement("$3")
