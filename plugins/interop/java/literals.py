"""Infers Connect values from text as Java's `Values.parseString` does, for SimpleHeaderConverter and InsertHeader.

| text | value |
|---|---|
| empty, or none of the below | STRING |
| `null`, `true`, `false` | null without schema, BOOLEAN |
| `12`, `1.0`, `1e2` | the smallest integer type that holds it; Decimal beyond 64 bits |
| `1.5` | FLOAT32 if that is finite, else FLOAT64, else Decimal |
| `12:00:00.000Z`, `2024-01-31`, `2024-01-31T12:00:00.000Z` | Time, Date, Timestamp |
| `[1,"a"]`, `{"k":1}` | ARRAY, MAP; numbers widen, other mixtures have no common schema |

Values are as in `Schema.default`. If the items of an array or map have no common schema, they are JSON texts.

Decided: arrays and maps in one array get their common schema, because Java takes that of the last one, whatever the
others hold; loses: that `[[1],[2.5]]` is printed unchanged. Numbers and dates have no common schema; Java makes dates
of them. A text becomes a STRING as a whole if Spark could not carry it: decimals of a negative scale or more than 38
digits, keys that are arrays or maps, dates and decimals in a mixture; loses: their types, the text stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.config.values import trimmed
from headrace.plugins.interop.java.jackson import json_number, json_string
from headrace.plugins.interop.java.lenient_dates import read_temporal
from headrace.plugins.interop.java.numbers import single
from headrace.plugins.schema import DECIMAL, INTEGER_BITS, MOST_DIGITS, STRING, Schema, SchemaType

_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:[^:,{}\[\]"\\]|\\.?)+', re.DOTALL)
_NUMBER: Final = re.compile(r"(?:[-+]\.?)?\d+\.?\d*(?:[eE][-+]?\d+)?")
_WORDS: Final[dict[str, tuple[Schema | None, Any]]] = {
    "null": (None, None),
    "true": (Schema(SchemaType.BOOLEAN), True),
    "false": (Schema(SchemaType.BOOLEAN), False),
}
_NUMBERS: Final = (*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64)
"""From the narrowest to the widest."""


class Literal(NamedTuple):
    """A value with its schema: None for null."""

    schema: Schema | None
    value: Any


def parse_literal(text: str) -> Literal:
    """Return the value that a text represents; every text represents one."""
    try:
        return _parsed(text)
    except (_NoLiteral, RecursionError):
        return Literal(STRING, text)


class _NoLiteral(Exception):
    """The text is just a text."""


@dataclass(frozen=True)
class _LiteralNode:
    """A value with its items, before they get a common schema."""

    schema: Schema | None
    value: Any = None
    items: tuple[_LiteralNode, ...] = ()
    """Items of an array, or values of a map."""
    keys: tuple[_LiteralNode, ...] = ()


def _parsed(text: str) -> Literal:
    if (word := _WORDS.get(trimmed(text))) is not None:
        return Literal(*word)
    tokens = _TOKEN.findall(text)
    parser = _Parser(tokens)
    if parser.peek() in ("[", "{"):
        node = parser.element()
        return Literal(node.schema, _carried(node, node.schema))
    return Literal(*(_clock_time(tokens, 0) or _scalar(trimmed("".join(tokens[:1])))))


class _Parser:
    """Reads arrays and maps from tokens. Errors: _NoLiteral."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> str:
        """Skip blanks and return the next token; empty at the end."""
        while self._at < len(self._tokens) and not trimmed(self._tokens[self._at]):
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def element(self) -> _LiteralNode:
        first = self.peek()
        at, self._at = self._at, self._at + 1
        match first:
            case "[":
                return self._array()
            case "{":
                return self._map()
            case '"':
                return self._quoted()
        if (clock_time := _clock_time(self._tokens, at)) is not None:
            self._at += 4
            return _LiteralNode(*clock_time)
        text = trimmed(first)
        return _LiteralNode(*(_WORDS.get(text) or _scalar(text)))

    def _quoted(self) -> _LiteralNode:
        begin = self._at
        while self._at < len(self._tokens):
            self._at += 1
            if self._tokens[self._at - 1] == '"':
                text = "".join(self._tokens[begin : self._at - 1])
                return _LiteralNode(*(read_temporal(text) or (STRING, text)))
        raise _NoLiteral

    def _array(self) -> _LiteralNode:
        items = []
        while self.peek() != "]":
            items.append(self.element())
            if self.peek() not in (",", "]"):
                raise _NoLiteral
            self._at += self.peek() == ","
        self._at += 1
        return _LiteralNode(Schema(SchemaType.ARRAY, value_schema=_of_all(items)), items=tuple(items))

    def _map(self) -> _LiteralNode:
        keys: list[_LiteralNode] = []
        items: list[_LiteralNode] = []
        while self.peek() != "}":
            keys.append(self.element())
            if self.peek() != ":" or keys[-1].schema is None or keys[-1].schema.type in _CONTAINERS:
                raise _NoLiteral
            self._at += 1
            items.append(self.element())
            self._at += self.peek() == ","
        self._at += 1
        schema = Schema(SchemaType.MAP, key_schema=_of_all(keys), value_schema=_of_all(items))
        return _LiteralNode(schema, items=tuple(items), keys=tuple(keys))


