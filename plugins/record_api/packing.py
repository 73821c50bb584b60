"""Python values made ready for their columns, one by one, as an author yields them.

A dict, list, number or boolean is schemaless and travels as its JSON text; a text is a string, bytes are bytes. Values
of a declared schema become tuples and lists. So an author may change an object once it was yielded. Whatever a column
would make something else of is refused here or in `columns`, with the name of its field.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from operator import attrgetter
from typing import Any, Final, NamedTuple

from headrace.plugins.errors import DataError
from headrace.plugins.schema import Schema, SchemaType, logical

JSON, TEXT, BYTES = range(3)
"""The kinds of values without a declared schema."""

Pack = Callable[[Any], Any]


class Packed(NamedTuple):
    """A value ready for its column."""

    schema: int | None
    """The number of its schema; None: null."""
    value: Any
    size: int
    """About how many bytes it has."""


NOTHING: Final = Packed(None, None, 0)


class Misfit(DataError):
    """A value that its type cannot hold; `path` leads to it."""

    def __init__(self, why: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"field {'.'.join(path)}: {why}" if path else why)
        self.why, self.path = why, path

    def within(self, name: str) -> Misfit:
        """Return it as of the member of this name."""
        return Misfit(self.why, (name, *self.path))


def packer(schema: Schema | None) -> Pack:
    """Return what makes values of this schema ready, JSON text for None. It raises Misfit for what it refuses."""
    return json_text if schema is None else _declared(schema) or _as_it_is


def packed(value: Any, pack: Pack, schema: int) -> Packed:
    """Return a value of the schema of this number. Errors: Misfit."""
    if value is None:
        return NOTHING
    made = pack(value)
    return Packed(schema, made, _size(made))


def packed_by_kind(value: Any, first: int = 0) -> Packed:
    """Return a value by its kind, whose schemas are those from `first` on. Errors: Misfit."""
    if value is None:
        return NOTHING
    if type(value) is not dict:
        if isinstance(value, str):
            return Packed(first + TEXT, value, len(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return Packed(first + BYTES, bytes(value), len(value))
    text = json_text(value)
    return Packed(first + JSON, text, len(text))


def _size(packed: Any) -> int:
    if isinstance(packed, str | bytes):
        return len(packed)
    if isinstance(packed, tuple | list):
        return 8 * len(packed) + sum(map(_size, packed)) if packed else 8
    return 8


# -- JSON --------------------------------------------------------------------------------------------------------------

_FLAT: Final = frozenset((str, float, bool, type(None)))
_LONG: Final = 2**63


def json_text(value: Any) -> str:
    """Return the JSON of a value. Errors: Misfit for what JSON has no form of, or makes something else of."""
    try:
        text = _encode(value)
    except (Misfit, TypeError, ValueError, RecursionError) as error:
        raise _json_fault(value) or Misfit(f"it cannot be written as JSON: {error}") from error
    if not (type(value) is dict and _is_flat(value)) and (fault := _json_fault(value)):
        raise fault
    return text


def _is_flat(value: dict[Any, Any]) -> bool:
    """True for a dict that is surely JSON's; quick, because most are."""
    for key in value:
        if type(key) is not str:
            return False
    for one in value.values():
        if type(one) is int:
            if not -_LONG <= one < _LONG:
                return False
        elif type(one) not in _FLAT:
            return False
    return True


def _json_fault(value: Any) -> Misfit | None:
    """Return why a value is none of JSON's; None if it is one."""
    try:
        _check_json(value)
    except Misfit as misfit:
        return misfit
    except RecursionError:
        return Misfit("it is nested too deeply, or contains itself")
    return None


