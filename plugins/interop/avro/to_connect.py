"""Avro schemas to Connect schemas, as Confluent's converter makes them.

Decided: a fixed decimal is a Decimal, a registry's version may differ from that of a logical type, and defaults of maps
with other keys than texts are read, because Avro allows them although Confluent's converter fails; loses: nothing.
Decided: a record that contains itself is refused, because Spark has no type for it; loses: such records, except
schemaless values, which are read alone and within arrays and maps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.defaults import read_default
from headrace.plugins.interop.avro.parsing import LOGICAL_TYPE, branches, entry_of, is_anything, kind_of
from headrace.plugins.interop.avro.tree import (
    DISCARDED_ENUM_DOC,
    DISCARDED_RECORD_DOC,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    NAMED,
    PRECISION,
    RECORD_DOC,
    UNION,
    UNNAMED,
    AvroOptions,
    Tree,
)
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, SchemaType

_TYPES: Final = {
    "boolean": SchemaType.BOOLEAN,
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "bytes": SchemaType.BYTES,
    "fixed": SchemaType.BYTES,
    "string": SchemaType.STRING,
    "enum": SchemaType.STRING,
}
_LOGICAL: Final = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("bytes", "decimal"): DECIMAL,
    ("fixed", "decimal"): DECIMAL,
}
_SMALL: Final = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}


def is_optional(tree: list[Any], options: AvroOptions) -> bool:
    """True if a union has one branch and null, or one branch alone and single branches are flattened."""
    return len(branches(tree)) == 1 and (len(tree) == 2 or options.flatten_singletons)


def connect_schema(tree: Tree, options: AvroOptions, version: int | None = None) -> Schema | None:
    """Return the Connect schema for values of this Avro schema; `version` is the registry's.

    Errors: DataError if Connect or Spark cannot hold such values.
    """
    return None if is_anything(tree) else _ToConnect(options).schema(tree, version=version)


class _ToConnect:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options

    def schema(
        self,
        tree: Tree,
        optional: bool = False,
        default: Any = None,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        """Convert one type; `default` and `doc` are those of the record's field, if it is one."""
        if is_anything(tree):
            raise DataError("Schemaless values can be read alone and in arrays and maps only")
        if isinstance(tree, list):
            return self._union(tree, default, doc, version)
        properties = {"type": tree} if isinstance(tree, str) else tree
        plain = self._plain(properties)
        schema = self._named(replace(plain, optional=optional), properties, doc, version)
        return self._with_default(schema, properties, default)

    def _union(self, tree: list[Any], default: Any, doc: str | None, version: int | None) -> Schema:
        others = branches(tree)
        if is_optional(tree, self._options):
            return self.schema(others[0], len(tree) == 2, default, doc, None if len(tree) == 2 else version)
        if not others:
            raise DataError("Standalone null schemas are not supported by this converter")
        fields = tuple(Field(self.branch_name(branch), self.schema(branch, optional=True)) for branch in others)
        if len({field.name for field in fields}) < len(fields):
            raise DataError("Multiple union schemas map to the Connect union field name")
        schema = Schema(SchemaType.STRUCT, len(others) < len(tree), name=UNION, version=version, fields=fields)
        return self._with_default(schema, {"type": tree}, default)

    def branch_name(self, branch: Tree) -> str:
        if isinstance(branch, dict) and branch["type"] in NAMED:
            name: str = branch["name"]
            return name if self._options.enhanced else name.rpartition(".")[2]
        return kind_of(branch)

    def _plain(self, tree: Mapping[str, Any]) -> Schema:
        match tree["type"]:
            case "array":
                return self._array(tree)
            case "map":
                return Schema(
                    SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=self._item(tree["values"])
                )
            case "record":
                return self._record(tree)
            case "enum":
                return Schema(SchemaType.STRING, parameters=self._enum_parameters(tree))
            case "null":
                raise DataError("Standalone null schemas are not supported by this converter")
        logical_type = tree.get(LOGICAL_TYPE, tree.get("logicalType"))
        name = _LOGICAL.get((tree["type"], str(logical_type).lower()))
        if name == DECIMAL:
            return Schema(SchemaType.BYTES, name=name, version=1, parameters=self._decimal_parameters(tree))
        if name is not None:
            return Schema(_TYPES[tree["type"]], name=name, version=1)
        if tree["type"] == "int" and "connect.type" in tree and logical_type is None:
            small = _SMALL.get(_text(tree, "connect.type") or "")
            if small is None:
                raise DataError("Connect type annotation for Avro int field is null")
            return Schema(small)
        size = {FIXED_SIZE: str(tree["size"])} if tree["type"] == "fixed" else {}
        return Schema(_TYPES[tree["type"]], parameters=size)

    def _decimal_parameters(self, tree: Mapping[str, Any]) -> dict[str, str]:
        scale, precision = tree.get("scale"), tree.get("precision")
        if precision is not None and not isinstance(precision, int):
            raise DataError(
                "precision property must be a JSON Integer. https://avro.apache.org/docs/1.9.1/spec.html#Decimal"
            )
        parameters = {"scale": str(scale if isinstance(scale, int) else 0)}
        if precision not in (None, self._options.default_precision):
            parameters[PRECISION] = str(precision)
        return parameters | ({FIXED_SIZE: str(tree["size"])} if tree["type"] == "fixed" else {})

    def _item(self, tree: Tree) -> Schema | None:
        return None if is_anything(tree) else self.schema(tree)

    def _array(self, tree: Mapping[str, Any]) -> Schema:
        entry = entry_of(tree)
        if entry is None:
            return Schema(SchemaType.ARRAY, value_schema=self._item(tree["items"]))
        fields = {field["name"]: field["type"] for field in entry["fields"]}
        if fields.keys() != {"key", "value"}:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected format."
            )
        return Schema(SchemaType.MAP, key_schema=self._item(fields["key"]), value_schema=self._item(fields["value"]))

    def _record(self, tree: Mapping[str, Any]) -> Schema:
        parameters = {}
        keeps_docs = self._options.metadata and not self._options.discard_docs
        if keeps_docs and (record_doc := _text(tree, "doc")) is not None:
            parameters[RECORD_DOC] = record_doc
        fields = []
        for field in tree["fields"]:
            doc = _text(field, "doc")
            if keeps_docs and doc is not None:
                parameters[FIELD_DOC + field["name"]] = doc
            schema = self.schema(field["type"], default=field.get("default"), doc=doc)
            fields.append(Field(field["name"], schema))
        return Schema(SchemaType.STRUCT, parameters=parameters, fields=tuple(fields))

    def _enum_parameters(self, tree: Mapping[str, Any]) -> dict[str, str]:
        parameters: dict[str, str] = {}
        last, doc, default = tree["name"].rpartition(".")[2], _text(tree, "doc"), _text(tree, "default")
        if self._options.metadata and doc is not None:
            parameters[DISCARDED_ENUM_DOC if self._options.discard_docs else ENUM_DOC + last] = doc
        if self._options.metadata and not self._options.discard_docs and default is not None:
            parameters[ENUM_DEFAULT + last] = default
        return parameters | {ENUM: tree["name"]} | {f"{ENUM}.{symbol}": symbol for symbol in tree["symbols"]}

    def _named(self, schema: Schema, tree: Mapping[str, Any], doc: str | None, version: int | None) -> Schema:
        """Add the name, version, doc and parameters of the properties."""
        parameters = dict(schema.parameters)
        if self._options.discard_docs:
            own = _text(tree, "doc")
            doc = next((one for one in (doc, own, _text(tree, "connect.doc")) if one is not None), None)
            if self._options.metadata and own is not None:
                parameters[DISCARDED_RECORD_DOC] = own
        else:
            doc = _text(tree, "connect.doc") if self._options.metadata else None
        if self._options.metadata:
            parameters |= _connect_parameters(tree.get("connect.parameters", {}))
        parameters |= {key: _java_string(value) for key, value in tree.items() if key.startswith("avro")}
        return replace(
            schema, name=_name(schema, tree), version=_version(schema, tree, version), doc=doc, parameters=parameters
        )

    def _with_default(self, schema: Schema, tree: Mapping[str, Any], default: Any) -> Schema:
        parameters, given = dict(schema.parameters), tree.get("connect.default")
        if default is not None and given is None and self._options.metadata and not self._options.discard_docs:
            parameters[FIELD_DEFAULT] = "true"
        chosen = given if default is None else default
        return replace(schema, default=read_default(schema, chosen), parameters=parameters)


