"""Schemas from and to the JSON of Iceberg's table metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from headrace.connectors.lake.iceberg.schemas import Field, ListOf, MapOf, Struct, Type


def struct_of(told: Mapping[str, Any]) -> Struct:
    """Return the type of a struct, or a schema, of its JSON."""
    return Struct(
        tuple(
            Field(one["id"], one["name"], _type_of(one["type"]), one["required"], one.get("write-default"))
            for one in told["fields"]
        )
    )


def _type_of(told: Any) -> Type:
    if isinstance(told, str):
        return told.replace(" ", "")
    if told["type"] == "list":
        return ListOf(told["element-id"], _type_of(told["element"]), told["element-required"])
    if told["type"] == "map":
        key, value = _type_of(told["key"]), _type_of(told["value"])
        return MapOf(told["key-id"], key, told["value-id"], value, told["value-required"])
    return struct_of(told)


def new_schema(of: Struct, identifier: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON of a new table's schema, with ids of its own; its identifier columns are required.

    Errors: KeyError with the path if an identifier column is missing.
    """
    schema = _struct_json(of, count(1))
    keys = [_required(schema, path.split(".")) for path in identifier]
    return {**schema, "schema-id": 0, "identifier-field-ids": keys}


def field_at(schema: Mapping[str, Any], path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON of the fields on the way to the column at this path. Errors: KeyError with the path."""
    inside: Any = schema
    for depth, _ in enumerate(path):
        fields = inside["fields"] if isinstance(inside, dict) and inside["type"] == "struct" else []
        name = path[depth]
        found = next((one for one in fields if one["name"] == name), None)
        if found is None:
            raise KeyError(".".join(path))
        yield found
        inside = found["type"]


def _required(schema: Mapping[str, Any], path: Sequence[str]) -> int:
    for one in field_at(schema, path):
        one["required"] = True
    found: int = one["id"]
    return found


def _struct_json(of: Struct, ids: Iterator[int]) -> dict[str, Any]:
    own = [(next(ids), one) for one in of.fields]
    fields = [
        {"id": id_, "name": one.name, "required": one.required, "type": _type_json(one.type, ids)} for id_, one in own
    ]
    return {"type": "struct", "fields": fields}


def _type_json(of: Type, ids: Iterator[int]) -> Any:
    match of:
        case Struct():
            return _struct_json(of, ids)
        case ListOf():
            element = {"element-id": next(ids), "element-required": of.element_required}
            return {"type": "list", **element, "element": _type_json(of.element, ids)}
        case MapOf():
            own = {"key-id": next(ids), "value-id": next(ids), "value-required": of.value_required}
            return {"type": "map", **own, "key": _type_json(of.key, ids), "value": _type_json(of.value, ids)}
        case _:
            return of
