"""Java's expressions match whole names, in bounded time."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.config import name_regex as module
from headrace.config.name_regex import NameRegex, TooSlowError


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r"orders-\d+", "orders-17", True),
        (r"orders", "orders-17", False),
        (r"(?!__).*", "__consumer_offsets", False),
        (r"(?!__).*", "orders", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E.*", "axbc", False),
        (r"[a-z&&[^bc]]+", "ad", True),
        (r"[a-z&&[^bc]]+", "ab", False),
        (r"[a-c[x-z]]+", "ax", True),
        (r"(?<n>a)-\k<n>", "a-a", True),
        (r"\p{Lower}+", "abc", True),
        (r"(?i)ORDERS", "orders", True),
        (r"a++b", "aaab", True),
        (r"a++a", "aaa", False),
        (r"[a|~.]+", "|~.", True),
        (r"\u0061\x62\x{63}", "abc", True),
        (r"\d", "\u0663", False),
        (r"a{2,3}", "aaa", True),
        (r"([a-z]{1,249})-([a-z]{1,249})", "ab-cd", True),
        (r"(?:[a-z]{2,100}\.)?(?<n>\w{1,200})-(?=\d{1,99}$)(\(\Q(\E)?[(]?\d{1,99}", "ab.cd-17", True),
        ("(?i)(?:a{100}){0,100}b", "B", True),
        ("a{10000}", "a" * 10000, True),
        (".{1,99999}", "a", True),
    ],
)
def test_it_reads_java_s_syntax(pattern: str, name: str, matches: bool) -> None:
    assert (NameRegex(pattern).match(name) is not None) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:(?:(?:a{9000}){9000}){9000})b",
        "(?=(?<n>(a{0,101}){0,100}))",
        "(?x)(?:a{9000}#(\n){9000}",
        "(?x)(?:a{9000}) {9000}",
        "a{9000}" * 2,
        "(?:" + "[a-h]" * 700 + "){9000}",
        "a{10001}",
    ],
)
def test_too_many_repetitions_are_refused_before_they_take_memory(pattern: str) -> None:
    with pytest.raises(ValueError, match="Its repetitions come to more than 10000"):
        NameRegex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "*", "a{", "a{e}", "(?:foo){e<=1}", r"\y", r"\L<x>", "(?R)", "(?|a|b)", "(?P<n>a)", "(*FAIL)", "[a"),
        *("\\", r"\p{Nothing}", "a{,3}", "(" * 3000 + ")" * 3000, "((a{1000}){1000}){1000}", "a" * 5000),
    ],
)
def test_what_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        NameRegex(pattern)


def test_an_expression_that_takes_for_ever_ends_and_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.5)
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.01):
            ticks += 1

    other = threading.Thread(target=tick)
    other.start()
    begun = time.monotonic()
    with pytest.raises(TooSlowError, match=r"takes longer than 0\.5 s on the name"):
        NameRegex(r"(a|aa)+").match("a" * 60 + "c")
    took = time.monotonic() - begun
    ended.set()
    other.join()
    assert took < 60
    assert ticks > 5
