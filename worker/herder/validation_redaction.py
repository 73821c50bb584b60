"""Limits what a validation shows of the config that it was given: the caller's words, but no value of a variable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from headrace.config.connector.unknown_settings import UnknownSetting
from headrace.config.connector.validation import ValidatedSide, Validation
from headrace.config.settings import Setting, Settings
from headrace.config.values import HIDDEN, Password, Type, looks_secret, read
from headrace.worker.logging.redaction import Redaction

_LISTS: Final = {"transforms": "Transforms", "predicates": "Predicates"}
"""Settings with aliases as items, and the titles of the aliases' groups."""


@dataclass(frozen=True)
class ValidationRedaction:
    """A config as its caller gave it, and with its variables resolved.

    A message is redacted by its field: the field's own value if it is secret or came from a variable, and the config's
    other secrets. Other words of the caller stay as they were given, so that no answer confirms a guess (Invariant 6).
    """

    raw: Mapping[str, str]
    resolved: Mapping[str, str] = field(repr=False)
    redaction: Redaction

    def validation(self, outcome: Validation) -> Validation:
        """Return the outcome with `${…}` in place of each value that a variable gave, which Connect would show.

        Messages are redacted in place.
        """
        for part in outcome.parts:
            for name, value in part.values.items():
                value.errors[:] = [self.message(name, message) for message in value.errors]
                if self._is_provided(name) and not isinstance(value.value, Password):
                    value.value = self.raw[name]
        if not self._aliases:
            return outcome
        unread = [UnknownSetting(self._renamed(key), self._renamed(advice)) for key, advice in outcome.unread]
        return replace(outcome, parts=[self._part(part) for part in outcome.parts], unread=unread)

    def message(self, name: str, text: str) -> str:
        """Redact a message about a setting."""
        if self._is_provided(name) or looks_secret(name):
            own = self.resolved.get(name, "")
            items = {own, *map(str.strip, own.split(","))} - {""}
            values = "|".join(map(re.escape, sorted(items, key=len, reverse=True)))
            text = re.sub(rf"(?<!\w)(?:{values})(?!\w)", HIDDEN, text) if items else text
        return self._renamed(self.redaction.hide(text))

    def _is_provided(self, name: str) -> bool:
        return name in self.raw and self.raw[name] != self.resolved[name]

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        """Texts of names and groups with aliases that only a variable has, and the texts to show instead."""
        shown: dict[str, str] = {}
        for key, title in _LISTS.items():
            for alias in read(key, Type.LIST, self.resolved[key]) if self._is_provided(key) else ():
                if alias and not any(name.startswith(f"{key}.{alias}.") for name in self.raw):
                    number = f"{HIDDEN}{len(shown) // 4 or ''}"
                    shown |= {
                        f"{key}.{alias}.": f"{key}.{number}.",
                        f"{title}: {alias}": f"{title}: {number}",
                        f" for {alias}": f" for {number}",
                        f"'{alias}'": f"'{number}'",
                    }
        return shown

    def _renamed(self, text: str) -> str:
        for told, shown in self._aliases.items():
            text = text.replace(told, shown)
        return text

    def _part(self, part: ValidatedSide) -> ValidatedSide:
        values = {}
        for name, value in part.values.items():
            value.name = self._renamed(name)
            values[value.name] = value
        return replace(part, settings=Settings(*map(self._setting, part.settings)), values=values)

    def _setting(self, setting: Setting) -> Setting:
        return replace(
            setting,
            name=self._renamed(setting.name),
            group=setting.group and self._renamed(setting.group),
            documentation=self._renamed(setting.documentation),
            display_name=self._renamed(setting.display_name),
            dependents=tuple(map(self._renamed, setting.dependents)),
        )
