"""Hints for a registry's refusals of Avro schemas: names of fields, and names that Avro does not allow."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from headrace.converters.registry.http import RegistryError
from headrace.plugins.contracts import DataError
from headrace.plugins.interop.avro.tree import valid_name

_NAMESPACE: Final = re.compile(r'"namespace":"([^"]+)"')
_PATH: Final = re.compile(r"/fields/\d+(?:/[a-z]+(?:/\d+)?)*")


def explained(error: RegistryError, text: str) -> RegistryError:
    """The registry's refusal of this schema, with the names of the fields or the invalid names as a hint."""
    explanation = None
    match error.status:
        case 409:
            explanation = _fields_named(error.message, text)
        case 422:
            explanation = _names_refused(text)
    return error if explanation is None else RegistryError(f"{error.message} ({explanation})", error.status, error.code)


CHANGE_NAMES: Final = (
    "set scrub.invalid.names=true of this converter, or, for Debezium's connectors, schema.name.adjustment.mode=avro "
    "and field.name.adjustment.mode=avro"
)


def _names_refused(text: str) -> str | None:
    """The names that Avro does not allow; registries do not tell them. Last parts were checked before."""
    bad = {space for space in _NAMESPACE.findall(text) if not all(map(_is_valid, space.split(".")))}
    if not bad:
        return None
    names = ", ".join(f"'{name}'" for name in sorted(bad))
    return f"Avro does not allow the name {names}: {CHANGE_NAMES}"


def _is_valid(name: str) -> bool:
    try:
        valid_name(name)
    except DataError:
        return False
    return True


def _fields_named(message: str, text: str) -> str | None:
    """Names of the fields that the message gives only as paths."""
    named = {path: name for path in _PATH.findall(message) if (name := _field_at(text, path)) is not None}
    if not named:
        return None
    return "in the schema that was sent " + ", ".join(f"{path} is field '{name}'" for path, name in named.items())


def _field_at(text: str, path: str) -> str | None:
    """The dotted name of the field at a path such as `/fields/0/type/fields/2`."""
    names: list[str] = []
    before = ""
    try:
        place: Any = json.loads(text)
        for step in path.strip("/").split("/"):
            place = place[int(step)] if isinstance(place, list) else place[step]
            if before == "fields":
                names.append(str(place["name"]))
            before = step
    except (LookupError, TypeError, ValueError):
        pass  # the names found so far
    return ".".join(names) or None
