"""Connect schemas and values of all kinds, and what an independent Avro library has to read for them."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import Any, Final

from headrace.plugins.interop.avro.tree import ENUM, UNION
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType, logical, scale

T = SchemaType
UTC: Final = dt.UTC
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=UTC)
_BITS: Final = {T.INT8: 8, T.INT16: 16, T.INT32: 32, T.INT64: 64}
_TEXTS: Final = ("", "a", "é漢😀", 'q"\\\n\x01', "x" * 200)
_FLOATS: Final = (0.0, -1.5, 3.25, float("inf"), 1e10)


class Generator:
    """The same schemas and values each time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def schema(self, depth: int = 0, key: bool = False) -> Schema:
        """Any schema that Avro and Spark can hold."""
        kinds = [*_BITS, T.FLOAT64, T.BOOLEAN, T.STRING, T.BYTES, T.FLOAT32]
        if depth < 3 and not key:
            kinds += [T.ARRAY, T.MAP, T.STRUCT, T.STRUCT, T.STRUCT]
        kind = T.STRUCT if depth == 0 and self._random.random() < 0.7 else self._random.choice(kinds)
        optional = self._random.random() < 0.4 and not key
        match kind:
            case T.STRUCT:
                return self._struct(depth, optional)
            case T.ARRAY:
                return Schema(kind, optional, value_schema=self.schema(depth + 1))
            case T.MAP:
                keys = Schema(T.STRING) if self._random.random() < 0.5 else self.schema(depth + 1, key=True)
                return Schema(kind, optional, name=self._name(), key_schema=keys, value_schema=self.schema(depth + 1))
        return self._primitive(kind, optional)

    def _struct(self, depth: int, optional: bool) -> Schema:
        if self._random.random() < 0.15 and depth:
            kinds = self._random.choice([(T.INT32, T.INT64), (T.INT64, T.STRING, T.BOOLEAN), (T.FLOAT32, T.FLOAT64)])
            branches = {T.INT32: "int", T.INT64: "long", T.FLOAT32: "float", T.FLOAT64: "double"}
            fields = tuple(Field(branches.get(k, str(k)), Schema(k, optional=True)) for k in kinds)
            return Schema(T.STRUCT, optional, name=UNION, fields=fields)
        count = self._random.randint(1 if depth == 0 else 0, 5)
        fields = tuple(Field(f"f{n}", self.schema(depth + 1)) for n in range(count))
        return Schema(T.STRUCT, optional, name=self._name(), fields=fields)

    def _primitive(self, kind: SchemaType, optional: bool) -> Schema:
        special = self._random.random() < 0.4
        if special and kind is T.BYTES:
            return Schema(kind, optional, name=DECIMAL, version=1, parameters={"scale": self._random.choice("025")})
        if special and kind is T.INT32:
            return Schema(kind, optional, name=self._random.choice([DATE, TIME]), version=1)
        if special and kind is T.INT64:
            return Schema(kind, optional, name=TIMESTAMP, version=1)
        if special and kind is T.STRING:
            name = self._name()
            return Schema(kind, optional, name=name, parameters={ENUM: name, f"{ENUM}.A": "A", f"{ENUM}.B": "B"})
        return Schema(kind, optional)

    def _name(self) -> str:
        self._names += 1
        return self._random.choice(["a.b.N{}", "N{}", "c.N{}"]).format(self._names)

    def value(self, schema: Schema) -> Any:
        """A value as `createDataFrame` takes it."""
        if schema.optional and self._random.random() < 0.25:
            return None
        match schema.type:
            case T.ARRAY:
                assert schema.value_schema is not None
                return [self.value(schema.value_schema) for _ in range(self._random.randint(0, 3))]
            case T.MAP:
                assert schema.key_schema is not None
                assert schema.value_schema is not None
                count = self._random.randint(0, 3)
                return {self.value(schema.key_schema): self.value(schema.value_schema) for _ in range(count)}
            case T.STRUCT if schema.name == UNION:
                chosen = self._random.randrange(len(schema.fields))
                pairs = enumerate(schema.fields)
                return tuple(self._set(f.schema) if n == chosen else None for n, f in pairs)
            case T.STRUCT:
                return tuple(self.value(field.schema) for field in schema.fields)
        return self._set(schema)

    def _set(self, schema: Schema) -> Any:
        pick = self._random.choice
        match logical(schema):
            case name if name == DECIMAL:
                return Decimal(pick([0, 1, -1, 12345, -(10**37)])).scaleb(-scale(schema))
            case name if name == DATE:
                return dt.date(1970, 1, 1) + dt.timedelta(days=pick([0, -1, 20000, -200000]))
            case name if name == TIME:
                return pick([0, 1, 86_399_999])
            case name if name == TIMESTAMP:
                return EPOCH + dt.timedelta(milliseconds=pick([0, -1, 1_700_000_000_123, -15_000_000_000_000]))
        match schema.type:
            case T.FLOAT32 | T.FLOAT64:
                return pick(_FLOATS)
            case T.BOOLEAN:
                return pick([True, False])
            case T.BYTES:
                return bytes(pick([b"", b"\x00\xff", b"abc"]))
            case T.STRING:
                return pick(["A", "B"]) if ENUM in schema.parameters else pick(_TEXTS)
        half = 1 << (_BITS[schema.type] - 1)
        return pick([0, 1, -1, half - 1, -half])


