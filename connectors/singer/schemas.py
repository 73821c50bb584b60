"""JSON Schemas of streams as Connect schemas, and the values of records in them.

| JSON Schema | Connect |
|---|---|
| `integer`, `boolean`, `string` of any format | INT64, BOOLEAN, STRING |
| `number` | FLOAT64, or STRING with its digits |
| `object` with `properties` | STRUCT |
| `object` with a schema of `additionalProperties` alone | MAP |
| `array` with a schema of `items` | ARRAY |
| anything else, such as of several types | STRING named `io.debezium.data.Json`: its JSON text |

A property is optional if it is not `required` or may be null. Texts of dates stay texts, because Connect's Timestamp
would cut what is below a millisecond.

Decided: a function a value and Python a record, because a tap is a Python program that spends more on each record;
loses: a fast tap is held up at some 50,000 records a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from headrace.connectors.singer.errors import SingerError
from headrace.connectors.singer.messages import Inexact, json_text
from headrace.plugins.errors import DataError
from headrace.plugins.schema import Field, Schema, SchemaType

JSON: Final = Schema(SchemaType.STRING, name="io.debezium.data.Json", version=1)
_LONG: Final = 2**63


class Column(NamedTuple):
    """A schema, and what makes Arrow's form of a value of it; `pack` raises DataError for a value that does not fit."""

    schema: Schema
    pack: Callable[[Any], Any]


@dataclass(frozen=True)
class StreamType:
    """The type of a stream's records under one SCHEMA."""

    stream: str
    value: Column
    keys: tuple[str, ...]
    key: Column | None
    """None: the stream has no key properties."""

    def key_of(self, record: Mapping[str, Any]) -> Any:
        """Return the packed key of a record. Errors: DataError."""
        return None if self.key is None else self.key.pack({name: record.get(name) for name in self.keys})


def stream_type(stream: str, declared: Any, keys: tuple[str, ...], numbers_as_text: bool) -> StreamType:
    """Return the type that a SCHEMA declares. Errors: SingerError for key properties that it lacks."""
    columns = _Columns(numbers_as_text)
    value = columns.of(declared, stream)
    if not keys:
        return StreamType(stream, value, (), None)
    properties = declared.get("properties") if isinstance(declared, dict) else None
    if missing := [name for name in keys if name not in (properties or {})]:
        raise SingerError(f"has no properties for the keys of its stream {stream}: {', '.join(missing)}")
    members = {name: properties[name] for name in keys}  # type: ignore[index]
    key = columns.of({**declared, "type": "object", "properties": members}, stream)
    return StreamType(stream, value, keys, key)


class _Columns:
    """Makes columns of JSON Schemas."""

    def __init__(self, numbers_as_text: bool) -> None:
        number = Column(Schema(SchemaType.STRING), _digits) if numbers_as_text else _NUMBER
        self._plain = {**_PLAIN, "number": number}

    def of(self, declared: Any, name: str) -> Column:
        """Return the column of a schema; `name` is that of a struct."""
        declared = declared if isinstance(declared, dict) else {}
        if alternatives := declared.get("anyOf") or declared.get("oneOf"):
            found = [self.of(one, name) for one in alternatives if one != {"type": "null"}]
            return found[0] if found and all(_same(one, found[0]) for one in found) else _JSON
        kinds = _kinds(declared)
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1:
            return _JSON
        kind = kinds.pop()
        if kind == "object":
            return self._object(declared, name)
        if kind == "array":
            return self._array(declared, name)
        return self._plain.get(kind, _JSON)

    def _object(self, declared: Mapping[str, Any], name: str) -> Column:
        properties, others = declared.get("properties"), declared.get("additionalProperties")
        if properties:
            required = declared.get("required") or ()
            members = {one: self._member(of, f"{name}.{one}", one in required) for one, of in properties.items()}
            fields = tuple(Field(one, column.schema) for one, column in members.items())
            return Column(Schema(SchemaType.STRUCT, name=name, fields=fields), _struct(members))
        if isinstance(others, dict) and others and not declared.get("patternProperties"):
            item = self._member(others, name, True)
            schema = Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=item.schema)
            return Column(schema, _map(item))
        return _JSON

    def _array(self, declared: Mapping[str, Any], name: str) -> Column:
        items = declared.get("items")
        if not isinstance(items, dict) or not items:
            return _JSON
        item = self._member(items, name, True)
        return Column(Schema(SchemaType.ARRAY, value_schema=item.schema), _array(item))

    def _member(self, declared: Any, name: str, is_required: bool) -> Column:
        schema, pack = self.of(declared, name)
        if is_required and not _may_be_null(declared):
            return Column(schema, pack)
        return Column(replace(schema, optional=True), lambda value: None if value is None else pack(value))


