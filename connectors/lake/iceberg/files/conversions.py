"""Values of one Arrow type in the type of a column, as whole arrays.

A conversion either gives every value exactly or raises: the caller finds the rows to blame (`conform`).

| column | takes |
|---|---|
| boolean | text `true`, `false` |
| int, long | whole numbers of any type, text |
| float, double | numbers that it holds exactly, decimals that it gives back at their scale, text |
| decimal | numbers and text without more digits |
| date | days since 1970, a timestamp at midnight in UTC, ISO text |
| time | ms since midnight, ISO text |
| timestamp, timestamptz | ms since 1970, a date, ISO text with `T` or a blank |
| string | numbers, booleans |
| binary, fixed, uuid | bytes of the right length; text in base64, a UUID as text |

Text for timestamptz without an offset is in UTC; for timestamp its offset does not count. Numbers with a schema of
Debezium's or Connect's times are in its unit, also days; those of years and durations are no dates and times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.lake.iceberg.files.encoded_text import of_base64, of_uuids
from headrace.plugins.schema import TIME

Conversion = Callable[[pa.Array], pa.Array]

_DAY, _MILLI, _MICRO, _NANO = 86_400_000_000_000, 1_000_000, 1_000, 1
"""Units of numbers; units: ns."""
_DEBEZIUM: Final = "io.debezium.time."
_UNITS: Final = {
    TIME: _MILLI,
    "io.debezium.time.Date": _DAY,
    "io.debezium.time.Time": _MILLI,
    "io.debezium.time.Timestamp": _MILLI,
    "io.debezium.time.MicroTime": _MICRO,
    "io.debezium.time.MicroTimestamp": _MICRO,
    "io.debezium.time.NanoTime": _NANO,
    "io.debezium.time.NanoTimestamp": _NANO,
}
_DAY_US: Final = 86_400_000_000
_OFFSET: Final = r"([Zz]|[+-]\d{2}(:?\d{2})?)$"
_DIGITS: Final = r"^[+-]?\d+$"


def conversion(of: pa.DataType, to: pa.DataType, schema_name: str | None = None) -> Conversion | None:
    """Return the conversion of values of one type, with the name of their schema, to another; None: there is none.

    Errors of the conversion: pa.ArrowInvalid if a value does not fit.
    """
    if pa.types.is_null(of):
        return lambda array: pa.nulls(len(array), to)
    if of.equals(to):
        return lambda array: array
    if isinstance(to, pa.UuidType):
        storage = _uuid(of)
        return None if storage is None else lambda array: pa.ExtensionArray.from_storage(to, storage(array))
    if pa.types.is_temporal(to) and _is_no_time(of, schema_name):
        return None
    for test, found in _BY_COLUMN:
        if test(to):
            return found(of, to, _UNITS.get(schema_name or ""))
    return None


def _is_no_time(kind: pa.DataType, schema_name: str | None) -> bool:
    """True for numbers of Debezium's time schemas that are no points in time, such as years and durations."""
    return pa.types.is_integer(kind) and (schema_name or "").startswith(_DEBEZIUM) and schema_name not in _UNITS


