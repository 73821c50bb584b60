"""Java's BigDecimal in Python."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.java.numbers import low_bits, of_scale, of_unscaled, parse_decimal, unscaled_bytes


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.50", Decimal("1.50")),
        ("+.5e3", Decimal("5E+2")),
        ("7.", Decimal(7)),
        *((text, None) for text in ("", " 1", "1f", "NaN", "0x1p3", "e1", ".", "1_0", "\u0661", "1e2147483648")),
    ],
)
def test_texts_are_read_as_java_reads_them(text: str, number: Decimal | None) -> None:
    read = parse_decimal(text)
    assert (read, read and read.as_tuple().exponent) == (number, number and number.as_tuple().exponent)


@pytest.mark.parametrize(
    ("number", "bits", "low"),
    [
        ("1.9", 8, 1),
        ("-1.9", 8, -1),
        ("128", 8, -128),
        ("-129", 8, 127),
        ("18446744073709551617", 64, 1),
        ("9223372036854775808", 64, -(2**63)),
        ("1e64", 64, 0),
        ("1e999999999", 64, 0),
        ("1e-999999", 32, 0),
    ],
)
def test_integers_are_the_low_bits(number: str, bits: int, low: int) -> None:
    assert low_bits(Decimal(number), bits) == low


@pytest.mark.parametrize(
    ("number", "scale", "held"),
    [
        ("1.5", 2, "1.50"),
        ("0E+99", 2, "0.00"),
        ("9" * 36, 2, "9" * 36 + ".00"),
        ("9" * 37, 2, None),
        ("1E+40", 2, None),
        ("1E+2000000000", 0, None),
        ("1E-2000000000", 38, None),
        ("1.005", 2, None),
    ],
)
def test_spark_holds_38_digits_and_rounds_none(number: str, scale: int, held: str | None) -> None:
    found = of_scale(Decimal(number), scale)
    assert (None if found is None else str(found)) == held


@pytest.mark.parametrize(
    ("number", "scale", "data"),
    [("0", 0, b"\x00"), ("1.28", 2, b"\x00\x80"), ("-1.28", 2, b"\x80"), ("1.2", 2, b"\x78"), ("1200", -2, b"\x0c")],
)
def test_unscaled_bytes_are_as_few_as_hold_the_sign(number: str, scale: int, data: bytes) -> None:
    assert unscaled_bytes(Decimal(number), scale) == data
    assert scale < 0 or of_unscaled(data, scale) == Decimal(number)


def test_digits_beyond_the_scale_are_not_dropped() -> None:
    with pytest.raises(DataError, match="mismatching scale"):
        unscaled_bytes(Decimal("1.2345"), 2)
    assert of_unscaled(b"\x7f" * 17, 2) is None