def _text(tree: Mapping[str, Any], key: str) -> str | None:
    """Return the property if it is text; Java's Avro library ignores others."""
    found = tree.get(key)
    return found if isinstance(found, str) else None


def _connect_parameters(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        raise DataError(f"Expected JSON object for schema parameters but found: {found}")
    for value in found.values():
        if not isinstance(value, str):
            raise DataError(f"Expected schema parameter values to be strings but found: {value}")
    return found


def _name(schema: Schema, tree: Mapping[str, Any]) -> str | None:
    name = tree.get("connect.name", tree["name"] if tree["type"] in NAMED else None)
    if name is not None and not isinstance(name, str):
        raise DataError(f"Invalid schema name: {name}")
    if schema.name is None:
        return None if name is None or name.startswith(UNNAMED) else name
    if "connect.name" in tree and name != schema.name and not str(name).startswith(UNNAMED):
        raise DataError(
            f"Mismatched names: name already added to SchemaBuilder ({schema.name}) differs from name in source "
            f"schema ({name})"
        )
    return schema.name


def _version(schema: Schema, tree: Mapping[str, Any], version: int | None) -> int | None:
    given = tree.get("connect.version")
    if given is None:
        return version if schema.version is None else schema.version
    if not isinstance(given, int):
        raise DataError(f"Invalid Connect version found: {given}")
    if schema.version is not None and schema.version != given:
        raise DataError(
            f"Mismatched versions: version already added to SchemaBuilder ({schema.version}) differs from version in "
            f"source schema ({given})"
        )
    return schema.version if given < 0 else given


def _java_string(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