def datum(schema: Schema, value: Any) -> Any:
    """Return what an Avro library that knows no logical types reads for a value."""
    if value is None:
        return None
    match schema.type:
        case T.ARRAY:
            assert schema.value_schema is not None
            return [datum(schema.value_schema, item) for item in value]
        case T.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            pairs = [(datum(schema.key_schema, k), datum(schema.value_schema, v)) for k, v in value.items()]
            if schema.key_schema == Schema(T.STRING):
                return dict(pairs)
            return sorted(({"key": k, "value": v} for k, v in pairs), key=repr)
        case T.STRUCT if schema.name == UNION:
            return next(datum(f.schema, v) for f, v in zip(schema.fields, value, strict=True) if v is not None)
        case T.STRUCT:
            return {f.name: datum(f.schema, v) for f, v in zip(schema.fields, value, strict=True)}
    match logical(schema):
        case name if name == DECIMAL:
            unscaled = int(value.scaleb(scale(schema)))
            return unscaled.to_bytes(
                (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True
            )
        case name if name == DATE:
            return (value - dt.date(1970, 1, 1)).days
        case name if name == TIMESTAMP:
            return (value - EPOCH) // dt.timedelta(milliseconds=1)
    return value


def in_order(read: Any) -> Any:
    """Return what a library read, its map entries in the order that `datum` has."""
    if isinstance(read, dict):
        return {name: in_order(member) for name, member in read.items()}
    if not isinstance(read, list):
        return read
    items = [in_order(item) for item in read]
    entries = items and all(isinstance(item, dict) and item.keys() == {"key", "value"} for item in items)
    return sorted(items, key=repr) if entries else items


def without_logical_types(text: str) -> Any:
    """The Avro schema for a library that is to read numbers and bytes as they are."""
    return json.loads(text, object_hook=lambda node: {k: v for k, v in node.items() if k != "logicalType"})


def spelled(schema: Schema | None, value: Any) -> Any:
    """A value of the generator, of Arrow or of Spark, in one spelling."""
    if value is None or schema is None:
        return value
    match schema.type:
        case T.ARRAY:
            return [spelled(schema.value_schema, item) for item in value]
        case T.MAP:
            pairs = value.items() if isinstance(value, dict) else value
            return sorted(
                ((spelled(schema.key_schema, k), spelled(schema.value_schema, v)) for k, v in pairs), key=repr
            )
        case T.STRUCT:
            members = value.values() if isinstance(value, dict) else value
            return tuple(spelled(f.schema, v) for f, v in zip(schema.fields, members, strict=True))
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return bytes(value) if isinstance(value, bytearray) else value