def _check_json(value: Any) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int):
        if not -_LONG <= value < _LONG:
            raise Misfit(f"{value!r:.60} has more than 64 bits, which no number of Connect has; make it a text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Misfit(f"JSON has no number {value}; make it None or a text, or declare a schema")
    elif isinstance(value, Mapping):
        for key, one in value.items():
            if not isinstance(key, str):
                raise Misfit(f"the key {key!r:.60} is no text, and in JSON it would become one")
            _check_member(key, one)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            _check_member(f"[{index}]", one)
    else:
        _check_json(_plain(value))


def _check_member(name: str, value: Any) -> None:
    try:
        _check_json(value)
    except Misfit as misfit:
        raise misfit.within(name) from None


def check_text(text: str) -> None:
    """Check that a text can be encoded. Errors: Misfit."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Misfit(f"the text has half a surrogate pair at {error.start}, which UTF-8 cannot hold") from error


def _plain(value: Any) -> Any:
    """Return what stands for an object that JSON does not know. Errors: Misfit."""
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if not isinstance(value, type):
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if isinstance(value, Mapping):
            return dict(value)
    raise Misfit(f"JSON has no form of {type(value).__name__}; declare a schema, or make it a text")


def _encoder() -> Callable[[Any], str]:
    """Return `json.dumps` without spaces.

    Decided: Python's encoder in C is kept, as JSONEncoder makes one for each call; loses: a name that Python does not
    document, and the check for a value that contains itself, which ends at Python's depth. Tried with 3.11, 3.12 and
    3.13. A dict of ten fields and its offset: 12 to 22 µs with JSONEncoder, 6 to 9 µs so.
    """
    if c_make_encoder is None:
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode
    encode = c_make_encoder(None, _plain, encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


_encode: Final = _encoder()


# -- declared schemas --------------------------------------------------------------------------------------------------


def _declared(schema: Schema) -> Pack | None:
    """Return what makes tuples and lists of the values of this schema; None: they are plain."""
    if logical(schema) is not None:
        return None
    match schema.type:
        case SchemaType.STRUCT:
            return _struct(schema)
        case SchemaType.ARRAY:
            return _list(schema)
        case SchemaType.MAP:
            return _map(schema)
        case SchemaType.BYTES:
            return _frozen
    return None


def _struct(schema: Schema) -> Pack:
    names = tuple(field.name for field in schema.fields)
    known = frozenset(names)
    inner = [(index, of) for index, field in enumerate(schema.fields) if (of := _declared(field.schema))]
    required = [(index, field.name) for index, field in enumerate(schema.fields) if not field.schema.optional]
    members: Any = attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]

    def pack(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Mapping):
            if not value.keys() <= known:
                raise Misfit(f"its schema has no field {', '.join(sorted(map(str, value.keys() - known)))}")
            row = tuple(map(value.get, names))
        else:
            try:
                row = members(value)
            except AttributeError as error:
                raise Misfit(f"{_shown(value)} is no dict, and no {schema.name or 'object'}: {error}") from error
        if None in row:
            for index, name in required:
                if row[index] is None:
                    raise Misfit("there is nothing, and it is not optional", (name,))
        if not inner:
            return row
        packed = list(row)
        for index, of in inner:
            try:
                packed[index] = of(packed[index])
            except Misfit as misfit:
                raise misfit.within(names[index]) from None
        return tuple(packed)

    return pack


def _list(schema: Schema) -> Pack:
    assert schema.value_schema is not None
    item = _declared(schema.value_schema)

    def pack(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
            raise Misfit(f"{_shown(value)} is no list")
        return list(value) if item is None else _members(value, item)

    return pack


def _members(values: Sequence[Any], item: Pack) -> list[Any]:
    packed = []
    for index, value in enumerate(values):
        try:
            packed.append(item(value))
        except Misfit as misfit:
            raise misfit.within(f"[{index}]") from None
    return packed


def _map(schema: Schema) -> Pack:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    key, item = _declared(schema.key_schema) or _as_it_is, _declared(schema.value_schema) or _as_it_is

    def pack(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Misfit(f"{_shown(value)} is no dict")
        return [(key(k), item(v)) for k, v in value.items()]

    return pack


def _frozen(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _as_it_is(value: Any) -> Any:
    return value


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
