"""Shows the stages of a previewed record: the fields of each, and what became of them since the stage before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_ABSENT: Final = object()


@dataclass(frozen=True)
class Field:
    """A field of a key or a value, or the whole of one that has no fields."""

    name: str
    value: Any
    mark: str = ""
    """`changed`, `new` or `gone` since the stage before; else empty."""
    gone: Any = None
    """The value before, if there is another one now, or none; None for a text of many fields."""


@dataclass(frozen=True)
class Part:
    """A part of a record after a stage: its topic, key, value or a header."""

    label: str
    fields: Sequence[Field]


def stepped(stages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Sequence[Part]]]:
    """Each stage with its parts: key and value always, topic and headers if they are new or changed."""
    before: dict[str, Any] = {}
    for stage in stages:
        after = _parts(stage)
        parts = [
            Part(label, fields)
            for label in [*after, *(one for one in before if one not in after)]
            if (fields := [*_fields(before.get(label, _ABSENT), after.get(label, _ABSENT))])
            and (label in ("key", "value") or not before or any(field.mark for field in fields))
        ]
        yield stage, parts
        before = after


def _parts(stage: Mapping[str, Any]) -> dict[str, Any]:
    topic = stage.get("topic")
    found = {} if topic is None else {"topic": topic}
    found |= {"key": stage.get("key"), "value": stage.get("value")}
    return found | {f"header {one['key']}": one["value"] for one in stage.get("headers") or ()}


def _fields(before: Any, after: Any) -> Iterator[Field]:
    if not isinstance(after, dict):
        if after is _ABSENT:
            yield Field("", None, "gone", before)
        else:
            yield Field("", after, "changed" if before is not _ABSENT and before != after else "")
        return
    known = before if isinstance(before, dict) else after
    for name, value in after.items():
        if name not in known:
            yield Field(name, value, "new")
        elif known[name] != value:
            yield Field(name, value, "changed", known[name])
        else:
            yield Field(name, value)
    for name, value in known.items():
        if name not in after:
            yield Field(name, None, "gone", value)