_CONTAINERS: Final = (SchemaType.ARRAY, SchemaType.MAP)


def _clock_time(tokens: Sequence[str], at: int) -> tuple[Schema, int] | None:
    """Read a time or timestamp, whose two colons are separate tokens; blanks may precede it only inside others."""
    parts = list(tokens[at : at + 5])
    if parts[1::2] != [":", ":"]:
        return None
    return read_temporal("".join(parts).lstrip(" \t" if at else ""))


def _scalar(text: str) -> tuple[Schema, Any]:
    if (temporal := read_temporal(text)) is not None:
        return temporal
    if not _NUMBER.fullmatch(text):
        raise _NoLiteral
    try:
        return _number(Decimal(text))
    except InvalidOperation:
        raise _NoLiteral from None


def _number(number: Decimal) -> tuple[Schema, Any]:
    exponent = int(number.as_tuple().exponent)
    if abs(exponent) >= 1 << 31:
        raise _NoLiteral
    if number.adjusted() <= 18 and number == number.to_integral_value():
        whole = int(number)
        for kind, bits in INTEGER_BITS.items():
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return Schema(kind), whole
    if exponent and np.isfinite(float(number)):
        small = single(float(number))
        fits = np.isfinite(small)
        return Schema(SchemaType.FLOAT32 if fits else SchemaType.FLOAT64), small if fits else float(number)
    digits = len(number.as_tuple().digits)
    if not 0 <= -exponent <= MOST_DIGITS or digits > MOST_DIGITS:
        raise _NoLiteral
    return Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters={"scale": str(-exponent)}), number


def _of_all(nodes: Sequence[_LiteralNode]) -> Schema | None:
    """Return the schema that all have or can be widened to; None if there is none.

    Errors: _NoLiteral for a null among values with a common schema, as in Java.
    """
    schemas = [node.schema for node in nodes if node.schema is not None]
    if not schemas:
        return None
    together: Schema | None = schemas[0]
    for schema in schemas[1:]:
        together = _widened(together, schema)
    if together is not None and len(schemas) < len(nodes):
        raise _NoLiteral
    return together


def _widened(left: Schema | None, right: Schema | None) -> Schema | None:
    if left is None or right is None or left == right:
        return left if left == right else None
    if left.name is None and right.name is None and left.type in _NUMBERS and right.type in _NUMBERS:
        return max(left, right, key=lambda one: _NUMBERS.index(one.type))
    if left.type is not right.type or left.type not in _CONTAINERS:
        return None
    keys = _widened(left.key_schema, right.key_schema)
    return Schema(left.type, key_schema=keys, value_schema=_widened(left.value_schema, right.value_schema))


def _carried(node: _LiteralNode, schema: Schema | None) -> Any:
    if node.schema is None:
        return None
    if schema is None:
        return _json(node)
    if schema.type is SchemaType.ARRAY:
        return [_carried(item, schema.value_schema) for item in node.items]
    if schema.type is SchemaType.MAP:
        keys = (_carried(key, schema.key_schema) for key in node.keys)
        return dict(zip(keys, (_carried(item, schema.value_schema) for item in node.items), strict=True))
    if schema.type is SchemaType.FLOAT32:
        return single(node.value)
    return float(node.value) if schema.type is SchemaType.FLOAT64 else node.value


def _json(node: _LiteralNode) -> str:
    """Return the JSON text of a value in a mixture. Errors: _NoLiteral for what JSON cannot represent."""
    if node.schema is None:
        return "null"
    match node.schema.type:
        case SchemaType.ARRAY:
            return f"[{','.join(map(_json, node.items))}]"
        case SchemaType.MAP if all(key.schema == STRING for key in node.keys):
            members = (f"{_json(key)}:{_json(item)}" for key, item in zip(node.keys, node.items, strict=True))
            return f"{{{','.join(members)}}}"
        case SchemaType.STRING:
            return json_string(node.value)
        case SchemaType.BOOLEAN:
            return str(node.value).lower()
        case SchemaType.FLOAT32:
            return json_number(np.float32(node.value))
        case SchemaType.FLOAT64:
            return json_number(np.float64(node.value))
    if node.schema.type not in INTEGER_BITS or node.schema.name is not None:
        raise _NoLiteral
    return str(node.value)
