"""Shapes to write Connect values by (`plugins/interop/protobuf/codec.py`), in the message of any registered schema.

Fields are matched by name. What the message lacks is left out, as Confluent's converter does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.converters.protobuf.from_connect import is_union, member_name
from headrace.converters.protobuf.names import DATE_TYPE, DECIMAL_TYPE, TIME_TYPE, TIMESTAMP_TYPE, WRAPPERS
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.converters.protobuf.to_connect import entry_of
from headrace.plugins.contracts import DataError
from headrace.plugins.schema import (
    DATE,
    DECIMAL,
    INTEGER_BITS,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaType,
    literal,
    logical,
    scale,
    spark_type,
)

_F = FieldDescriptor
_LOGICAL: Final = {
    DATE: (DATE_TYPE, "date"),
    TIME: (TIME_TYPE, "time"),
    TIMESTAMP: (TIMESTAMP_TYPE, "timestamp"),
    DECIMAL: (DECIMAL_TYPE, "decimal"),
}
_INTEGERS: Final = (_F.CPPTYPE_INT32, _F.CPPTYPE_INT64, _F.CPPTYPE_UINT32, _F.CPPTYPE_UINT64)
_KINDS: Final[Mapping[SchemaType, tuple[str, tuple[int, ...]]]] = {
    **{type_: (type_.value, _INTEGERS) for type_ in INTEGER_BITS},
    SchemaType.FLOAT32: ("float", (_F.CPPTYPE_FLOAT,)),
    SchemaType.FLOAT64: ("double", (_F.CPPTYPE_DOUBLE,)),
    SchemaType.BOOLEAN: ("boolean", (_F.CPPTYPE_BOOL,)),
    SchemaType.STRING: ("text", (_F.CPPTYPE_STRING,)),
    SchemaType.BYTES: ("bytes", (_F.CPPTYPE_STRING,)),
}
"""The kind of the shape, and the types of fields that hold it."""


def struct_shape(schema: Schema, message: Descriptor, options: ProtobufOptions) -> Mapping[str, Any]:
    """The shape of a struct's row in this message. Errors: DataError naming a field of another type."""
    members = [_member(one.name, one.schema, message, options) for one in schema.fields]
    return {"kind": "struct", "members": members}


def raw_shape(schema: Schema, message: Descriptor, options: ProtobufOptions) -> Mapping[str, Any]:
    """The shape of a row with one value, in a wrapper. Errors: DataError."""
    return {"kind": "struct", "members": [_member("value", schema, message, options)]}


def _member(name: str, schema: Schema, message: Descriptor, options: ProtobufOptions) -> Mapping[str, Any]:
    shape: dict[str, Any] = {"name": name, "required": not schema.optional}
    if is_union(schema):
        return shape | {"union": [_member(one.name, one.schema, message, options) for one in schema.fields]}
    field = message.fields_by_name.get(member_name(name, options))
    return shape if field is None else shape | {"number": field.number, "value": _value(schema, field, options)}


def _value(schema: Schema, field: FieldDescriptor, options: ProtobufOptions) -> Mapping[str, Any]:
    if schema.type is SchemaType.MAP and (entry := entry_of(field)) is not None:
        key, value = entry.fields
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        parts = {"key": _one(schema.key_schema, key, options), "value": _one(schema.value_schema, value, options)}
        return {"kind": "map", **parts}
    if schema.type is SchemaType.ARRAY and field.is_repeated and schema.value_schema is not None:
        return {"kind": "list", "item": _one(schema.value_schema, field, options)}
    if field.is_repeated:
        raise mismatch(schema, field)
    return _one(schema, field, options)


def _one(schema: Schema, field: FieldDescriptor, options: ProtobufOptions) -> Mapping[str, Any]:
    """The shape of one value of a field."""
    known, message = logical(schema), field.message_type
    if known is not None:
        name, kind = _LOGICAL[known]
        if message is None or message.full_name != name:
            raise mismatch(schema, field)
        return {"kind": kind, **({"scale": scale(schema)} if known == DECIMAL else {})}
    if schema.type is SchemaType.STRUCT:
        if message is None:
            raise mismatch(schema, field)
        return struct_shape(schema, message, options)
    if message is not None and message.full_name in WRAPPERS:
        return {"kind": "wrapped", "value": _one(schema, message.fields[0], options)}
    return scalar_shape(schema, field)


def scalar_shape(schema: Schema, field: FieldDescriptor) -> Mapping[str, Any]:
    """The shape of a value that is neither logical nor made of others. Errors: DataError."""
    if field.enum_type is not None and schema.type in (SchemaType.STRING, SchemaType.INT32):
        return {"kind": "symbol" if schema.type is SchemaType.STRING else "number"}
    kind, types = _KINDS.get(schema.type, ("", ()))
    is_bytes = field.type == _F.TYPE_BYTES
    if field.cpp_type not in types or (types == (_F.CPPTYPE_STRING,) and is_bytes != (kind == "bytes")):
        raise mismatch(schema, field)
    return {"kind": kind}


def mismatch(schema: Schema, field: FieldDescriptor) -> DataError:
    """The error for a field that does not hold values of a Connect schema."""
    known = schema.name if logical(schema) is not None else schema.type.name
    return DataError(f"Values of the type {known} do not fit the registered Protobuf field {field.full_name}")


def with_defaults(value: Column, schema: Schema | None) -> Column:
    """The values with Connect's defaults in place of nulls."""
    if schema is None or not _has_default(schema):
        return value
    made = value
    match schema.type:
        case SchemaType.STRUCT:
            fields = [with_defaults(value.getField(one.name), one.schema).alias(one.name) for one in schema.fields]
            made = F.when(value.isNotNull(), F.struct(*fields))
        case SchemaType.ARRAY:
            made = F.transform(value, lambda one: with_defaults(one, schema.value_schema))
        case SchemaType.MAP:
            made = F.transform_values(value, lambda _, one: with_defaults(one, schema.value_schema))
    made = made.cast(spark_type(schema))
    return made if schema.default is None else F.coalesce(made, literal(schema.default, schema))


def _has_default(schema: Schema | None) -> bool:
    if schema is None:
        return False
    inner = (*(one.schema for one in schema.fields), schema.value_schema)
    return schema.default is not None or any(_has_default(one) for one in inner)
