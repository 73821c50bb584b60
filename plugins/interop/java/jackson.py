"""JSON as Jackson writes it in UTF-8, byte for byte, for lookups in Java and comparisons with its JSON."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_ESCAPES: Final = {n: f"\\u{n:04X}" for n in range(0x20)} | {
    ord(char): f"\\{letter}" for char, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)
}
_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")


def java_json(value: Any) -> str:
    """Return a JSON value as compact text, members in order. Errors: TypeError for what JSON cannot represent."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json_number(np.float64(value))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_string(key)}:{java_json(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(java_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no JSON value")


def json_string(text: str) -> str:
    """Quote a text as Jackson does in UTF-8: characters beyond the basic plane become surrogate escapes."""
    return '"' + _BEYOND_BMP.sub(_surrogates, text.translate(_ESCAPES)) + '"'


def json_number(value: np.float32 | np.float64) -> str:
    """Return Java's `Double.toString` or `Float.toString`; NaN and infinities are quoted."""
    if np.isnan(value):
        return '"NaN"'
    if np.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(float(value)) < 1e7:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "E").replace("e", "E")


def _surrogates(character: re.Match[str]) -> str:
    high, low = struct.unpack(">HH", character[0].encode("utf-16-be"))
    return f"\\u{high:04X}\\u{low:04X}"
