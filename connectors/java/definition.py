"""Settings from a Java plugin's ConfigDef; its own recommenders decide what depends on other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type, Width
from headrace.config.values import Password, as_text, read

Offers = Callable[[Mapping[str, str]], Mapping[str, Mapping[str, Any]]]
"""Returns the recommenders' answers for a config, by setting."""
Checks = Callable[[str, str | None], str | None]
"""Returns why the plugin's validator refuses a text for the setting of this name; None if it accepts it."""


class JavaRecommender:
    """Asks the recommenders of one plugin, once for all settings of a config."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._last: tuple[Mapping[str, str], Mapping[str, Mapping[str, Any]]] | None = None

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values to offer."""
        values: Sequence[Any] = self._said(name, parsed).get("offers", ())
        return values

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """True if the setting currently matters."""
        return bool(self._said(name, parsed).get("visible", True))

    def _said(self, name: str, parsed: Mapping[str, Any]) -> Mapping[str, Any]:
        texts = {key: text for key, value in parsed.items() if (text := _text(value)) is not None}
        last = self._last
        if last is None or last[0] != texts:
            last = self._last = texts, self._offers(texts)
        return last[1].get(name, {})


def settings_of(described: Sequence[Mapping[str, Any]], offers: Offers, checks: Checks | None = None) -> Settings:
    """Return the settings of a definition; internal ones are hidden, as in Connect.

    `checks`: asks the validators of a plugin that, unlike a connector, has no `validate` of its own.
    """
    recommender = JavaRecommender(offers)
    return Settings(*(_setting(one, recommender, checks) for one in described if not one["internal"]))


class JavaValidator:
    """Asks the validators of a plugin's settings."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def __call__(self, name: str, value: Any) -> str | None:
        """Return why the validator refuses this value; None if it accepts it."""
        return self._checks(name, _text(value))

    def __str__(self) -> str:
        return "what the plugin accepts"


def _setting(one: Mapping[str, Any], recommender: JavaRecommender, checks: Checks | None) -> Setting:
    of_type = Type(one["type"])
    default: Any = REQUIRED
    if "default" in one:
        text = one["default"]
        default = None if text is None else read(one["name"], of_type, text)
        default = default.value if isinstance(default, Password) else default
    return Setting(
        one["name"],
        of_type,
        default,
        JavaValidator(checks) if checks is not None and one["validates"] else None,
        importance=Importance(one["importance"]),
        documentation=one["documentation"],
        group=one["group"],
        order=one["order"],
        width=Width(one["width"]),
        display_name=one["display_name"],
        dependents=tuple(one["dependents"]),
        recommender=recommender if one["recommends"] else None,
        is_plugin=False,
    )


def _text(value: Any) -> str | None:
    return value.value if isinstance(value, Password) else as_text(value)
