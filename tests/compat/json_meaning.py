"""JSON as it is spelled, but without the order that Java's HashMap gives to members, for comparing byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_ESCAPE: Final = re.compile(r"\\(.)")


class _Members(tuple[tuple[str, Any], ...]):
    """An object's members, also those that come twice."""


class _Number(tuple[str, ...]):
    """A number's digits, or a word such as NaN."""


def meaning(document: bytes | None) -> Any:
    """Equal only for documents of the same bytes, but for the order of members in maps and in schemaless objects."""
    try:
        read = _spelled((document or b"").decode())
    except ValueError:
        return document
    members = dict(read) if isinstance(read, _Members) else {}
    if list(members) == ["schema", "payload"] and members["schema"] is not None:
        schema = _plain(members["schema"])
        read = _schema(schema, members["schema"]), _of(schema, members["payload"])
    else:
        read = _sorted(read)
    return len(document or b""), read


def _spelled(text: str) -> Any:
    """The document with every escape, digit and member as it is written."""

    def kept(escape: re.Match[str]) -> str:
        return "\\\\" + ("\\" if escape[1] in '"\\' else "") + escape[1]

    decoder = json.JSONDecoder(
        object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
    )
    return decoder.decode(_ESCAPE.sub(kept, text))


def _plain(value: Any) -> Any:
    if isinstance(value, _Members):
        return {name: _plain(one) for name, one in value}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, _Members):
        return _Members(sorted(((name, _sorted(one)) for name, one in value), key=repr))
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _of(schema: dict[str, Any], value: Any) -> Any:
    """A value of this schema, with the entries of its maps sorted."""
    kind = schema["type"]
    if kind == "array" and isinstance(value, list):
        return [_of(schema["items"], one) for one in value]
    if kind == "struct" and isinstance(value, _Members):
        fields = {field["field"]: field for field in schema["fields"]}
        return _Members((name, _of(fields[name], one)) for name, one in value)
    if kind == "map" and isinstance(value, list | _Members):
        entries = ((_of(schema["keys"], key) if isinstance(value, list) else key, one) for key, one in value)
        return sorted(((key, _of(schema["values"], one)) for key, one in entries), key=repr)
    return value


def _schema(schema: dict[str, Any], members: _Members) -> Any:
    """The schema with its defaults so."""
    made = []
    for name, part in members:
        if name == "default":
            made.append((name, _of(schema, part)))
        elif name in ("items", "keys", "values"):
            made.append((name, _schema(schema[name], part)))
        elif name == "fields":
            made.append((name, [_schema(field, one) for field, one in zip(schema[name], part, strict=True)]))
        else:
            made.append((name, part))
    return _Members(made)
