"""Checks that every document of one JSON Schema is valid under another, as far as types, members and values say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.converters.json_schema.documents import Documents, base_of

_UNIONS: Final = ("oneOf", "anyOf")
_DEEPEST: Final = 32
_MOST_COMPARED: Final = 20_000
"""Parts to compare before a schema counts as too large: branches that name each other multiply."""


def breaks(reader: Documents, writer: Documents) -> Iterator[str]:
    """The reasons that `reader` may refuse documents of `writer`, naming places; empty if there are none.

    `writer` is of the form that Headrace writes. Errors: DataError for a reference without a target.
    """
    return _Check(reader, writer).breaks(reader.root, "", writer.root, "the value", 0)


class _Check:
    def __init__(self, reader: Documents, writer: Documents) -> None:
        self._reader = reader
        self._writer = writer
        self._compared = 0

    def breaks(self, reader: Any, base: str, writer: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        """The reasons for one part."""
        self._compared += 1
        if self._compared > _MOST_COMPARED:
            yield f"{at} has too many parts to be compared"
            return
        if reader is True or reader == {}:
            return
        if not isinstance(reader, dict) or depth > _DEEPEST:
            yield f"{at} is refused" if reader is False else f"{at} is nested too deeply to be compared"
            return
        base = base_of(reader, base)
        if isinstance(reader.get("$ref"), str):
            yield from self.breaks(*self._reader.resolve(reader["$ref"], base), writer, at, depth + 1)
            return
        union = next((key for key in _UNIONS if isinstance(writer.get(key), list)), None)
        if union is not None:
            for branch in writer[union]:
                yield from self.breaks(reader, base, branch, at, depth + 1)
            return
        for key in _UNIONS:
            branches = reader.get(key)
            if isinstance(branches, list) and not any(self._takes(one, base, writer, at, depth) for one in branches):
                yield f"{at} fits no branch of {key}"
        for one in reader["allOf"] if isinstance(reader.get("allOf"), list) else ():
            yield from self.breaks(one, base, writer, at, depth + 1)
        yield from self._of_one_type(reader, base, writer, at, depth)

    def _takes(self, reader: Any, base: str, writer: Mapping[str, Any], at: str, depth: int) -> bool:
        return next(self.breaks(reader, base, writer, at, depth + 1), None) is None

    def _of_one_type(
        self, reader: Mapping[str, Any], base: str, writer: Mapping[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        values = writer.get("enum")
        allowed = [reader["const"]] if "const" in reader else reader.get("enum")
        if isinstance(allowed, list):
            more = allowed if values is None else [value for value in values if value not in allowed]
            if values is None or more:
                yield f"{at} may have other values than {allowed}"
        kind = "string" if values is not None else writer.get("type")
        kinds = reader.get("type", kind)
        if kind not in (kinds if isinstance(kinds, list) else [kinds]) and not (
            kind == "integer" and "number" in kinds
        ):
            yield f"{at} is {kind}, not {kinds}"
        elif kind == "object":
            yield from self._objects(reader, base, writer, at, depth)
        elif kind == "array" and "items" in reader:
            yield from self.breaks(reader["items"], base, writer["items"], f"items of {at}", depth + 1)

    def _objects(
        self, reader: Mapping[str, Any], base: str, writer: Mapping[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        theirs, ours = reader.get("properties") or {}, writer.get("properties") or {}
        others = reader.get("additionalProperties", True)
        for name in reader.get("required") or ():
            if name not in ours:
                yield f"property {name} of {at} is required and never written"
        for name, part in ours.items():
            place = f"property {name} of {at}"
            yield from self.breaks(theirs.get(name, others), base, part, place, depth + 1)
        if isinstance(writer.get("additionalProperties"), dict):
            for part in (*theirs.values(), others):
                yield from self.breaks(part, base, writer["additionalProperties"], f"values of {at}", depth + 1)
