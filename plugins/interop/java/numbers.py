"""Java's numbers: text for `new BigDecimal`, integers of `longValue`, unscaled bytes."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation, localcontext
from typing import Final

import numpy as np

from headrace.plugins.errors import DataError
from headrace.plugins.schema import MOST_DIGITS

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BITS: Final = 64
_WIDE: Final = Context(prec=1_000)


def parse_decimal(text: str) -> Decimal | None:
    """Parse a decimal with its scale; None if the text is not one or its exponent exceeds Java's range."""
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if abs(int(number.as_tuple().exponent)) < 1 << 31 else None


def low_bits(number: Decimal | int, bits: int) -> int:
    """Return the lowest bits of the integer part, in two's complement."""
    if isinstance(number, Decimal) and int(number.as_tuple().exponent) >= _BITS:  # 10**64 is divisible by 2**64
        return 0
    low = int(number) & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def single(number: float) -> float:
    """Return the nearest 32-bit float, possibly infinite."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def of_scale(number: Decimal, scale: int) -> Decimal | None:
    """Return the number with `scale` digits after the point; None if Spark cannot hold it without rounding."""
    if number and number.adjusted() + scale >= MOST_DIGITS:
        return None
    with localcontext(_WIDE):
        exact = number.quantize(Decimal((0, (1,), -scale)))
    return exact if exact == number else None


def unscaled_bytes(number: Decimal, scale: int) -> bytes:
    """Return the bytes of Java's `unscaledValue().toByteArray()`: the fewest that hold the number and its sign.

    Errors: DataError if the number has more digits after the point.
    """
    shifted = number.scaleb(scale, _WIDE)
    unscaled = int(shifted)
    if unscaled != shifted:
        raise DataError("Decimal value has mismatching scale for given Decimal schema")
    return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)


def of_unscaled(data: bytes, scale: int) -> Decimal | None:
    """Return the decimal of bytes made by `unscaled_bytes`; None if Spark cannot hold it."""
    return of_scale(Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _WIDE), scale)
