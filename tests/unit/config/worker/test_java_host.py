"""The settings of the process that Java plugins run in."""

from __future__ import annotations

import pytest

from headrace.config.worker.java_host import HEAP, JAVA_HOST, OPTIONS, jvm_of


@pytest.mark.parametrize("heap", ["512m", "2G", "536870912", "1t"])
def test_sizes_that_are_taken(heap: str) -> None:
    assert JAVA_HOST.problems({HEAP: heap}) == []


@pytest.mark.parametrize("heap", ["", "0m", "-Xmx512m", "512 m", "512mb", "half"])
def test_sizes_that_are_refused(heap: str) -> None:
    (problem,) = JAVA_HOST.problems({HEAP: heap})
    assert "It is no size such as 512m or 2g" in problem.message


def test_options_are_split_as_a_shell_does_it() -> None:
    text = """-Da="two words" '-Db=#1' -XX:+UseG1GC"""
    assert JAVA_HOST.problems({OPTIONS: text}) == []
    assert jvm_of(JAVA_HOST.parse({OPTIONS: text})) == (None, ["-Da=two words", "-Db=#1", "-XX:+UseG1GC"])
    assert jvm_of(JAVA_HOST.parse({HEAP: "1g", "other": "x"})) == ("1g", [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-Da='open", "It cannot be split: No closing quotation"),
        ("--add-opens java.base/java.lang=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED is no option"),
        ("org.example.Main", "org.example.Main is no option"),
    ],
)
def test_what_is_no_option_is_refused(text: str, why: str) -> None:
    (problem,) = JAVA_HOST.problems({OPTIONS: text})
    assert why in problem.message