def _kinds(declared: Mapping[str, Any]) -> set[str]:
    kinds = declared.get("type")
    if kinds is None:
        return {"object"} if declared.get("properties") else set()
    return {str(one) for one in (kinds if isinstance(kinds, list) else [kinds])} - {"null"}


def _may_be_null(declared: Any) -> bool:
    if not isinstance(declared, dict) or "$ref" in declared:
        return True
    if alternatives := declared.get("anyOf") or declared.get("oneOf"):
        return any(map(_may_be_null, alternatives))
    kinds = declared.get("type")
    return kinds is None or kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _same(one: Column, other: Column) -> bool:
    return one.schema == other.schema and one.pack is other.pack


# -- values ------------------------------------------------------------------------------------------------------------


def _misfit(value: Any, wanted: str) -> DataError:
    shown = value.text if isinstance(value, Inexact) else f"{value!r:.60}"
    return DataError(f"{shown} is no {wanted}")


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LONG <= value < _LONG:
        raise _misfit(value, "integer of 64 bits")
    return value


def _number(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, Inexact) or (isinstance(value, int) and not isinstance(value, bool) and not _fits(value)):
        shown = value.text if isinstance(value, Inexact) else value
        raise DataError(f"{shown} has more digits than a double holds; set numbers.as=string")
    if not isinstance(value, int) or isinstance(value, bool):
        raise _misfit(value, "number")
    return float(value)


def _fits(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _digits(value: Any) -> str:
    if isinstance(value, Inexact):
        return value.text
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _misfit(value, "number")
    return repr(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, "boolean")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError("a string holds half of a surrogate pair, which is no text") from error
    return value


def _json(value: Any) -> str:
    try:
        return json_text(value)
    except ValueError as error:
        raise DataError(f"a value cannot be written as JSON: {error}") from error


def _struct(members: Mapping[str, Column]) -> Callable[[Any], Any]:
    names = tuple(members)
    known = frozenset(names)
    packers = [(name, column.pack, column.schema.optional) for name, column in members.items()]

    def pack(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, dict):
            raise _misfit(value, "object")
        if not value.keys() <= known:
            raise DataError(f"its SCHEMA lacks properties that it has: {', '.join(sorted(value.keys() - known))}")
        row = []
        for name, of, is_optional in packers:
            member = value.get(name)
            if member is None and not is_optional:
                raise DataError(f"it has nothing for its property {name}, which is required")
            try:
                row.append(of(member))
            except DataError as error:
                raise DataError(f"{name}: {error}") from error
        return tuple(row)

    return pack


def _array(item: Column) -> Callable[[Any], Any]:
    def pack(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(value, "array")
        return [item.pack(one) for one in value]

    return pack


def _map(item: Column) -> Callable[[Any], Any]:
    def pack(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _misfit(value, "object")
        return [(_string(name), item.pack(one)) for name, one in value.items()]

    return pack


_NUMBER: Final = Column(Schema(SchemaType.FLOAT64), _number)
_JSON: Final = Column(JSON, _json)
_PLAIN: Final[Mapping[str, Column]] = {
    "integer": Column(Schema(SchemaType.INT64), _integer),
    "boolean": Column(Schema(SchemaType.BOOLEAN), _boolean),
    "string": Column(Schema(SchemaType.STRING), _string),
}
