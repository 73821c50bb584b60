"""The options of functions in a SELECT, over expressions as Spark's parser makes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.plugins.transforms.sql_functions import refusals
from headrace.plugins.transforms.sql_select import _TODAY


class Scala(list[Any]):
    """A sequence as Spark's JVM gives it."""

    def size(self) -> int:
        return len(self)

    def apply(self, index: int) -> Any:
        return self[index]


def function(name: str, *arguments: Any) -> Any:
    return SimpleNamespace(
        nodeName=lambda: "UnresolvedFunction",
        nameParts=lambda: Scala(name.split(".")),
        arguments=lambda: Scala(arguments),
        children=lambda: Scala(arguments),
    )


def text(value: str) -> Any:
    return SimpleNamespace(
        nodeName=lambda: "Literal",
        dataType=lambda: SimpleNamespace(typeName=lambda: "string"),
        value=lambda: value_of(value),
        children=Scala,
    )


def value_of(value: str) -> Any:
    return SimpleNamespace(toString=lambda: value)


@pytest.mark.parametrize("name", ["map", "MAP", "builtin.map", "System.Builtin.Map"])
def test_options_are_written_out_whatever_the_case_and_qualifier(name: str) -> None:
    def said(option: str) -> list[str]:
        return list(refusals(function("to_json", text("a"), function(name, text(option), text("v")))))

    assert said("dateFormat") == []
    assert said("path") == ["the option path of to_json is not allowed"]


def test_a_map_of_somebody_else_is_no_options() -> None:
    expression = function("to_json", text("a"), function("other.map", text("dateFormat"), text("v")))
    assert "have to be written out" in next(refusals(expression))


@pytest.mark.parametrize(
    ("select", "names_it"),
    [
        ("SELECT TIMESTAMP 'now' AS t FROM records", True),
        ("SELECT date'today' AS t FROM records", True),
        ("SELECT CAST( ' Now UTC' AS TIMESTAMP) AS t FROM records", True),
        ("SELECT try_cast('yesterday' AS DATE) AS t FROM records", True),
        ("SELECT TIMESTAMP '2024-01-01' AS t FROM records WHERE state = 'now'", False),
        ("SELECT CAST('nowhere' AS STRING) AS t, update AS date FROM records", False),
    ],
)
def test_texts_that_name_the_present_time_are_found(select: str, names_it: bool) -> None:
    assert (_TODAY.search(select) is not None) is names_it
