"""Connect schemas to the text of a .proto file.

The text has one form for a schema: two spaces for each level, fields, then nested messages and enums in the order in
which fields name them. It refers to well-known types only, which every reader has.

Decided: a field without a tag gets the next free number, members of a oneof included; Confluent's converter gives these
0, which no registry takes; loses: nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from headrace.converters.protobuf.names import (
    DATE_TYPE,
    DECIMAL_TYPE,
    ENUM,
    FILES,
    META_FILE,
    META_OPTION,
    TAG,
    TIME_TYPE,
    TIMESTAMP_TYPE,
    TYPE,
    UNION,
    UNNAMED,
    WRAPPERS,
    WRAPPERS_FILE,
)
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.tree import PRECISION, scrubbed
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType, logical, scale

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SCALAR_TYPES: Final = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_KINDS: Final = {
    SchemaType.INT32: ("sint32", "sfixed32"),
    SchemaType.INT64: ("uint32", "fixed32", "sint64", "uint64", "fixed64", "sfixed64"),
}
"""The types that the parameter `TYPE` may ask for."""
_WRAPPED: Final = {
    "fixed32": "uint32",
    "fixed64": "uint64",
    "sint32": "int32",
    "sfixed32": "int32",
    "sint64": "int64",
    "sfixed64": "int64",
}
_LOGICAL: Final = {DATE: DATE_TYPE, TIME: TIME_TYPE, TIMESTAMP: TIMESTAMP_TYPE, DECIMAL: DECIMAL_TYPE}
_MAP_KEYS: Final = (SchemaType.STRING, SchemaType.BOOLEAN, *_KINDS, SchemaType.INT8, SchemaType.INT16)
_NESTED: Final = (SchemaType.ARRAY, SchemaType.MAP)


@dataclass(frozen=True)
class ProtoText:
    """The text of a file, and the full name of the message in it that values have."""

    text: str
    message: str
    is_wrapper: bool = False
    """True if the message stands around a value that is no struct."""


def proto_text(schema: Schema | None, options: ProtobufOptions) -> ProtoText:
    """The text for values of a Connect schema. Errors: DataError if Protobuf cannot hold them."""
    if schema is None:
        raise DataError(
            "ProtobufConverter writes values with a schema only; for values without one use JsonConverter with "
            "schemas.enable=false"
        )
    if schema.type in _NESTED:
        raise DataError(f"Protobuf cannot hold a value of type {schema.type.name} that is not in a struct")
    if schema.type is SchemaType.STRUCT:
        package, _, _ = (schema.name or "").rpartition(".")
        return _File(options).text(schema, package)
    if logical(schema) is not None or ENUM in schema.parameters:
        raise DataError(f"Protobuf cannot hold a {schema.name or 'enum'} that is not in a struct")
    kind = _WRAPPED.get(_scalar(schema), _scalar(schema))
    name = next(name for name, of in WRAPPERS.items() if of == kind)
    short = name.rpartition(".")[2]
    text = f'syntax = "proto3";\npackage google.protobuf;\n\nmessage {short} {{\n  {kind} value = 1;\n}}\n'
    return ProtoText(text, name, is_wrapper=True)


def member_name(name: str, options: ProtobufOptions) -> str:
    """The name of a field or type. Errors: DataError if Protobuf does not allow it."""
    made = _scrubbed(name) if options.scrub else name
    if not _NAME.fullmatch(made):
        raise DataError(f"Protobuf does not allow the name {name!r}: set scrub.invalid.names=true of this converter")
    return made


def oneof_name(member: Field) -> str:
    """The name of the oneof that a struct stands for."""
    return (member.schema.name or "").removeprefix(f"{UNION}.")


def is_union(schema: Schema) -> bool:
    """True if a struct stands for a oneof, with a field for each member."""
    return schema.type is SchemaType.STRUCT and (schema.name or "").startswith(f"{UNION}.")


def _scrubbed(name: str) -> str:
    made = scrubbed(name)
    return f"x{made}" if made.startswith("_") else made


def _scalar(schema: Schema) -> str:
    asked = schema.parameters.get(TYPE)
    return asked if asked in _KINDS.get(schema.type, ()) else SCALAR_TYPES[schema.type]


@dataclass
class _Message:
    """A message in the making: its lines of fields, and what is nested in it by name."""

    names: frozenset[str]
    lines: list[str] = field(default_factory=list)
    nested: dict[str, tuple[Schema, list[str]]] = field(default_factory=dict)


class _File:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._imports: set[str] = set()
        self._unnamed = 0
        self._hidden: frozenset[str] = frozenset()

    def text(self, schema: Schema, package: str) -> ProtoText:
        """The whole file of a struct."""
        name = self._type_name(schema)
        package = ".".join(member_name(part, self._options) for part in package.split(".")) if package else ""
        # Names are looked up from the inside: in the package io.confluent, confluent.type means io.confluent.type.
        self._hidden = frozenset(package.split(".")[1:])
        lines = ['syntax = "proto3";', *([f"package {package};"] if package else []), ""]
        message = self._message(name, schema)
        if self._imports:
            lines += [*(f'import "{each}";' for each in sorted(self._imports)), ""]
        return ProtoText("\n".join([*lines, *message, ""]), f"{package}.{name}" if package else name)

    def _type_name(self, schema: Schema) -> str:
        if schema.name:
            return member_name(schema.name.rpartition(".")[2], self._options)
        self._unnamed += 1
        return f"{UNNAMED}{self._unnamed}"

    def _message(self, name: str, schema: Schema) -> list[str]:
        flat = list(_flat(schema))
        within = _Message(frozenset(member_name(one.name, self._options) for one in flat))
        if len(within.names) < len(flat):
            raise DataError(f"The struct {name} has two fields that have one name in Protobuf")
        numbers = _numbers(flat)
        for one in schema.fields:
            if is_union(one.schema):
                lines = [f"  {self._field(each, next(numbers), within)}" for each in one.schema.fields]
                within.lines += [f"oneof {member_name(oneof_name(one), self._options)} {{", *lines, "}"]
            else:
                within.lines.append(self._field(one, next(numbers), within, is_alone=True))
        nested = [line for _, lines in within.nested.values() for line in ["", *lines]]
        return [f"message {name} {{", *(f"  {line}" if line else "" for line in within.lines + nested), "}"]

    def _field(self, one: Field, number: int, within: _Message, is_alone: bool = False) -> str:
        """One line; `is_alone`: it is no member of a oneof, and may be repeated or optional."""
        schema, label, params = one.schema, "", dict[str, str]()
        name = member_name(one.name, self._options)
        if not is_alone and schema.type in _NESTED:
            raise DataError(f"The member {name} of a oneof is of type {schema.type.name}, which Protobuf cannot hold")
        if schema.type is SchemaType.MAP:
            kind, label = self._map(name, schema, within)
        elif schema.type is SchemaType.ARRAY:
            kind, label = self._single(name, _inner(name, schema.value_schema), within, params), "repeated "
        else:
            kind = self._single(name, schema, within, params)
            is_scalar = schema.type is not SchemaType.STRUCT and logical(schema) is None
            if is_alone and schema.optional and is_scalar:
                kind, label = self._nullable(kind, ENUM in schema.parameters)
        return f"{label}{kind} {name} = {number}{self._option(params)};"

    def _nullable(self, kind: str, is_enum: bool) -> tuple[str, str]:
        """The type and the label of an optional scalar."""
        if self._options.wrappers and not is_enum:
            self._imports.add(WRAPPERS_FILE)
            wrapper = next(name for name, of in WRAPPERS.items() if of == _WRAPPED.get(kind, kind))
            return self._from_outside(wrapper), ""
        return kind, "optional " if self._options.optional else ""

    def _single(self, name: str, schema: Schema, within: _Message, params: dict[str, str]) -> str:
        """The type of one value."""
        known = logical(schema)
        if known is not None:
            made = self._from_outside(_LOGICAL[known])
            self._imports.add(FILES[_LOGICAL[known]])
            if known == DECIMAL:
                precision = {"precision": schema.parameters[PRECISION]} if PRECISION in schema.parameters else {}
                params |= {**precision, "scale": str(scale(schema))}
            return made
        if schema.type is SchemaType.STRUCT:
            return self._nested(self._type_name(schema), schema, within, self._message)
        if ENUM in schema.parameters:
            enum = member_name(schema.parameters[ENUM].rpartition(".")[2] or name, self._options)
            return self._nested(enum, schema, within, _enum)
        if schema.type in (SchemaType.INT8, SchemaType.INT16):
            params["connect.type"] = schema.type.value
        return _scalar(schema)

    def _nested(self, name: str, schema: Schema, within: _Message, make: Callable[[str, Schema], list[str]]) -> str:
        """The name of a type nested in the message, made unless an equal one is there. Errors: DataError."""
        name = f"{name}Message" if name in within.names else name
        alike = _shape(schema)
        if name not in within.nested:
            within.nested[name] = alike, make(name, schema)
        elif within.nested[name][0] != alike:
            raise DataError(f"One struct has two different members of the type {name}, which Protobuf cannot hold")
        return name

    def _map(self, name: str, schema: Schema, within: _Message) -> tuple[str, str]:
        """The type and the label of a map; a list of entries if no map of Protobuf can be like it."""
        schemas = [_inner(name, schema.key_schema), _inner(name, schema.value_schema)]
        options: list[dict[str, str]] = [{}, {}]
        kinds = [self._single(name, one, within, params) for one, params in zip(schemas, options, strict=True)]
        key = schemas[0]
        if key.type in _MAP_KEYS and logical(key) is None and ENUM not in key.parameters and not any(options):
            return f"map<{kinds[0]}, {kinds[1]}>", ""
        lines = [
            f"  {kind} {part} = {number}{self._option(params)};"
            for kind, params, (number, part) in zip(kinds, options, enumerate(("key", "value"), 1), strict=True)
        ]
        entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
        return self._nested(entry, schema, within, lambda name, _: [f"message {name} {{", *lines, "}"]), "repeated "

    def _option(self, params: dict[str, str]) -> str:
        """The option that keeps what Protobuf's type does not tell."""
        if not params:
            return ""
        self._imports.add(META_FILE)
        pairs = ", ".join(f"{{key: {json.dumps(key)}, value: {json.dumps(params[key])}}}" for key in sorted(params))
        return f" [({self._from_outside(META_OPTION)}) = {{params: [{pairs}]}}]"

    def _from_outside(self, name: str) -> str:
        """A well-known name, so that the package does not hide it."""
        return f".{name}" if name.partition(".")[0] in self._hidden else name


