"""Declares a connector's settings group by group, as consoles' forms show them."""

from __future__ import annotations

from typing import Any, Final

from headrace.config.settings import Importance, Setting, Type, Width
from headrace.config.validators import Validator

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
SHORT: Final = Width.SHORT
MID: Final = Width.MEDIUM
LONG: Final = Width.LONG


class SettingGroup:
    """Declares the settings of one group, numbered in their order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._count = 0

    def __call__(
        self,
        name: str,
        type_: Type,
        default: Any,
        importance: Importance,
        width: Width,
        display_name: str,
        text: str,
        validator: Validator | None = None,
        dependents: tuple[str, ...] = (),
        recommender: Any = None,
        is_plugin: bool = True,
    ) -> Setting:
        self._count += 1
        shown = (self.name, self._count, width, display_name, dependents, recommender, is_plugin)
        return Setting(name, type_, default, validator, importance, text, *shown)
