"""JSON pointers, as `/items/0/id`; both the empty one and `/` name the whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from headrace.config.values import invalid

_MISSING: Final = object()


class NoSuchPart(Exception):
    """A pointer that leads nowhere in an answer."""


def part(node: Any, pointer: str) -> Any:
    """The part of parsed JSON that a pointer names. Errors: NoSuchPart."""
    found = _found(node, pointer)
    if found is _MISSING:
        raise NoSuchPart(f"it has nothing at {pointer}: {shown(node)}")
    return found


def part_or_none(node: Any, pointer: str) -> Any:
    """The part that a pointer names; None if there is none."""
    found = _found(node, pointer)
    return None if found is _MISSING else found


def items(node: Any, pointer: str) -> Sequence[Any]:
    """The items at a pointer: those of an array, none of null, else one. Errors: NoSuchPart."""
    found = part(node, pointer)
    if isinstance(found, list):
        return found
    return [] if found is None else [found]


def text(node: Any) -> str:
    """The text of a part: a text itself, of all else its JSON."""
    return node if isinstance(node, str) else json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def shown(node: Any) -> str:
    """The beginning of a part, for errors."""
    return text(node)[:120]


def pointer_problem(name: str, value: Any) -> str | None:
    """The error of a text that is no pointer, or None."""
    if value and not value.startswith("/"):
        return invalid(name, value, "A JSON pointer begins with /")
    return None


def _found(node: Any, pointer: str) -> Any:
    for name in pointer.split("/")[1:] if pointer not in ("", "/") else ():
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name, _MISSING)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return _MISSING
    return node
