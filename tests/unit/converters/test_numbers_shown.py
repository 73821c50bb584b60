"""Apache's converters of single values show bytes as text, without Spark."""

from __future__ import annotations

import pytest

from headrace.converters import numbers
from headrace.plugins.errors import DataError


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("Boolean", b"\x01", "true"),
        ("Short", b"\xff\xfe", "-2"),
        ("Integer", b"\x00\x00\x00\x07", "7"),
        ("Long", b"\x80" + bytes(7), str(-(2**63))),
        ("Float", b"\x3f\xc0\x00\x00", "1.5"),
        ("Double", b"\x7f\xf0" + bytes(6), "Infinity"),
    ],
)
def test_a_value_is_shown_and_bytes_of_another_length_are_refused(name: str, data: bytes, shown: str) -> None:
    converter = getattr(numbers, f"{name}Converter")()
    assert converter.shown(data) == shown
    for wrong in (b"", data + b"\x00", b"\x02" if name == "Boolean" else data[:-1]):
        with pytest.raises(DataError):
            converter.shown(wrong)
