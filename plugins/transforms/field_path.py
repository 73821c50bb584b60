"""Paths to nested fields: steps between dots, in backticks if a step contains dots."""

from __future__ import annotations

import re
from typing import Final

_CLOSING: Final = re.compile(r"(\\?)`(?=\.|\Z)")
"""A backtick that ends a step, unless a backslash precedes it; any other is literal."""


def steps(path: str) -> tuple[str, ...]:
    """Split a path in Connect's syntax V2 into steps; none for an empty path.

    Errors: ValueError, in Connect's words, for an unclosed backtick.
    """
    found: list[str] = []
    at = 0
    while at < len(path):
        step, at = _quoted(path, at) if path[at] == "`" else _plain(path, at)
        found.append(step)
    return (*found, "") if path.endswith(".") else tuple(found)


def _plain(path: str, at: int) -> tuple[str, int]:
    step, _, _ = path[at:].partition(".")
    return step, at + len(step) + 1


def _quoted(path: str, at: int) -> tuple[str, int]:
    """Return the step in backticks that begins at `at`, and the start of the next one."""
    step, begin = "", at + 1
    for closing in _CLOSING.finditer(path, begin):
        if not closing[1]:
            return step + path[begin : closing.start()], closing.end() + 1
        if closing.end() == len(path):
            break
        step, begin = step + path[begin : closing.start()] + "`", closing.end()
    raise ValueError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {at} "
        "to escape it"
    )
