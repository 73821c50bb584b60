"""Recipes: what expressions depend on, so that tasks with equal ones share what was made (`contracts`)."""

from __future__ import annotations

from collections.abc import Hashable


def together(*parts: Hashable | None) -> Hashable | None:
    """The recipe of what depends on all of these; None where one of them is not known."""
    return None if any(part is None for part in parts) else parts