def _flat(schema: Schema) -> Iterator[Field]:
    """The fields of a message: those of a struct, with the members of its oneofs in their place."""
    for one in schema.fields:
        yield from one.schema.fields if is_union(one.schema) else (one,)


def _numbers(fields: Sequence[Field]) -> Iterator[int]:
    tags = [one.schema.parameters.get(TAG) for one in fields]
    taken = {int(tag) for tag in tags if tag is not None}
    free = (number for number in count(1) if number not in taken and not 19_000 <= number < 20_000)
    return iter([int(tag) if tag is not None else next(free) for tag in tags])


def _inner(name: str, schema: Schema | None) -> Schema:
    """The schema of items. Errors: DataError if they are arrays or maps themselves, or have no schema."""
    if schema is None or schema.type in _NESTED or is_union(schema):
        kind = "values without schema" if schema is None else f"values of type {schema.type.name}"
        raise DataError(f"The field {name} has {kind} inside an array or a map, which Protobuf cannot hold")
    return schema


def _shape(schema: Schema) -> Schema:
    """The schema without what a field adds to its type."""
    parameters = {key: value for key, value in schema.parameters.items() if key != TAG}
    return replace(schema, optional=False, default=None, doc=None, parameters=parameters)


def _enum(name: str, schema: Schema) -> list[str]:
    before = f"{ENUM}."
    symbols = [
        (int(number), symbol.removeprefix(before))
        for symbol, number in schema.parameters.items()
        if symbol.startswith(before)
    ]
    for _, symbol in symbols:
        if not _NAME.fullmatch(symbol):
            raise DataError(f"Protobuf does not allow the symbol {symbol!r} of the enum {name}")
    symbols.sort(key=lambda pair: pair[0] != 0)  # the first of proto3 has the number 0
    alias = ["  option allow_alias = true;"] if len({number for number, _ in symbols}) < len(symbols) else []
    return [f"enum {name} {{", *alias, *(f"  {symbol} = {number};" for number, symbol in symbols), "}"]
