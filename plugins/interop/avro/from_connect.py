"""Connect schemas to Avro schemas, exactly as Confluent's converter registers them.

Structs without a name become `ConnectDefault`, `ConnectDefault2`, … in the order in which they occur, outer ones first;
equal structs share a name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.defaults import default_json, is_valid_default
from headrace.plugins.interop.avro.tree import (
    ANYTHING,
    DISCARDED_ENUM_DOC,
    DISCARDED_RECORD_DOC,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    PRECISION,
    RECORD_DOC,
    UNNAMED,
    AvroOptions,
    Tree,
    is_enum,
    is_union,
    valid_full_name,
    valid_name,
)
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical, scale

_AVRO_TYPES: Final = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL_TYPES: Final = {
    DECIMAL: "decimal",
    DATE: "date",
    TIME: "time-millis",
    TIMESTAMP: "timestamp-millis",
}


def avro_tree(schema: Schema | None, options: AvroOptions) -> Tree:
    """Return the Avro schema for values of a Connect schema.

    Errors: DataError if Avro cannot hold them, for example because of a name that it does not allow.
    """
    return _FromConnect(options).tree(schema)


class _FromConnect:
    """One conversion; counts structs without a name."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._unnamed = 0
        self._met: dict[Schema, Tree] = {}

    def tree(self, schema: Schema | None, bare: bool = False) -> Tree:
        """Return the tree of a schema; `bare`: without the union that makes it optional."""
        if schema is None:
            return ANYTHING
        if not schema.optional and not is_union(schema) and schema in self._met:
            return self._met[schema]
        made = self._union(schema) if is_union(schema) else self._optional(schema, bare)
        if not schema.optional:
            self._met[schema] = made
        return made

    def _union(self, schema: Schema) -> Tree:
        branches = [self.tree(replace(field.schema, optional=False), bare=True) for field in schema.fields]
        return [*(["null"] if schema.optional else []), *branches]

    def _optional(self, schema: Schema, bare: bool) -> Tree:
        if schema.optional and schema.type is SchemaType.STRUCT:
            return ["null", self.tree(replace(schema, optional=False))]
        made = self._with_properties(schema)
        if not schema.optional or bare:
            return made
        return ["null", made] if schema.default is None else [made, "null"]

    def _with_properties(self, schema: Schema) -> Tree:
        tree = self._plain(schema)
        if self._options.metadata:
            tree.update(self._metadata(schema))
        if (logical_type := _LOGICAL_TYPES.get(logical(schema) or "")) is not None:
            tree["logicalType"] = logical_type
        tree.update({key: text for key, text in schema.parameters.items() if key.startswith("avro")})
        return tree["type"] if set(tree) == {"type"} else tree

    def _metadata(self, schema: Schema) -> dict[str, Any]:
        hidden = () if self._options.discard_docs else (FIELD_DEFAULT,)
        parameters = {key: text for key, text in schema.parameters.items() if key not in hidden}
        marked = FIELD_DEFAULT in schema.parameters and not self._options.discard_docs
        default = None if schema.default is None or marked else default_json(schema, schema.default, self._options)
        connect_type = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}.get(schema.type)
        found = {
            "connect.doc": schema.doc,
            "connect.version": schema.version,
            "connect.parameters": parameters or None,
            "connect.default": default,
            "connect.name": schema.name,
            "connect.type": connect_type,
        }
        return {key: value for key, value in found.items() if value is not None}

    def _plain(self, schema: Schema) -> dict[str, Any]:
        match schema.type:
            case SchemaType.ARRAY:
                return {"type": "array", "items": self.tree(schema.value_schema)}
            case SchemaType.MAP:
                return self._map(schema)
            case SchemaType.STRUCT:
                return self._record(schema)
            case SchemaType.STRING if self._options.enhanced and is_enum(schema):
                return self._enum(schema)
            case SchemaType.BYTES:
                return self._bytes(schema)
        return {"type": _AVRO_TYPES[schema.type]}

    def _map(self, schema: Schema) -> dict[str, Any]:
        if self._options.is_avro_map(schema):
            return {"type": "map", "values": self.tree(schema.value_schema)}
        entry = {"type": "record", "name": MAP_ENTRY if schema.name is None else self._name(schema.name)}
        fields = [self._field(name, of) for name, of in (("key", schema.key_schema), ("value", schema.value_schema))]
        marks = {} if schema.name is None else {"connect.internal.type": "MapEntry"}
        return {"type": "array", "items": {**entry, "fields": fields, **marks}}

    def _record(self, schema: Schema) -> dict[str, Any]:
        discard = self._options.discard_docs
        doc = schema.parameters.get(DISCARDED_RECORD_DOC if discard else RECORD_DOC)
        tree: dict[str, Any] = {"type": "record", "name": self._name(schema.name)}
        if doc is not None:
            tree["doc"] = doc
        fields = []
        for field in schema.fields:
            field_doc = field.schema.doc if discard else schema.parameters.get(FIELD_DOC + field.name)
            fields.append(self._field(self._options.name(field.name), field.schema, field_doc))
        return {**tree, "fields": fields}

    def _field(self, name: str, schema: Schema | None, doc: str | None = None) -> dict[str, Any]:
        field: dict[str, Any] = {"name": valid_name(name), "type": self.tree(schema)}
        if doc is not None:
            field["doc"] = doc
        if schema is not None and schema.default is not None:
            default = default_json(schema, schema.default, self._options)
            if is_valid_default(field["type"], default):
                field["default"] = default
        elif schema is not None and schema.optional:
            field["default"] = None
        return field

    def _enum(self, schema: Schema) -> dict[str, Any]:
        name = self._name(schema.name).rpartition(".")[2]
        prefix = f"{ENUM}."
        symbols = [key.removeprefix(prefix) for key in schema.parameters if key.startswith(prefix)]
        discard = self._options.discard_docs
        doc = schema.parameters.get(DISCARDED_ENUM_DOC if discard else ENUM_DOC + name)
        default = None if discard else schema.parameters.get(ENUM_DEFAULT + name)
        tree = {"type": "enum", "name": valid_full_name(schema.parameters[ENUM]), "doc": doc, "default": default}
        return {**{key: value for key, value in tree.items() if value is not None}, "symbols": symbols}

    def _bytes(self, schema: Schema) -> dict[str, Any]:
        tree: dict[str, Any] = {"type": "bytes"}
        if FIXED_SIZE in schema.parameters:
            size = int(schema.parameters[FIXED_SIZE])
            tree = {"type": "fixed", "name": self._name(schema.name), "size": size}
        if logical(schema) == DECIMAL:
            try:
                tree["scale"] = scale(schema)
                tree["precision"] = int(schema.parameters.get(PRECISION, self._options.default_precision))
            except ValueError as error:
                raise DataError(str(error)) from None
        return tree

    def _name(self, name: str | None) -> str:
        if name is None:
            self._unnamed += 1
            return UNNAMED + (str(self._unnamed) if self._unnamed > 1 else "")
        parts = name.split(".")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()  # as Java's split does
        return valid_full_name(".".join(self._options.name(part) for part in parts))
