"""The mapping of an index by the schema of its documents."""

from __future__ import annotations

from typing import Any, Final

from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_TYPES: Final = {
    SchemaType.BOOLEAN: "boolean",
    SchemaType.INT8: "byte",
    SchemaType.INT16: "short",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.STRING: "text",
    SchemaType.BYTES: "binary",
}
_LOGICAL: Final = {DECIMAL: "double", DATE: "date", TIME: "date", TIMESTAMP: "date"}
_KEYWORD: Final = {"keyword": {"type": "keyword", "ignore_above": 256}}
_WITHOUT_NULL_VALUE: Final = ("text", "binary")


def mapping_of(schema: Schema) -> dict[str, Any]:
    """The mapping of a struct's fields; of another type, the mapping of a field."""
    if schema.type is SchemaType.STRUCT:
        return {"properties": {field.name: mapping_of(field.schema) for field in schema.fields}}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return mapping_of(schema.value_schema)
    if schema.type is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        return {"properties": {"key": mapping_of(schema.key_schema), "value": mapping_of(schema.value_schema)}}
    return _of_value(schema)


def _of_value(schema: Schema) -> dict[str, Any]:
    kind = logical(schema)
    made: dict[str, Any] = {"type": _TYPES[schema.type] if kind is None else _LOGICAL[kind]}
    if made["type"] == "text":
        made["fields"] = _KEYWORD
    if schema.default is not None and made["type"] not in _WITHOUT_NULL_VALUE:
        made["null_value"] = _null_value(schema, kind)
    return made


def _null_value(schema: Schema, kind: str | None) -> Any:
    if kind == DECIMAL:
        return float(str(schema.default))
    if kind == DATE:
        assert isinstance(schema.default, int)
        return schema.default * 86_400_000
    return schema.default