def is_text(kind: pa.DataType) -> bool:
    """Return True for types of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# -- numbers -----------------------------------------------------------------------------------------------------------


def _boolean(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    return partial(_matching, r"(?i)^(true|false)$", to) if is_text(of) else None


def _matching(pattern: str, to: pa.DataType, array: pa.Array) -> pa.Array:
    """Cast texts that match the pattern."""
    fits = pc.match_substring_regex(array, pattern)
    if pc.any(pc.invert(fits)).as_py():
        raise pa.ArrowInvalid("the text is not a value of the column's type")
    return pc.cast(array, to)


def _integer(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if is_text(of):
        return lambda array: _matching(_DIGITS, to, pc.replace_substring_regex(array, r"^\+", ""))
    return (lambda array: pc.cast(array, to)) if _is_number(of) else None


def _floating(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if is_text(of):
        return partial(_parsed_floats, to)
    if pa.types.is_floating(of) or pa.types.is_decimal(of):
        return partial(_there_and_back, to)
    return (lambda array: pc.cast(array, to)) if pa.types.is_integer(of) else None


def _parsed_floats(to: pa.DataType, array: pa.Array) -> pa.Array:
    made = pc.cast(array, to)
    too_large = pc.and_(pc.is_inf(made), pc.invert(pc.match_substring(array, "inf", ignore_case=True)))
    if pc.any(too_large).as_py():
        raise pa.ArrowInvalid("the number is too large")
    return made


def _there_and_back(to: pa.DataType, array: pa.Array) -> pa.Array:
    """Cast numbers, if a cast back gives the same ones."""
    made = pc.cast(array, to)
    same = pc.equal(pc.cast(made, array.type, safe=False), array)
    if pa.types.is_floating(array.type) and pa.types.is_floating(to):
        same = pc.or_(same, pc.is_nan(array))
    if pc.any(pc.invert(same)).as_py():
        raise pa.ArrowInvalid("the column's type would hold another number")
    return made


def _decimal(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if pa.types.is_integer(of):
        return lambda array: pc.cast(pc.cast(array, pa.decimal128(19, 0)), to)
    if pa.types.is_floating(of):
        return lambda array: pc.cast(pc.cast(array, pa.string()), to)  # by the fewest digits: 0.1 is 0.1
    return (lambda array: pc.cast(array, to)) if is_text(of) or pa.types.is_decimal(of) else None


# -- times -------------------------------------------------------------------------------------------------------------


def _date(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if pa.types.is_integer(of):
        if unit is None or unit == _DAY:
            return lambda array: pc.cast(array, pa.int32()).view(to)
        return lambda array: _whole_days(_scaled(array, unit, _MICRO).view(pa.timestamp("us")))
    if pa.types.is_timestamp(of):
        return _whole_days
    return (lambda array: pc.cast(array, to)) if is_text(of) else None


def _whole_days(array: pa.Array) -> pa.Array:
    times = array.view(pa.timestamp(array.type.unit))
    made = pc.cast(times, pa.date32())
    if pc.any(pc.not_equal(pc.cast(made, times.type), times)).as_py():
        raise pa.ArrowInvalid("the timestamp is not at midnight")
    return made


def _time(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if is_text(of):
        return _parsed_times
    if pa.types.is_time(of):
        return lambda array: pc.cast(array, to)
    if not pa.types.is_integer(of):
        return None
    return lambda array: _bounded(_scaled(array, unit or _MILLI, _MICRO)).view(to)


def _parsed_times(array: pa.Array) -> pa.Array:
    bare = pc.replace_substring_regex(_micros(array), "[Zz]$", "")
    full = pc.binary_join_element_wise("1970-01-01T", bare, "")
    return _bounded(pc.cast(full, pa.timestamp("us")).view(pa.int64())).view(pa.time64("us"))


def _bounded(micros: pa.Array) -> pa.Array:
    if pc.any(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY_US))).as_py():
        raise pa.ArrowInvalid("it is not within a day")
    return micros


def _timestamp(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if is_text(of):
        return partial(_parsed_timestamps, to)
    if pa.types.is_integer(of):
        wanted = _NANO if to.unit == "ns" else _MICRO
        return lambda array: _scaled(array, unit or _MILLI, wanted).view(to)
    if pa.types.is_timestamp(of):
        return lambda array: pc.cast(array.view(pa.timestamp(of.unit)), pa.timestamp(to.unit)).view(to)
    return (lambda array: pc.cast(array, pa.timestamp(to.unit)).view(to)) if pa.types.is_date(of) else None


def _parsed_timestamps(to: pa.DataType, array: pa.Array) -> pa.Array:
    text = array if to.unit == "ns" else _micros(array)
    if to.tz is None:
        bare = pc.replace_substring_regex(text, rf"(T|t| )(.*?){_OFFSET}", r"\1\2")
        return pc.cast(bare, to)
    has_offset = pc.match_substring_regex(text, rf"(T|t| ).*{_OFFSET}")
    zoned = pc.if_else(has_offset, text, pc.binary_join_element_wise(text, "Z", ""))
    return pc.cast(pc.replace_substring_regex(zoned, r"^(\d{4}-\d{2}-\d{2})Z$", r"\1T00:00Z"), to)


def _micros(array: pa.Array) -> pa.Array:
    """Texts without zeros after six digits of a second."""
    return pc.replace_substring_regex(array, r"(\.\d{6})0+", r"\1")


def _scaled(array: pa.Array, unit: int, wanted: int) -> pa.Array:
    numbers = pc.cast(array, pa.int64())
    if unit >= wanted:
        return pc.multiply_checked(numbers, unit // wanted) if unit > wanted else numbers
    made = pc.divide(numbers, wanted // unit)
    if pc.any(pc.not_equal(pc.multiply(made, wanted // unit), numbers)).as_py():
        raise pa.ArrowInvalid("the column holds no nanoseconds")
    return made


# -- text and bytes ----------------------------------------------------------------------------------------------------


def _string(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    is_shown = _is_number(of) or pa.types.is_boolean(of) or is_text(of)
    return (lambda array: pc.cast(array, to)) if is_shown else None


def _binary(of: pa.DataType, to: pa.DataType, unit: int | None) -> Conversion | None:
    if is_text(of):
        return lambda array: pc.cast(of_base64(array), to)
    return (lambda array: pc.cast(array, to)) if _is_bytes(of) else None


def _uuid(of: pa.DataType) -> Conversion | None:
    if is_text(of):
        return of_uuids
    return (lambda array: pc.cast(array, pa.binary(16))) if _is_bytes(of) else None


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_BY_COLUMN: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[..., Conversion | None]], ...]] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_string, _string),
    (pa.types.is_binary, _binary),
    (pa.types.is_fixed_size_binary, _binary),
)
