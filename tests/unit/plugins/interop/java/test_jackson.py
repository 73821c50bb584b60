"""JSON as Jackson writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.plugins.interop.java.jackson import java_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (1 << 62, "4611686018427387904"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (12345678.0, "1.2345678E7"),
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (-0.0, "-0.0"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        ('a"b\\c\n\x01/ü', '"a\\"b\\\\c\\n\\u0001/ü"'),
        ("\U0001f600", '"\\uD83D\\uDE00"'),
        (["c", {"b": 1, "a": None}], '["c",{"b":1,"a":null}]'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_as_jackson_writes_it(value: Any, text: str) -> None:
    assert java_json(value) == text
    if '"NaN"' not in text and "Infinity" not in text:
        assert json.loads(text) == value


def test_what_json_has_no_value_for_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes is no JSON value"):
        java_json({"a": b"x"})
