"""Inlines the schemas of other subjects that an Avro schema refers to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.plugins.contracts import DataError

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_PLAIN: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", *_NAMED}
)


def standing_alone(text: str, referenced: Iterable[tuple[str, str]]) -> str:
    """The schema with each referenced type written out at its first use, and named after that.

    `referenced`: the names and texts of all schemas that it refers to, directly or not.

    Errors: DataError for a text that is not JSON.
    """
    known: dict[str, tuple[Mapping[str, Any], str]] = {}
    for _, each in referenced:
        _collect(_parsed(each), "", known)
    return json.dumps(_inlined(_parsed(text), "", known, set()), ensure_ascii=False, separators=(",", ":"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"The schema registry gave an Avro schema that is not JSON: {text[:200]!r}") from error


def _collect(schema: Any, namespace: str, known: dict[str, tuple[Mapping[str, Any], str]]) -> None:
    """Collects every named type of a schema by its full name, with the namespace around it."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, known)
    elif isinstance(schema, dict):
        inside = namespace
        if isinstance(schema.get("type"), str) and schema["type"] in _NAMED:
            name, inside = _full_name(schema, namespace)
            known.setdefault(name, (schema, namespace))
        for part in _parts(schema):
            _collect(part, inside, known)


def _parts(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas directly within a schema."""
    fields = [field.get("type") for field in schema.get("fields") or () if isinstance(field, dict)]
    kind = schema.get("type")
    return [*fields, schema.get("items"), schema.get("values"), *([kind] if isinstance(kind, dict | list) else [])]


def _full_name(schema: Mapping[str, Any], around: str) -> tuple[str, str]:
    """The full name of a named type and its namespace."""
    name = str(schema.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    namespace = str(schema["namespace"] or "") if schema.get("namespace") is not None else around
    return (f"{namespace}.{name}" if namespace else name), namespace


def _inlined(schema: Any, around: str, known: Mapping[str, tuple[Mapping[str, Any], str]], defined: set[str]) -> Any:
    if isinstance(schema, list):
        return [_inlined(branch, around, known, defined) for branch in schema]
    if isinstance(schema, str):
        return _named(schema, around, known, defined)
    if not isinstance(schema, dict):
        return schema
    inside, result, kind = around, dict(schema), schema.get("type")
    if isinstance(kind, str) and kind not in _PLAIN:
        return _named(kind, around, known, defined)
    if isinstance(kind, dict | list):
        result["type"] = _inlined(kind, around, known, defined)
    elif kind in _NAMED:
        name, inside = _full_name(schema, around)
        defined.add(name)
    for key in ("items", "values"):
        if key in schema:
            result[key] = _inlined(schema[key], inside, known, defined)
    if isinstance(schema.get("fields"), list):
        result["fields"] = [
            {**field, "type": _inlined(field.get("type"), inside, known, defined)} if isinstance(field, dict) else field
            for field in schema["fields"]
        ]
    return result


def _named(name: str, around: str, known: Mapping[str, tuple[Mapping[str, Any], str]], defined: set[str]) -> Any:
    """The replacement for the name of a type: its definition at the first use, else its full name."""
    if name in _PLAIN:
        return name
    # As in Avro's parser a name without dots is looked up in the namespace around it, then without one.
    for full in (f"{around}.{name}" if around and "." not in name else name, name):
        if full in defined:
            return full
        if full in known:
            definition, was_around = known[full]
            _, namespace = _full_name(definition, was_around)
            # Without its own namespace it would take that of its new place.
            return _inlined({**definition, "namespace": namespace}, around, known, defined)
    return name
