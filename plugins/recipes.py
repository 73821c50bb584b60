"""Recipes: what expressions depend on, so that tasks with equal ones share what was made (`contracts`)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol


class TellsRecipe(Protocol):
    """A task or a converter."""

    @property
    def recipe(self) -> Hashable | None:
        """What its expressions depend on."""


def recipe_of(plugin: TellsRecipe) -> Hashable | None:
    """Return its class and the recipe that it tells.

    None where it tells none, or where its class extends the one that does: that knows nothing of what was added.
    """
    told = plugin.recipe
    if told is None or not ("recipe" in getattr(plugin, "__dict__", ()) or _is_told_by(type(plugin))):
        return None
    return type(plugin), told


def together(*parts: Hashable | None) -> Hashable | None:
    """Return the recipe of what depends on all of these; None where one of them is not known."""
    return None if any(part is None for part in parts) else parts


def _is_told_by(made: type) -> bool:
    """Whether the class itself has the recipe, or a class that it adds no function or property to."""
    for one in made.__mro__:
        if "recipe" in vars(one):
            return True
        if any(callable(value) or hasattr(value, "__get__") for value in vars(one).values()):
            return False
    return False
