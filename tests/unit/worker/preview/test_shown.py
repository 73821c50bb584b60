"""Bytes and values as a preview shows them: nothing is changed in silence."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from headrace.worker.preview.shown import plain, text_of, value_and_schema


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", ""),
        (b"one\n\ttwo", "one\n\ttwo"),
        (b"\xff\x00", "0xff00"),
        (b"\x00\x00\x00\x00\x01\x06one", "0x0000000001066f6e65"),
        ("é".encode(), "é"),
    ],
)
def test_bytes_are_their_text_or_hex(data: bytes | None, shown: str | None) -> None:
    assert text_of(data) == shown


def test_long_texts_are_cut_and_say_so() -> None:
    assert str(text_of(b"a" * 100_007)).endswith("… (7 more characters)")


@pytest.mark.parametrize(
    ("text", "value", "schema"),
    [
        (b'{"schema": {"type": "int32"}, "payload": 7}', 7, {"type": "int32"}),
        (b'{"schema": 1}', {"schema": 1}, None),
        (b"1.10", 1.1, None),
        (b"12345678901234567890.5", "12345678901234567890.5", None),
        (b"NaN", "NaN", None),
        (None, None, None),
    ],
)
def test_a_number_that_a_double_cannot_hold_stays_its_text(text: bytes | None, value: Any, schema: Any) -> None:
    assert value_and_schema(text) == (value, schema)


def test_what_json_lacks_is_text() -> None:
    given = {1: (b"a", Decimal("1.10"), date(2026, 1, 2), float("nan"), None, True, 2.5)}
    assert plain(given) == {"1": ["a", "1.10", "2026-01-02", "nan", None, True, 2.5]}
